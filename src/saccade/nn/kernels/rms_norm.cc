#include "saccade/nn/kernels/rms_norm.h"

namespace saccade::nn {

Result<RmsNorm> RmsNorm::make(ParameterSource& source, const std::string& name, int64_t width, double eps,
                              double offset) {
  RmsNorm layer;
  SACCADE_ASSIGN(const Tensor weight, source.take(name + ".weight", {width}, {1 - offset, 0}));
  layer.gain_ = offset == 0 ? weight : weight + Tensor::full({}, static_cast<float>(offset));
  layer.eps_ = eps;
  return layer;
}

}  // namespace saccade::nn
