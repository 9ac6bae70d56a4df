// Resolution of checkpoint names to folders and loaded encoders: folders, models of the hub's cache, the
// starter.
//
// Locations come from the environment: HF_HUB_CACHE and related variables (hub/settings.h), SACCADE_STARTER,
// SACCADE_EDITOR, SACCADE_COMPOSER. Nothing is printed; messages for people are returned as text.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/model/checkpoints/checkpoint_id.h"
#include "saccade/model/encoder_backend.h"

namespace saccade {

// Returns the checkpoint that comes with Saccade, the first one found of: $SACCADE_STARTER,
// ../share/saccade/models/starter beside the program, models/starter of the source tree it was built from.
// kNotFound names the option to use.
Result<std::filesystem::path> starter_checkpoint();
// Returns the editor that comes with Saccade (editor.h), found likewise by $SACCADE_EDITOR and models/editor.
Result<std::filesystem::path> editor_checkpoint();
// Returns the folder of a composer by its name: a folder, which takes precedence, or "starter". The starter's
// composer is found likewise, by $SACCADE_COMPOSER and models/starter-composer. Any other name is returned
// unchanged, so that opening it reports the error.
Result<std::filesystem::path> find_composer(const std::string& named);

// Returns the folder of a checkpoint by its name: a folder, or OWNER/NAME[@REVISION] of a model in the hub's
// cache. A folder of that name takes precedence. kNotFound explains how to get a missing model. Any other
// name is returned unchanged, so that opening it reports the error.
Result<std::filesystem::path> find_checkpoint(const std::string& named);

// Returns the folder itself if it is a checkpoint, else the checkpoints directly below it, sorted by path.
// Returns kNotFound if it is not a folder.
Result<std::vector<std::filesystem::path>> checkpoints_in(const std::filesystem::path& folder);

// Returns the checkpoint that a collection was created with. Tries `given` if not empty, else its former
// location, else the starter or the hub's cache if it came from there. kNotFound explains how to specify it.
Result<std::filesystem::path> checkpoint_of(const CheckpointId& made_with,
                                            const std::filesystem::path& given);

// Returns the display name of the checkpoint in a folder. It is OWNER/NAME in a hub's cache, and the run folder's
// name for the result of a training (RUN/model). Other checkpoints have the name of their folder.
std::string checkpoint_name(const std::filesystem::path& folder);

struct LoadedEncoder {
  std::unique_ptr<EncoderBackend> encoder;
  CheckpointId id;
};

// Loads a checkpoint; `named` is as for find_checkpoint. Returns the errors of load_encoder. The options
// select the fingerprint cache: user_fingerprint_memory() for a person's own program.
Result<LoadedEncoder> load_checkpoint(const std::string& named, const BackendOptions& options = {});

// Returns a warning for ranking images by texts if this checkpoint was not trained to map both into a shared
// space (EncoderInfo::shared_space).
std::optional<std::string> separate_spaces_warning(const LoadedEncoder& loaded);

// Returns a warning for encoding images if the checkpoint has no preprocessing config
// (EncoderInfo::preprocessing_guessed) and a pull may provide it. Other tools leave snapshots without it in
// the hub's cache. Returns nullopt for a person's own folder, whose contents are intentional.
std::optional<std::string> guessed_preprocessing_warning(const LoadedEncoder& loaded);

}  // namespace saccade
