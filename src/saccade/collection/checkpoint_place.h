// Location of a collection's checkpoint after it has been moved.
#pragma once

#include <filesystem>

#include "saccade/core/error.h"
#include "saccade/model/checkpoints/checkpoint_id.h"

namespace saccade {

// Writes the checkpoint's name and place into collection.json where they are others than before: whoever was
// told once where it went need not be told again. kMismatch for another checkpoint; kIo where the collection
// cannot be written, or another process writes it: nothing has changed then.
Status remember_checkpoint(const std::filesystem::path& collection, const CheckpointId& checkpoint);

}  // namespace saccade
