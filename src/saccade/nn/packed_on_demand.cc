#include "saccade/nn/packed_on_demand.h"

#include "saccade/nn/operations.h"
#include "saccade/nn/parameters.h"

namespace saccade::nn {

const PackedLinear& PackedOnDemand::get(Workspace* workspace) {
  std::call_once(once_, [&] {
    const auto joint = [&](std::vector<Tensor> parts) {
      if (parts.empty()) return Tensor();
      if (parts.size() == 1) return parts.front();
      parts.front() =
          parts.front().in(workspace);  // on its threads, and in memory that the next layer takes again
      return cat(parts).in(nullptr);
    };
    packed_ = std::make_unique<PackedLinear>(joint(weights_), joint(biases_), dtype_, workspace);
    for (const Tensor& packed : weights_) release_borrowed(packed);
    weights_.clear();
    biases_.clear();
  });
  return *packed_;
}

}  // namespace saccade::nn
