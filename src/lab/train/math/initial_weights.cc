#include "lab/train/math/initial_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace saccade::lab {

Status begin_with(const TorchMap& tensors, const TorchMap& parameters, const std::string& where) {
  for (const auto& [name, tensor] : parameters) {
    const auto found = tensors.find(name);
    if (found == tensors.end()) {
      return fail(ErrorCode::kMismatch, "{}: no tensor {}, which the config's architecture has", where, name);
    }
    if (found->second.sizes() != tensor.sizes() || !found->second.is_floating_point()) {
      return fail(ErrorCode::kMismatch,
                  "{}: tensor {} is {} of {}, the config's architecture has float of {}", where, name,
                  c10::toString(found->second.scalar_type()),
                  fmt::format("[{}]", fmt::join(found->second.sizes(), ", ")),
                  fmt::format("[{}]", fmt::join(tensor.sizes(), ", ")));
    }
  }
  const torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : parameters) torch::Tensor(tensor).copy_(tensors.at(name));
  return {};
}

}  // namespace saccade::lab
