#include "saccade/nn/linear/product_speed.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "saccade/nn/linear/onednn.h"
#include "saccade/nn/linear/packed_linear.h"

namespace saccade::nn {
namespace {

// Returns test values: no two neighbors are equal and none is small, because denormal numbers would be slow.
Tensor waves(Shape shape, float step) {
  Tensor tensor = Tensor::empty(std::move(shape));
  float phase = 0;
  for (float& value : tensor.floats()) value = std::sin(phase += step);
  return tensor;
}

}  // namespace

double product_speed(DType dtype, Workspace& workspace) {
  if (!multiplies(dtype)) return 0;
  constexpr int64_t kRows = 256;
  constexpr int64_t kWidth = 768;
  constexpr int kTimes = 4;
  const PackedLinear layer(waves({kWidth, kWidth}, 1.7F), {}, dtype);
  const Tensor x = waves({kRows, kWidth}, 2.3F).to(layer.dtype()).in(&workspace);
  double best = 0;
  for (int time = 0; time <= kTimes; ++time) {  // the first brings everything into the caches
    const auto start = std::chrono::steady_clock::now();
    (void)layer.forward(x, Activation::kNone, layer.dtype());
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (time > 0) best = std::max(best, 2.0 * kRows * kWidth * kWidth / std::max(took.count(), 1e-9));
  }
  return best;
}

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
