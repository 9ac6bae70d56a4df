// Reading of a checkpoint's preprocessing (saccade/preprocessing.h) from its configuration files.
#pragma once

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/image/image_view.h"
#include "saccade/preprocessing.h"

namespace saccade {

// Reads preprocessor_config.json of the Hugging Face layout; `image_size` is the vision config's, used if the
// file has none. Unknown fields that could change the pixels are refused, by name. Optional fields of our own
// under "saccade": {"alpha": "drop|composite", "background": [r, g, b], "pipeline":
// "hugging_face|open_clip|big_vision"}.
Result<Preprocessing> preprocessing_from_hugging_face(const Json& preprocessor_config, int image_size);
// Reads "preprocess_cfg" of open_clip_config.json; conversions have OpenCLIP's order and rounding. The same
// fields of our own under "saccade" apply.
Result<Preprocessing> preprocessing_from_open_clip(const Json& preprocess_cfg, int image_size);

// preprocess() (saccade/preprocessing.h) of pixels that lie elsewhere.
Status preprocess(const ImageView& image, const Preprocessing& preprocessing, std::span<float> out);

}  // namespace saccade
