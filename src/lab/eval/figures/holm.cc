#include "lab/eval/figures/holm.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace saccade::lab {

std::vector<double> holm_adjusted(std::span<const double> p_values) {
  std::vector<size_t> order;
  for (size_t i = 0; i < p_values.size(); ++i) {
    if (!std::isnan(p_values[i])) order.push_back(i);
  }
  std::ranges::stable_sort(order, {}, [&](size_t i) { return p_values[i]; });
  std::vector<double> adjusted(p_values.begin(), p_values.end());
  double least = 0;
  for (size_t place = 0; place < order.size(); ++place) {
    const auto left = static_cast<double>(order.size() - place);
    least = std::min(1.0, std::max(least, left * p_values[order[place]]));
    adjusted[order[place]] = least;
  }
  return adjusted;
}

}  // namespace saccade::lab
