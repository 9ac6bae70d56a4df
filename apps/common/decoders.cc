#include "decoders.h"

#include <array>
#include <stdexcept>
#include <string_view>

#include <fmt/format.h>

#include "number.h"

namespace saccade::app {
namespace {

constexpr const char* kMemory = "--decode-memory";

}  // namespace

DecoderPool* Decoders::start(Messages& messages, int64_t max_pixels) {
  if (!memory_mb) throw std::logic_error("a command that decodes images lacks add_decode_options()");
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
  options.budget_bytes = *memory_mb << 20;
  options.memory_bytes = decoder_memory(max_pixels);
  auto pool = DecoderPool::start(std::move(options));
  if (!pool) {
    messages.warning(fmt::format("{}: {}", pool.error().message, kHere));
    return nullptr;
  }
  pool_ = *std::move(pool);
  return pool_.get();
}

void add_decode_options(CLI::App& command) {
  command
      .add_option_function<int64_t>(
          kMemory, [](const int64_t&) {},
          "memory limit of all decoder processes together, in MiB; larger images are refused; 0: a "
          "quarter of the machine's memory")
      ->transform(whole_number(0, 1 << 24))
      ->default_str("0");
}

void add_pixel_limit_option(CLI::App& command, DecodeOptions& limits) {
  add_number(command, "--max-pixels", limits.max_pixels, whole_number(1),
             "maximum size of an image, in pixels (width x height)");
}

void add_decode_options(CLI::App& command, DecodeOptions& limits) {
  add_number(command, "--max-bytes", limits.max_bytes, whole_number(1),
             "maximum size of an image file, in bytes");
  add_pixel_limit_option(command, limits);
  add_number(command, "--max-seconds", limits.max_seconds, real_number(0),
             "maximum decoding time per image, in seconds; 0: no limit");
  add_decode_options(command);
}

std::string with_option_names(std::string text) {
  constexpr std::array<std::array<std::string_view, 2>, 2> kNames = {
      {{"max_pixels (", "--max-pixels ("},
       {"the budget for decoding is", "the budget for decoding, --decode-memory, is"}}};
  for (const auto& [setting, option] : kNames) {
    if (const size_t at = text.rfind(setting); at != std::string::npos) {
      text.replace(at, setting.size(), option);
    }
  }
  return text;
}

std::optional<int64_t> decode_memory_of(const CLI::App& command) {
  const CLI::Option* option = command.get_option_no_throw(kMemory);
  if (option == nullptr) return std::nullopt;
  return option->count() > 0 ? option->as<int64_t>() : 0;
}

}  // namespace saccade::app
