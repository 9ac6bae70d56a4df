// Packed layer that is packed at its first use. So if only one of a checkpoint's two towers is used, only
// that one costs time and memory.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "saccade/nn/linear/packed_linear.h"

namespace saccade::nn {

class PackedOnDemand {
 public:
  // Keeps the unpacked layers until get(), without reading mapped or shared memory. weights: each [outputs,
  // in], of layers with the same input; biases: each [outputs], one per weight, or empty.
  PackedOnDemand(std::vector<Tensor> weights, std::vector<Tensor> biases, DType dtype)
      : weights_(std::move(weights)), biases_(std::move(biases)), dtype_(dtype) {}

  // Returns the layers packed as one, with their outputs side by side. Packs at the first call, on the
  // workspace's threads or, if it is nullptr, on the calling thread. Releases pages of a mapped checkpoint
  // that were read. Thread-safe. Throws the exceptions of PackedLinear; a later call then tries again.
  [[nodiscard]] const PackedLinear& get(Workspace* workspace);
  // Returns the transposed layer without biases, which propagates gradients from outputs to inputs. Packed at
  // its first use, which costs the weights' memory once more; in float32 if get() packs 8-bit integers.
  [[nodiscard]] const PackedLinear& get_transposed(Workspace* workspace);

 private:
  std::vector<Tensor> weights_;  // kept for get_transposed(): of a mapped checkpoint that costs nothing
  std::vector<Tensor> biases_;
  DType dtype_;
  std::once_flag once_, transposed_once_;
  std::unique_ptr<const PackedLinear> packed_, transposed_;
};

}  // namespace saccade::nn
