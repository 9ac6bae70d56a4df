// Linear layer with products of 8-bit integers. Weights have one scale per output; activations have one scale
// per row, computed for each row. All other values are float32.
//
// Inputs with small weights have large values as a rule (the outlier channels of transformers). Therefore
// each input's weights are first divided by a factor that equalizes the inputs' weight norms, and the
// activations are multiplied by it. Both sides then spend precision on an input in proportion to its
// importance.
#pragma once

#include <cstdint>
#include <vector>

#include "saccade/nn/activation.h"
#include "saccade/nn/tensor.h"

namespace saccade::nn {

class Int8Linear {
 public:
  // Copies and quantizes the weights on the workspace's threads, or on the calling thread if `workspace` is
  // nullptr. weight: [out, in] of any floating type, in <= kMostInt8Inputs; bias: [out] or undefined. The
  // largest weight of each output becomes 127. An output with a weight that is not finite is NaN in all
  // results. The bits are the same for any processor and number of threads.
  Int8Linear(const Tensor& weight, const Tensor& bias, Workspace* workspace = nullptr);

  // Computes result = activation(x * weight^T + bias), or adds to `result` if `accumulate`. x: [..., in]
  // float32 or bfloat16, contiguous. result: [..., out] float32, or bfloat16 without accumulation,
  // contiguous. A row's result does not depend on the rest of the batch, nor on the threads.
  void run(const Tensor& x, const Tensor& result, Activation activation, bool accumulate) const;

 private:
  int64_t in_ = 0;
  int64_t out_ = 0;
  int64_t groups_ = 0;                // groups of four inputs
  int64_t panels_ = 0;                // panels of kPanelOutputs outputs
  Tensor weights_;                    // [panels, groups, kPanelOutputs, 4] uint8
  std::vector<float> factors_;        // [in]
  std::vector<float> scales_, bias_;  // [panels * kPanelOutputs]
  std::vector<int32_t> sums_;         // [panels * kPanelOutputs], of the packed weights
};

}  // namespace saccade::nn
