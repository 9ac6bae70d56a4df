#include "checkpoint.h"

#include <cstdlib>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "saccade/hub/cache.h"
#include "saccade/hub/select.h"
#include "saccade/hub/settings.h"
#include "saccade/model/outline.h"

#include "number.h"

namespace saccade::app {

Result<std::filesystem::path> starter_checkpoint() {
  const char* named = std::getenv("SACCADE_STARTER");
  if (named != nullptr && *named != '\0') return std::filesystem::path(named);
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) {
    const auto beside = program.parent_path().parent_path() / "share" / "saccade" / "models" / "starter";
    if (looks_like_checkpoint(beside)) return beside;
  }
  const std::filesystem::path source = SACCADE_SOURCE_STARTER;
  if (looks_like_checkpoint(source)) return source;
  return fail(ErrorCode::kNotFound, "no starter checkpoint in {}: name a checkpoint's folder with -m",
              source.string());
}

Result<std::filesystem::path> checkpoint_of(const CollectionInfo& info, const std::filesystem::path& given) {
  if (!given.empty()) return given;
  if (looks_like_checkpoint(info.checkpoint.path)) return std::filesystem::path(info.checkpoint.path);
  if (info.checkpoint.name == "starter") {
    auto starter = starter_checkpoint();
    if (starter) return starter;
  }
  if (hub::parse_model_name(info.checkpoint.name)) return find_checkpoint(info.checkpoint.name);
  return fail(ErrorCode::kNotFound,
              "the collection's checkpoint {} is no longer in {}: name its folder with -m",
              info.checkpoint.name, info.checkpoint.path);
}

Result<std::filesystem::path> find_checkpoint(const std::string& named) {
  std::error_code ignored;
  const auto name = hub::parse_model_name(named);
  if (!name || std::filesystem::exists(named, ignored)) return std::filesystem::path(named);
  SACCADE_ASSIGN(const std::filesystem::path cache, hub::cache_from_environment());
  const auto cached = hub::find_cached(cache, *name);
  if (!cached) {
    return fail(cached.error().code,
                "checkpoint {}: no such folder, and {}; `saccade model pull {}` brings it", named,
                cached.error().message, named);
  }
  const auto missing = hub::missing_files(cached->path);
  if (missing && missing->empty()) return cached->path;
  return fail(ErrorCode::kNotFound,
              "checkpoint {}: in the cache without {}; `saccade model pull {}` brings it", named,
              missing ? missing->front() : std::string("its weights"), named);
}

std::string checkpoint_name(const std::filesystem::path& folder) {
  const auto model = hub::model_of_snapshot(folder);
  return model ? model->repository() : folder.filename().string();
}

Precision precision_of(const EncoderChoice& choice) {
  return choice.precision == "bf16" ? Precision::kBf16 : Precision::kFp32;
}

void add_encoder_options(CLI::App& command, EncoderChoice& choice) {
  command.add_option("--precision", choice.precision, "of the encoder")
      ->check(CLI::IsMember({"fp32", "bf16"}))
      ->capture_default_str();
  command.add_option("--threads", choice.threads, "0: all processors")
      ->transform(whole_number(0, 1024))
      ->capture_default_str();
}

std::optional<MeasuredLength> measured_length_of(const LoadedEncoder& loaded, Messages& messages) {
  const auto measured = read_measured_lengths(loaded.id.path, loaded.id.fingerprint);
  if (measured) return longest_measured(*measured);
  messages.warning("what the model effectively reads is not known: " + measured.error().message);
  return std::nullopt;
}

Result<LoadedEncoder> load_checkpoint(const std::filesystem::path& named, const EncoderChoice& choice) {
  SACCADE_ASSIGN(const std::filesystem::path folder, find_checkpoint(named.string()));
  EncoderOptions options;
  options.precision = precision_of(choice);
  options.threads = choice.threads;
  LoadedEncoder loaded;
  SACCADE_ASSIGN(loaded.encoder, load_encoder(folder, options));
  std::error_code error;
  std::filesystem::path absolute = std::filesystem::weakly_canonical(folder, error);
  if (error) absolute = folder;
  loaded.id.path = absolute.string();
  loaded.id.name = checkpoint_name(absolute);
  loaded.id.fingerprint = loaded.encoder->info().fingerprint;
  loaded.id.dim = loaded.encoder->info().dim;
  return loaded;
}

void warn_of_separate_spaces(const LoadedEncoder& loaded, Messages& messages) {
  if (loaded.encoder->info().shared_space) return;
  messages.warning(
      fmt::format("checkpoint {}: no training has brought its pictures and texts into one space; ranking the "
                  "ones by the others is chance",
                  loaded.id.name));
}

void warn_of_guessed_preprocessing(const LoadedEncoder& loaded, Messages& messages) {
  const std::filesystem::path folder = loaded.id.path;
  if (!hub::model_of_snapshot(folder)) return;
  for (const char* name : {"preprocessor_config.json", "processor_config.json", "open_clip_config.json"}) {
    std::error_code ignored;
    if (std::filesystem::exists(folder / name, ignored)) return;
  }
  messages.warning(fmt::format(
      "checkpoint {0}: no preprocessor_config.json in the cache, so pictures are treated as its family "
      "usually has it ({1}); `saccade model pull {0}` brings the file if the hub has it",
      loaded.id.name, loaded.encoder->preprocessing().describe()));
}

}  // namespace saccade::app
