// A linear layer whose products are made of 8-bit integers: weights with a scale for each output, activations
// with one for each row, found anew for every row; in between and around it all is float32.
//
// Inputs that the weights weigh little are large as a rule (the outlier channels of transformers), so first
// each input's weights are divided by a factor that makes them as large as every other input's, and the
// activations are multiplied by it: both sides then have as many digits for an input as it counts.
#pragma once

#include <cstdint>
#include <vector>

#include "saccade/nn/activation.h"
#include "saccade/nn/tensor.h"

namespace saccade::nn {

class Int8Linear {
 public:
  // weight: [out, in] of any floating type, in <= kMostInt8Inputs; bias: [out] or undefined. Copies
  // the weights, on the workspace's threads (nullptr: on the calling one): an output's largest becomes
  // 127. An output of which a weight is not finite is NaN in all results. The same bits for any
  // processor and number of threads.
  Int8Linear(const Tensor& weight, const Tensor& bias, Workspace* workspace = nullptr);

  // result = activation(x * weight^T + bias), or is added to. x: [..., in] float32 or bfloat16, contiguous;
  // result: [..., out] float32, or bfloat16 where it is not added to, contiguous. A row's results do not
  // depend on the rows beside it, nor on the threads.
  void run(const Tensor& x, const Tensor& result, Activation activation, bool accumulate) const;

 private:
  int64_t in_ = 0;
  int64_t out_ = 0;
  int64_t groups_ = 0;                // of four inputs
  int64_t panels_ = 0;                // of kPanelOutputs outputs
  Tensor weights_;                    // [panels, groups, kPanelOutputs, 4] uint8
  std::vector<float> factors_;        // [in]
  std::vector<float> scales_, bias_;  // [panels * kPanelOutputs]
  std::vector<int32_t> sums_;         // [panels * kPanelOutputs], of the packed weights
};

}  // namespace saccade::nn
