// The two costly parts of a transformer's block where gradients are wanted, on the CPU: libtorch without MKL
// leaves products of float32 to OpenBLAS, whose threads wait by spinning, and makes a call of each of
// attention's many small ones. Also what stands between tensors and the kernels, with gradients or without.
#pragma once

#include "saccade/nn/kernels.h"
#include "saccade/nn/torch.h"

namespace saccade::nn {

// Whether x is where and of a type that kernels.h works on: on the CPU, float32 or bfloat16.
bool is_for_kernels(const torch::Tensor& x);
// Of such a type.
Element element_of(at::ScalarType dtype);

// Whether the function below takes x: on the CPU, of float32.
bool takes_linear_with_gradient(const torch::Tensor& x);

// x: [..., in]; weight: [out, in]; bias: [out] or undefined. As at::linear, to rounding; once differentiable.
torch::Tensor linear_with_gradient(const torch::Tensor& x, const torch::Tensor& weight,
                                   const torch::Tensor& bias);

// As nn::attention (layers.h), to rounding, without gradients.
torch::Tensor fused_attention(const torch::Tensor& qkv, int64_t heads, const torch::Tensor& mask,
                              double scale);
// The same; once differentiable, in qkv alone. Memory: qkv is kept, the weights are not.
torch::Tensor attention_with_gradient(const torch::Tensor& qkv, int64_t heads, const torch::Tensor& mask,
                                      double scale);

// What kernels.h needs to know of qkv [batch, tokens, 3 * width] (contiguous) and of a mask that broadcasts
// to [batch, heads, tokens, tokens]; `mask` is what the task points into afterwards.
void describe_attention(const torch::Tensor& qkv, int64_t heads, double scale, torch::Tensor& mask,
                        AttentionTask& task);

}  // namespace saccade::nn
