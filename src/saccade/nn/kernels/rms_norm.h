// Normalization by the root mean square alone (Zhang and Sennrich 2019, "Root Mean Square Layer
// Normalization"): no mean is taken away, no bias added.
#pragma once

#include <string>

#include "saccade/core/error.h"
#include "saccade/nn/operations.h"
#include "saccade/nn/parameters.h"

namespace saccade::nn {

// y = x / sqrt(mean(x^2) + eps) * (gain + offset), over the last dimension.
class RmsNorm {
 public:
  RmsNorm() = default;
  // Parameter "<name>.weight": the gain. offset: 1 where a gain of 0 changes nothing (Gemma).
  static Result<RmsNorm> make(ParameterSource& source, const std::string& name, int64_t width, double eps,
                              double offset = 0);
  // x: [..., width] float32; the result is of `dtype`.
  [[nodiscard]] Tensor forward(const Tensor& x, DType dtype) const { return rms_norm(x, gain_, eps_, dtype); }

 private:
  Tensor gain_;  // the offset is within
  double eps_ = 0;
};

}  // namespace saccade::nn
