// Test helpers for tensor computations: input values, and the difference of two tensors.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "saccade/nn/activation.h"
#include "saccade/nn/linear/packed_linear.h"
#include "saccade/nn/parameters.h"
#include "saccade/nn/tensor.h"

// Ends a test on processors without bfloat16 products. There oneDNN refuses them, and encoders return an
// error (Int8.OlderProcessorsConform).
#define SACCADE_NEEDS_BF16() \
  if (!saccade::nn::multiplies(saccade::DType::kBF16)) GTEST_SKIP() << "no products in bf16 on this processor"

namespace saccade::test {

// Returns normally distributed values, deterministic in seed and shape.
inline nn::Tensor random_tensor(const nn::Shape& shape, uint32_t seed, float scale = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  nn::Tensor tensor = nn::Tensor::empty(shape);
  for (float& value : tensor.floats()) value = scale * normal(random);
  return tensor;
}

// Rounds to bfloat16, in float32.
inline nn::Tensor rounded(const nn::Tensor& x) {
  return x.to(DType::kBF16).to(DType::kF32);
}

// Computes an activation by its definition.
inline double slow_activation(double x, nn::Activation activation) {
  using nn::Activation;
  switch (activation) {
    case Activation::kGelu:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::kQuickGelu:
      return x / (1 + std::exp(-1.702 * x));
    case Activation::kGeluTanh:
      // Approximation by tanh of Hendrycks and Gimpel 2016, "Gaussian Error Linear Units", section 2.
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
    case Activation::kRelu:
      return std::max(x, 0.0);
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
    case Activation::kNone:
      break;
  }
  return x;
}

// Fresh parameters that an oracle can read. Constant initial values are perturbed a little, so that an
// omitted gain or bias shows.
class RandomParameters : public nn::ParameterSource {
 public:
  explicit RandomParameters(uint32_t seed) : seed_(seed) {}
  Result<nn::Tensor> take(const std::string& name, const std::vector<int64_t>& shape,
                          nn::Init init) override {
    const nn::Tensor tensor =
        random_tensor(shape, seed_++, init.std > 0 ? static_cast<float>(init.std) : 0.1F);
    for (float& value : tensor.floats()) value += static_cast<float>(init.mean);
    if (!parameters_.emplace(name, tensor).second) return fail(ErrorCode::kInternal, "{} twice", name);
    return tensor;
  }
  [[nodiscard]] const nn::TensorMap& parameters() const { return parameters_; }

 private:
  uint32_t seed_;
  nn::TensorMap parameters_;
};

// Returns the largest |a - b|; infinite if the shapes differ or a value is not finite.
inline double max_difference(const nn::Tensor& a, const nn::Tensor& b) {
  if (a.sizes() != b.sizes()) return std::numeric_limits<double>::infinity();
  const nn::Tensor x = a.to(DType::kF64).contiguous();
  const nn::Tensor y = b.to(DType::kF64).contiguous();
  double largest = 0;
  for (int64_t i = 0; i < x.numel(); ++i) {
    const double difference = std::abs(x.data<double>()[i] - y.data<double>()[i]);
    if (!std::isfinite(difference)) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, difference);
  }
  return largest;
}

// Returns the L2 norm of all values as one vector.
inline double norm_of(const nn::Tensor& tensor) {
  const nn::Tensor x = tensor.to(DType::kF64).contiguous();
  double square = 0;
  for (int64_t i = 0; i < x.numel(); ++i) square += x.data<double>()[i] * x.data<double>()[i];
  return std::sqrt(square);
}

}  // namespace saccade::test
