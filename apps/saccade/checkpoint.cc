#include "checkpoint.h"

#include "saccade/model/precision.h"

#include "choice.h"
#include "number.h"

namespace saccade::app {

EncoderOptions options_of(const EncoderChoice& choice) {
  EncoderOptions options;
  options.precision = choice.precision;
  options.threads = choice.threads;
  options.fingerprints = user_fingerprint_memory();
  return options;
}

void add_encoder_options(CLI::App& command, EncoderChoice& choice) {
  add_choice(command, "--precision", choice.precision, "number format of the encoder's arithmetic");
  command.add_option("--threads", choice.threads, "number of threads; 0: one for each processor")
      ->transform(whole_number(0, 1024))
      ->capture_default_str();
}

Result<LoadedEncoder> load_checkpoint(const std::filesystem::path& named, const EncoderChoice& choice,
                                      bool every_byte) {
  EncoderOptions options = options_of(choice);
  options.fingerprints.trusted = !every_byte;
  return saccade::load_checkpoint(named.string(), options);
}

std::optional<MeasuredLength> measured_length_of(const LoadedEncoder& loaded, Messages& messages) {
  const auto measured = read_measured_lengths(loaded.id.path, loaded.id.fingerprint);
  if (measured) return longest_measured(*measured);
  messages.warning("what the model effectively reads is not known: " + measured.error().message);
  return std::nullopt;
}

void warn_of_separate_spaces(const LoadedEncoder& loaded, Messages& messages) {
  if (const auto text = separate_spaces_warning(loaded)) messages.warning(*text);
}

void warn_of_guessed_preprocessing(const LoadedEncoder& loaded, Messages& messages) {
  if (const auto text = guessed_preprocessing_warning(loaded)) messages.warning(*text);
}

}  // namespace saccade::app
