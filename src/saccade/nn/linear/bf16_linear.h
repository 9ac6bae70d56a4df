// Linear layer with products in bfloat16 by a kernel of tiles (kernels/bf16_product_kernels.h).
#pragma once

#include <cstdint>
#include <vector>

#include "saccade/nn/activation.h"
#include "saccade/nn/kernels/bf16_product_kernels.h"
#include "saccade/nn/tensor.h"

namespace saccade::nn {

class Bf16Linear {
 public:
  // Rounds and packs the weights on the workspace's threads, or on the calling thread if `workspace` is nullptr.
  // kernel: borrowed. weight: [out, in] of any floating type; bias: [out] or undefined.
  Bf16Linear(const Bf16Kernel& kernel, const Tensor& weight, const Tensor& bias,
             Workspace* workspace = nullptr);

  // Computes result = activation(x * weight^T + bias), or adds to `result` if `accumulate`. x: [..., in] bfloat16,
  // contiguous. result: [..., out] float32, or bfloat16 without accumulation, contiguous. The caller has checked this.
  void run(const Tensor& x, const Tensor& result, Activation activation, bool accumulate) const;

 private:
  const Bf16Kernel* kernel_ = nullptr;
  int64_t in_ = 0;
  int64_t out_ = 0;
  int64_t panels_ = 0;       // of kPanelOutputs outputs
  Tensor weights_;           // [panels, (in + 1) / 2, kPanelOutputs, 2] bfloat16
  std::vector<float> bias_;  // [panels * kPanelOutputs]
};

}  // namespace saccade::nn
