// A linear layer for inference: oneDNN matrix products over weights repacked once into the layout the kernels
// want, with bias, activation or the residual sum done while the result is still in the cache.
#pragma once

#include <memory>

#include "saccade/nn/activation.h"
#include "saccade/nn/tensor.h"

namespace saccade::nn {

class PackedLinear {
 public:
  // weight: [out, in] of any floating type; bias: [out] or undefined. dtype: kF32 or kBF16, what products are
  // made of (sums are float32 either way). Copies the weights, on as many threads as oneDNN is set to use.
  PackedLinear(const Tensor& weight, const Tensor& bias, DType dtype);
  PackedLinear(const PackedLinear&) = delete;
  PackedLinear& operator=(const PackedLinear&) = delete;
  ~PackedLinear();

  // activation(x * weight^T + bias). x: [..., in] of the
  // packed dtype, contiguous; result [..., out], of `result`.
  [[nodiscard]] Tensor forward(const Tensor& x, Activation activation, DType result) const;
  // sum += x * weight^T + bias. sum: [..., out] float32, contiguous.
  void add_to(const Tensor& sum, const Tensor& x) const;

  [[nodiscard]] DType dtype() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace saccade::nn
