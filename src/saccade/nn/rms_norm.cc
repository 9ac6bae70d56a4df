#include "saccade/nn/rms_norm.h"

namespace saccade::nn {

Result<RmsNorm> RmsNorm::make(ParameterSource& source, const std::string& name, int64_t width, double eps,
                              double offset) {
  RmsNorm layer;
  SACCADE_ASSIGN(layer.weight_, source.take(name + ".weight", {width}, {1 - offset, 0}));
  layer.eps_ = eps;
  layer.offset_ = offset;
  return layer;
}

torch::Tensor RmsNorm::forward(const torch::Tensor& x, at::ScalarType dtype) const {
  const torch::Tensor scale = at::rsqrt(at::square(x).mean(-1, true) + eps_);
  const torch::Tensor gain = offset_ == 0 ? weight_ : weight_ + offset_;
  return (x * scale * gain).to(dtype);
}

}  // namespace saccade::nn
