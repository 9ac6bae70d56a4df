#include "saccade/nn/kernels/outlier_inputs.h"

#include <algorithm>
#include <cmath>

#include "saccade/nn/linear/packed_linear.h"
#include "saccade/nn/parameters.h"

namespace saccade::nn {

int64_t outlier_inputs(const std::vector<Tensor>& weights) {
  if (weights.empty()) return 0;
  const int64_t in = weights.front().size(1);
  std::vector<double> lengths(static_cast<size_t>(in));
  constexpr int64_t kOutputs = 64;  // tell a length to a tenth: what is asked for is a factor of 24
  for (const Tensor& weight : weights) {
    const int64_t outputs = weight.size(0);
    for (int64_t i = 0; i < std::min(kOutputs, outputs); ++i) {
      const Tensor row = weight[i * outputs / std::min(kOutputs, outputs)].to(DType::kF32).contiguous();
      const float* values = row.data<float>();
      for (int64_t c = 0; c < in; ++c) {
        lengths[static_cast<size_t>(c)] += static_cast<double>(values[c]) * values[c];
      }
    }
  }
  // Damaged weights are reported when embeddings are computed; here they count as zero.
  for (double& length : lengths) length = std::isfinite(length) ? std::sqrt(length) : 0;
  std::vector<double> sorted = lengths;
  const auto middle = sorted.begin() + in / 2;
  std::nth_element(sorted.begin(), middle, sorted.end());
  return std::count_if(lengths.begin(), lengths.end(),
                       [&](double length) { return length < *middle / 24 && length > *middle / 1000; });
}

DType packing_of_first(const std::vector<Tensor>& weights, DType dtype) {
  if (dtype != DType::kI8) return dtype;
  const int64_t outliers = outlier_inputs(weights);
  for (const Tensor& weight : weights) release_borrowed(weight);  // this tower may not be used
  if (outliers == 0) return dtype;
  return multiplies(DType::kBF16) ? DType::kBF16 : DType::kF32;
}

}  // namespace saccade::nn
