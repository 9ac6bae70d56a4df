// Layers of an 8-bit encoder kept in higher precision, because their inputs have outliers
// (nn/kernels/outlier_inputs.h).
#pragma once

#include <string>
#include <vector>

#include "saccade/nn/tensor.h"

namespace saccade {

struct WideLayers {
  DType dtype = DType::kF32;       // dtype of these layers, if any
  std::vector<std::string> names;  // as the Hugging Face layout has them: "text_model.encoder.layers.0"
};

}  // namespace saccade
