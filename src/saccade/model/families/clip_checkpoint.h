// A CLIP checkpoint's config, whatever its layout. For the module's own files.
#pragma once

#include "saccade/core/error.h"
#include "saccade/model/checkpoints/checkpoint.h"
#include "saccade/model/families/clip.h"

namespace saccade {

// From the config's file, or where there is none from the tensors' shapes.
// tensors: under the layout's own names.
Result<ClipConfig> read_clip_config(const Checkpoint& checkpoint, const nn::TensorMap& tensors);

}  // namespace saccade
