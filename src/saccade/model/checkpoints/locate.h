// From what people call a checkpoint to a loaded one: folders, models of the hub's cache, the starter.
//
// The environment says where these are: HF_HUB_CACHE and its like (hub/settings.h), SACCADE_STARTER,
// SACCADE_EDITOR, SACCADE_COMPOSER. Nothing is printed: what a person should be told comes back as a text.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/model/checkpoints/checkpoint_id.h"
#include "saccade/model/encoder.h"

namespace saccade {

// The checkpoint that comes with Saccade: $SACCADE_STARTER, ../share/saccade/models/starter beside the
// program, or models/starter of the source tree it was built from; the first that there is. kNotFound names
// the option to use.
Result<std::filesystem::path> starter_checkpoint();
// The editor beside it (editor.h): likewise, by $SACCADE_EDITOR and models/editor.
Result<std::filesystem::path> editor_checkpoint();
// The folder of a composer by its name: a folder, which goes first, or "starter" for the starter's, likewise
// found, by $SACCADE_COMPOSER and models/starter-composer. What is neither comes back as it is, for whoever
// opens it to complain about.
Result<std::filesystem::path> find_composer(const std::string& named);

// The folder of a checkpoint by its name: a folder, or OWNER/NAME[@REVISION] of a model in the hub's cache; a
// folder of that name goes first. kNotFound says how to get what is not there. What is neither a folder nor a
// hub's name comes back as it is, for whoever opens it to complain about.
Result<std::filesystem::path> find_checkpoint(const std::string& named);

// The folder itself if it is a checkpoint, else the checkpoints right below it,
// by path. kNotFound for what is no folder.
Result<std::vector<std::filesystem::path>> checkpoints_in(const std::filesystem::path& folder);

// The checkpoint that a collection was made with: `given` if not empty, else where it was then, else the
// starter or the hub's cache if it came from there. kNotFound says how to name it.
Result<std::filesystem::path> checkpoint_of(const CheckpointId& made_with,
                                            const std::filesystem::path& given);

// What to call the checkpoint in a folder: OWNER/NAME if it is in a hub's cache, else the folder's own name.
std::string checkpoint_name(const std::filesystem::path& folder);

struct LoadedEncoder {
  std::unique_ptr<EncoderBackend> encoder;
  CheckpointId id;
};

// `named` as for find_checkpoint; errors as of load_encoder. The options say what is remembered of files: for
// a person's own program user_fingerprint_memory().
Result<LoadedEncoder> load_checkpoint(const std::string& named, const BackendOptions& options = {});

// What those should know who rank pictures by texts, where no training has brought these checkpoint's rows
// into one space (EncoderInfo::shared_space).
std::optional<std::string> separate_spaces_warning(const LoadedEncoder& loaded);

// What those should know who encode pictures, where the checkpoint does not say how it wants them
// (EncoderInfo::preprocessing_guessed) and a pull may bring the file that does: other tools leave snapshots
// in the hub's cache without it. Of a person's own folder nothing: what is there was put there.
std::optional<std::string> guessed_preprocessing_warning(const LoadedEncoder& loaded);

}  // namespace saccade
