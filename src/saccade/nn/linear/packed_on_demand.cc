#include "saccade/nn/linear/packed_on_demand.h"

#include "saccade/nn/operations.h"
#include "saccade/nn/parameters.h"

namespace saccade::nn {
namespace {

Tensor joint(std::vector<Tensor> parts, Workspace* workspace) {
  if (parts.empty()) return Tensor();
  if (parts.size() == 1) return parts.front();
  parts.front() =
      parts.front().in(workspace);  // on its threads, and in memory that the next layer takes again
  return cat(parts).in(nullptr);
}

}  // namespace

const PackedLinear& PackedOnDemand::get(Workspace* workspace) {
  std::call_once(once_, [&] {
    packed_ = std::make_unique<PackedLinear>(joint(weights_, workspace), joint(biases_, workspace), dtype_,
                                             workspace);
    for (const Tensor& packed : weights_) release_borrowed(packed);
    biases_.clear();
  });
  return *packed_;
}

const PackedLinear& PackedOnDemand::get_transposed(Workspace* workspace) {
  std::call_once(transposed_once_, [&] {
    const DType dtype = dtype_ == DType::kI8 ? DType::kF32 : dtype_;
    transposed_ = std::make_unique<PackedLinear>(joint(weights_, workspace).t(), Tensor(), dtype, workspace);
    for (const Tensor& packed : weights_) release_borrowed(packed);
  });
  return *transposed_;
}

}  // namespace saccade::nn
