#include "saccade/nn/linear/product_speed.h"

#include "saccade/nn/linear/onednn.h"
#include "saccade/nn/linear/packed_linear.h"

namespace saccade::nn {

bool multiplies(DType dtype) {
  if (dtype != DType::kBF16) return true;
  try {
    (void)PackedLinear(Tensor::zeros({64, 64}), {}, dtype);
    return true;
  } catch (const dnnl::error&) {
    return false;
  }
}

}  // namespace saccade::nn
