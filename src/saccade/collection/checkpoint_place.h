// Location of a collection's checkpoint after it has been moved.
#pragma once

#include <filesystem>

#include "saccade/core/error.h"
#include "saccade/model/checkpoints/checkpoint_id.h"

namespace saccade {

// Writes the checkpoint's name and location into collection.json if they have changed, so that users name a
// moved checkpoint only once. kMismatch for another checkpoint; kIo if the collection cannot be written;
// kCancelled if another process writes it. Nothing has changed after an error.
Status remember_checkpoint(const std::filesystem::path& collection, const CheckpointId& checkpoint);

}  // namespace saccade
