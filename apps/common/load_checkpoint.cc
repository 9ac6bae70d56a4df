#include "load_checkpoint.h"

#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "saccade/collection/starter_warning.h"
#include "saccade/core/threads.h"
#include "saccade/model/device/device_name.h"
#include "saccade/model/options/precision_choice.h"
#include "saccade/model/options/precision_names.h"

#include "choice.h"
#include "number.h"

namespace saccade::app {

BackendOptions options_of(const EncoderChoice& choice) {
  BackendOptions options;
  options.precision = choice.precision.value_or(Precision::kFp32);
  options.threads = choice.threads;
  options.device = choice.device;
  options.fingerprints = user_fingerprint_memory();
  return options;
}

void add_encoder_options(CLI::App& command, EncoderChoice& choice, std::string_view default_precision) {
  std::vector<std::string> words;
  for (const EnumName<Precision>& entry : kPrecisionNames) words.emplace_back(entry.name);
  words.emplace_back("auto");
  command
      .add_option_function<std::string>(
          "--precision",
          [&choice](const std::string& word) {
            choice.precision = from_name<Precision>(word);
            choice.fastest = !choice.precision;
          },
          fmt::format(
              "number format of the encoder's arithmetic; auto: the fastest on this machine that preserves "
              "fp32's embeddings (default: {})",
              default_precision))
      ->check(CLI::IsMember(std::move(words)));
  add_threads_option(command, choice.threads);
}

void add_threads_option(CLI::App& command, int& threads) {
  add_number(command, "--threads", threads, whole_number(0, kMostThreads),
             "number of threads; 0: one per processor");
}

void add_device_option(CLI::App& command, EncoderChoice& choice) {
  const auto check = [](const std::string& name) {
    const Status known = check_device_name(name);
    return known ? std::string() : known.error().message;
  };
  command
      .add_option(
          "--device", choice.device,
          "device of the encoder: cpu; cuda for a GPU, or cuda:1 for the second, with checkpoints of CLIP's "
          "family in fp32 or bf16")
      ->check(check)
      ->capture_default_str();
}

Status settle_precision(const std::filesystem::path& named, EncoderChoice& choice, Messages& messages) {
  if (!choice.fastest) return {};
  SACCADE_ASSIGN(const std::filesystem::path folder, find_checkpoint(named.string()));
  SACCADE_ASSIGN(const PrecisionChoice chosen,
                 choose_precision(folder, options_of(choice), user_precision_memory()));
  messages.info(precision_choice_text(chosen));
  choice.precision = chosen.taken;
  choice.fastest = false;
  return {};
}

Result<LoadedEncoder> load_checkpoint(const std::filesystem::path& named, const EncoderChoice& choice,
                                      bool every_byte) {
  BackendOptions options = options_of(choice);
  options.fingerprints.trusted = !every_byte;
  return saccade::load_checkpoint(named.string(), options);
}

void warn_of_starter(const CollectionReader& collection, Messages& messages) {
  if (collection.info().checkpoint.name != kStarterName) return;
  // So many say enough, and cost every search a millisecond.
  constexpr int64_t kMost = 1000;
  // Errors of the collection are reported by the command itself.
  const auto looked = collection.looked(kMost);
  if (!looked) return;
  const std::string text = starter_warning(collection.info(), looked->pictures, looked->photographs);
  if (!text.empty()) messages.warning(text);
}

void warn_of_separate_spaces(const LoadedEncoder& loaded, Messages& messages) {
  if (const auto text = separate_spaces_warning(loaded)) messages.warning(*text);
}

void warn_of_guessed_preprocessing(const LoadedEncoder& loaded, Messages& messages) {
  if (const auto text = guessed_preprocessing_warning(loaded)) messages.warning(*text);
}

}  // namespace saccade::app
