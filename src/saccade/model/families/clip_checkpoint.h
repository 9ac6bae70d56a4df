// Config of a CLIP checkpoint in any layout.
#pragma once

#include "saccade/core/error.h"
#include "saccade/model/checkpoints/checkpoint.h"
#include "saccade/model/families/clip.h"

namespace saccade {

// Reads the config's file, or derives the config from the tensors' shapes if there is none. tensors: under
// the layout's own names.
Result<ClipConfig> read_clip_config(const Checkpoint& checkpoint, const nn::TensorMap& tensors);

}  // namespace saccade
