// Linear layer for inference. The weights are repacked once into the kernels' layout. Products run in oneDNN
// for float32 and bfloat16, and in our own kernels for 8-bit integers (int8_linear.h), and for bfloat16 on processors with AMX
// (bf16_linear.h). Bias, activation or
// the residual sum are applied while the result is still in the cache.
#pragma once

#include <memory>

#include "saccade/nn/activation.h"
#include "saccade/nn/tensor.h"

namespace saccade::nn {

class PackedLinear {
 public:
  // Copies and packs the weights on the workspace's threads, or on the calling thread if `workspace` is
  // nullptr. weight: [out, in] of any floating type; bias: [out] or undefined. dtype: kF32, kBF16 or kI8, the
  // type of the products (sums are float32, or 32-bit integers).
  PackedLinear(const Tensor& weight, const Tensor& bias, DType dtype, Workspace* workspace = nullptr);
  PackedLinear(const PackedLinear&) = delete;
  PackedLinear& operator=(const PackedLinear&) = delete;
  ~PackedLinear();

  // Computes activation(x * weight^T + bias). x: [..., in] of a supported type, contiguous; result [..., out]
  // of type `result`, float32 or bfloat16.
  [[nodiscard]] Tensor forward(const Tensor& x, Activation activation, DType result) const;
  // Computes sum += x * weight^T + bias. sum: [..., out] float32, contiguous.
  void add_to(const Tensor& sum, const Tensor& x) const;

  // Returns the required dtype of x: kF32 or kBF16. Integer products accept both.
  [[nodiscard]] DType dtype() const;
  [[nodiscard]] bool takes(DType dtype) const;
  // Returns the dtype of this layer's results as input of attention, if other layers use `dtype`. Integer
  // products give bfloat16, which keeps their full precision and has native attention instructions.
  [[nodiscard]] DType attended(DType dtype) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Returns true if this processor supports products in `dtype`. bfloat16 requires AVX-512 or a later
// instruction set.
bool multiplies(DType dtype);

}  // namespace saccade::nn
