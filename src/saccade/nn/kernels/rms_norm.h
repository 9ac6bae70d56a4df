// Root-mean-square normalization (Zhang and Sennrich 2019, "Root Mean Square Layer Normalization"), without
// mean subtraction and bias.
#pragma once

#include <string>

#include "saccade/core/error.h"
#include "saccade/nn/operations.h"
#include "saccade/nn/parameters.h"

namespace saccade::nn {

// Layer y = x / sqrt(mean(x^2) + eps) * (gain + offset), over the last dimension.
class RmsNorm {
 public:
  RmsNorm() = default;
  // Loads the gain "<name>.weight". offset: 1 if the gain is stored relative to 1 (Gemma).
  static Result<RmsNorm> make(ParameterSource& source, const std::string& name, int64_t width, double eps,
                              double offset = 0);
  // Normalizes x: [..., width] float32; the result has `dtype`.
  [[nodiscard]] Tensor forward(const Tensor& x, DType dtype) const { return rms_norm(x, gain_, eps_, dtype); }

 private:
  Tensor gain_;  // the offset is within
  double eps_ = 0;
};

}  // namespace saccade::nn
