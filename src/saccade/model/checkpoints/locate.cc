#include "saccade/model/checkpoints/locate.h"

#include <algorithm>
#include <cstdlib>
#include <system_error>
#include <vector>

#include "saccade/core/files/installed.h"
#include "saccade/core/json.h"
#include "saccade/hub/cache.h"
#include "saccade/hub/select.h"
#include "saccade/hub/settings.h"
#include "saccade/model/checkpoints/alias.h"
#include "saccade/model/checkpoints/checkpoint.h"

namespace saccade {

namespace fs = std::filesystem;

namespace {

// Finds a checkpoint that comes with Saccade. `otherwise`: advice for the error message.
Result<fs::path> shipped_checkpoint(const char* name, const char* variable, const char* otherwise) {
  const char* named = std::getenv(variable);
  if (named != nullptr && *named != '\0') return fs::path(named);
  std::vector<fs::path> places;
  for (const fs::path& prefix : install_prefixes()) places.push_back(prefix / "share/saccade/models" / name);
  if (const fs::path models = SACCADE_SOURCE_MODELS; !models.empty()) places.push_back(models / name);
  for (const fs::path& place : places) {
    if (looks_like_checkpoint(place)) return place;
  }
  return fail(ErrorCode::kNotFound, "no {}, neither in {} nor in {}: {}", name, places.front().string(),
              places.back().string(), otherwise);
}

// Returns true for a folder of `saccade train`, by the kind in its run.json.
bool is_training(const fs::path& folder) {
  const auto run = read_json(folder / "run.json");
  if (!run) return false;
  const auto kind = json_field<std::string>(*run, "kind");
  return kind && kind->starts_with("train ");
}

}  // namespace

Result<fs::path> starter_checkpoint() {
  return shipped_checkpoint("starter", "SACCADE_STARTER", "name a checkpoint's folder with -m");
}

Result<fs::path> editor_checkpoint() {
  return shipped_checkpoint("editor", "SACCADE_EDITOR",
                            "name one with --editor, as `saccade train editor` makes it");
}

Result<fs::path> find_composer(const std::string& named) {
  std::error_code ignored;
  if (named != kStarterName || fs::exists(named, ignored)) return fs::path(named);
  return shipped_checkpoint("starter-composer", "SACCADE_COMPOSER",
                            "name one's folder, as `saccade train composed` makes it");
}

Result<fs::path> find_checkpoint(const std::string& named) {
  std::error_code ignored;
  if (fs::exists(named, ignored)) return fs::path(named);
  if (named == kStarterName) return starter_checkpoint();
  if (const auto target = checkpoint_of_alias(named)) {
    // A target has a slash, which an alias cannot have, so it is not an alias itself.
    return find_checkpoint(*target).in(fmt::format("\"{}\" stands for {}", named, *target));
  }
  const auto name = hub::parse_model_name(named);
  if (!name) return fs::path(named);
  SACCADE_ASSIGN(const fs::path cache, hub::cache_from_environment());
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

Result<fs::path> checkpoint_of(const CheckpointId& made_with, const fs::path& given) {
  if (!given.empty()) return given;
  if (looks_like_checkpoint(made_with.path)) return fs::path(made_with.path);
  if (made_with.name == "starter") {
    auto starter = starter_checkpoint();
    if (starter) return starter;
  }
  const auto gone = [&](const std::string& beside) {
    return fail(ErrorCode::kNotFound,
                "the collection's checkpoint {} is no longer in {}{}: name its folder with -m",
                made_with.name, made_with.path, beside);
  };
  if (!hub::parse_model_name(made_with.name)) return gone("");
  auto cached = find_checkpoint(made_with.name);
  return cached ? cached : gone(fmt::format(" ({})", cached.error().message));
}

Result<std::vector<fs::path>> checkpoints_in(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    return fail(ErrorCode::kNotFound, "{}: not a folder", folder.string());
  }
  if (looks_like_checkpoint(folder)) return std::vector<fs::path>{folder};
  std::vector<fs::path> found;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_directory(ignored) && looks_like_checkpoint(entry->path())) found.push_back(entry->path());
  }
  if (error) return fail_errno(error.value(), folder.string());
  std::ranges::sort(found);
  return found;
}

std::string checkpoint_name(const fs::path& folder) {
  std::error_code error;
  fs::path named = fs::absolute(folder, error).lexically_normal();
  if (error) named = folder;
  if (!named.has_filename()) named = named.parent_path();
  if (const auto model = hub::model_of_snapshot(named)) return model->repository();
  const fs::path run = named.parent_path();
  // "starter" means the checkpoint that comes with the program.
  if (named.filename() == "model" && run.filename() != kStarterName && is_training(run)) named = run;
  return named.filename().string();
}

Result<LoadedEncoder> load_checkpoint(const std::string& named, const BackendOptions& options) {
  SACCADE_ASSIGN(const fs::path folder, find_checkpoint(named));
  LoadedEncoder loaded;
  SACCADE_ASSIGN(loaded.encoder, load_encoder(folder, options));
  std::error_code error;
  fs::path absolute = fs::weakly_canonical(folder, error);
  if (error) absolute = folder;
  loaded.id = {.name = checkpoint_name(absolute),
               .path = absolute.string(),
               .fingerprint = loaded.encoder->info().fingerprint,
               .dim = loaded.encoder->info().dim};
  return loaded;
}

std::optional<std::string> separate_spaces_warning(const LoadedEncoder& loaded) {
  if (loaded.encoder->info().shared_space) return std::nullopt;
  return fmt::format(
      "checkpoint {}: no training has brought its images and texts into one space; ranking the ones by the "
      "others is chance",
      loaded.id.name);
}

std::optional<std::string> guessed_preprocessing_warning(const LoadedEncoder& loaded) {
  const EncoderInfo& info = loaded.encoder->info();
  if (!info.preprocessing_guessed || info.image_width == 0) return std::nullopt;
  if (!hub::model_of_snapshot(loaded.id.path)) return std::nullopt;
  return fmt::format(
      "checkpoint {0}: no preprocessor_config.json in the cache, so images are treated as its family "
      "usually has it ({1}); `saccade model pull {0}` brings the file if the hub has it",
      loaded.id.name, loaded.encoder->preprocessing().describe());
}

}  // namespace saccade
