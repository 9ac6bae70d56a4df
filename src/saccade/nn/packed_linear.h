// A linear layer for inference: oneDNN matrix products over weights repacked once into the layout the kernels
// want, with bias, activation or the residual sum done while the result is still in the cache.
#pragma once

#include <memory>
#include <string_view>

#include "saccade/core/error.h"
#include "saccade/nn/torch.h"

namespace saccade::nn {

enum class Activation {
  kNone,
  kGelu,       // x * Phi(x), by erf
  kQuickGelu,  // x * sigmoid(1.702 x)
  kGeluTanh,   // x * Phi(x), by tanh
  kRelu,       // max(x, 0)
  kSilu,       // x * sigmoid(x)
};

// By the name a checkpoint's config gives it ("gelu", "gelu_new", ...); kUnsupported lists the known ones.
Result<Activation> activation_named(std::string_view name);

// The reverse: the first of its names; "linear" for none.
std::string_view activation_name(Activation activation);

torch::Tensor activate(const torch::Tensor& x, Activation activation);

class PackedLinear {
 public:
  // weight: [out, in], bias: [out] or undefined; float32. dtype: kFloat or kBFloat16, what products are made
  // of (sums are float32 either way). Copies the weights.
  PackedLinear(const torch::Tensor& weight, const torch::Tensor& bias, at::ScalarType dtype);
  PackedLinear(const PackedLinear&) = delete;
  PackedLinear& operator=(const PackedLinear&) = delete;
  ~PackedLinear();

  // activation(x * weight^T + bias). x: [..., in] of the
  // packed dtype, contiguous; result [..., out], of `result`.
  torch::Tensor forward(const torch::Tensor& x, Activation activation, at::ScalarType result) const;
  // sum += x * weight^T + bias. sum: [..., out] float32, contiguous.
  void add_to(torch::Tensor& sum, const torch::Tensor& x) const;

  [[nodiscard]] at::ScalarType dtype() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace saccade::nn
