// The two costly parts of a transformer's block where gradients are wanted, on the CPU: what libtorch without
// MKL does with products of float32 is a third of what oneDNN reaches, and with the many small ones of
// attention far less.
#pragma once

#include "saccade/nn/torch.h"

namespace saccade::nn {

// Whether the functions below take x: on the CPU, of float32 (for attention also bfloat16).
bool takes_linear_with_gradient(const torch::Tensor& x);
bool takes_attention_with_gradient(const torch::Tensor& qkv);

// x: [..., in]; weight: [out, in]; bias: [out] or undefined. As at::linear, to rounding; once differentiable.
torch::Tensor linear_with_gradient(const torch::Tensor& x, const torch::Tensor& weight,
                                   const torch::Tensor& bias);

// As nn::attention (layers.h), to rounding; once differentiable, in qkv alone. Memory: qkv is kept, the
// weights are not.
torch::Tensor attention_with_gradient(const torch::Tensor& qkv, int64_t heads, const torch::Tensor& mask,
                                      double scale);

// What kernels.h needs to know of qkv [batch, tokens, 3 * width] (contiguous) and of a mask that broadcasts
// to [batch, heads, tokens, tokens]; `mask` is what the task points into afterwards.
struct AttentionTask;
void describe_attention(const torch::Tensor& qkv, int64_t heads, double scale, torch::Tensor& mask,
                        AttentionTask& task);

}  // namespace saccade::nn
