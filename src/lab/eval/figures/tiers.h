// Tiers of systems that cannot be told apart.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace saccade::lab {

// Groups systems. `order`: the systems, best first. A tier holds the best of those that remain and all that told_apart(one,
// best) does not distinguish from it, in their order. Returns the tiers, best first.
inline std::vector<std::vector<size_t>> tiers_of(std::vector<size_t> order,
                                                 const std::function<bool(size_t, size_t)>& told_apart) {
  std::vector<std::vector<size_t>> tiers;
  while (!order.empty()) {
    std::vector<size_t>& equals = tiers.emplace_back();
    std::vector<size_t> behind;
    for (const size_t one : order) {
      (one != order.front() && told_apart(one, order.front()) ? behind : equals).push_back(one);
    }
    order = std::move(behind);
  }
  return tiers;
}

}  // namespace saccade::lab
