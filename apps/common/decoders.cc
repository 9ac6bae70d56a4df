#include "decoders.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "number.h"

namespace saccade::app {

DecoderPool* Decoders::start(Messages& messages, int64_t max_pixels) {
  if (tried_) return pool_.get();
  tried_ = true;
  constexpr std::string_view kHere =
      "images are decoded in this process: a malicious image can crash it, and HEIC and AVIF are not "
      "supported";
  const auto program = find_decoder_program();
  if (!program) {
    messages.warning(
        fmt::format("no saccade-decode beside this program or in ../libexec/saccade: {}", kHere));
    return nullptr;
  }
  DecoderPoolOptions options;
  options.program = *program;
  options.budget_bytes = memory_mb << 20;
  // Decoders of whole pictures hold them once or twice, at up to 4 bytes a pixel.
  options.memory_bytes = std::max(options.memory_bytes, 8 * std::min(max_pixels, int64_t{1} << 40));
  auto pool = DecoderPool::start(std::move(options));
  if (!pool) {
    messages.warning(fmt::format("{}: {}", pool.error().message, kHere));
    return nullptr;
  }
  pool_ = *std::move(pool);
  return pool_.get();
}

namespace {

// Returns nullptr if there is none of that name.
CLI::App* find_command(CLI::App& app, std::string_view name) {
  const auto found =
      app.get_subcommands([&](const CLI::App* command) { return command->get_name() == name; });
  return found.empty() ? nullptr : found.front();
}

}  // namespace

void add_decode_options(CLI::App& app, Decoders& decoders) {
  // A command, or a command of one.
  constexpr std::array<std::array<const char*, 2>, 24> kCommands = {
      {{"index", ""},         {"watch", ""},          {"search", ""},           {"serve", ""},
       {"embed", ""},         {"illustrate", ""},     {"collection", "import"}, {"collection", "reencode"},
       {"dataset", "audit"},  {"dataset", "fetch"},   {"eval", "answers"},      {"eval", "classification"},
       {"eval", "composed"},  {"eval", "edits"},      {"eval", "length"},       {"eval", "matches"},
       {"eval", "retrieval"}, {"eval", "visualness"}, {"eval", "winoground"},   {"train", "dual"},
       {"train", "head"},     {"train", "composed"},  {"train", "editor"},      {"train", "visualness"}}};
  for (const auto& [name, below] : kCommands) {
    CLI::App* command = find_command(app, name);
    if (command != nullptr && *below != '\0') command = find_command(*command, below);
    if (command == nullptr) continue;  // training lies in a program of its own
    CLI::Option* option =
        add_number(*command, "--decode-memory", decoders.memory_mb, whole_number(0, 1 << 24),
                   "memory limit of all decoder processes together, in MiB; larger images are refused; 0: a "
                   "quarter of the machine's memory");
    // Beside what else bounds the command.
    for (const char* neighbour : {"--max-pixels", "--memory", "--threads"}) {
      if (const CLI::Option* found = command->get_option_no_throw(neighbour)) {
        option->group(found->get_group());
        break;
      }
    }
  }
}

}  // namespace saccade::app
