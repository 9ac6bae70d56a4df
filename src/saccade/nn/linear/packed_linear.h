// A linear layer for inference: matrix products over weights repacked once into the layout the kernels want,
// by oneDNN in float32 and bfloat16 and by our own in 8-bit integers (int8_linear.h), with bias, activation
// or the residual sum done while the result is still in the cache.
#pragma once

#include <memory>

#include "saccade/nn/activation.h"
#include "saccade/nn/tensor.h"

namespace saccade::nn {

class PackedLinear {
 public:
  // weight: [out, in] of any floating type; bias: [out] or undefined. dtype: kF32, kBF16 or kI8, what
  // products are made of (sums are float32, or whole numbers of 32 bits). Copies the weights, on the
  // workspace's threads (nullptr: on the calling one).
  PackedLinear(const Tensor& weight, const Tensor& bias, DType dtype, Workspace* workspace = nullptr);
  PackedLinear(const PackedLinear&) = delete;
  PackedLinear& operator=(const PackedLinear&) = delete;
  ~PackedLinear();

  // activation(x * weight^T + bias). x: [..., in] of a type it takes, contiguous; result [..., out], of
  // `result`: float32 or bfloat16.
  [[nodiscard]] Tensor forward(const Tensor& x, Activation activation, DType result) const;
  // sum += x * weight^T + bias. sum: [..., out] float32, contiguous.
  void add_to(const Tensor& sum, const Tensor& x) const;

  // What x has to be: kF32 or kBF16. Products of integers take either.
  [[nodiscard]] DType dtype() const;
  [[nodiscard]] bool takes(DType dtype) const;
  // What attention is given of its results, where others are of `dtype`: of products of integers bfloat16,
  // which keeps all that they tell and has instructions of its own.
  [[nodiscard]] DType attended(DType dtype) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace saccade::nn
