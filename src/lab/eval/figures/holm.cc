#include "lab/eval/figures/holm.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include <fmt/format.h>

#include "saccade/core/counts.h"

namespace saccade::lab {
namespace {

constexpr double kRounding = 1e-9;  // 1 - 0.9 is a little less than 0.1

}  // namespace

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

bool is_significant(double p_value, double confidence) {
  return p_value <= 1 - confidence + kRounding;
}

int64_t fewest_resamples(int64_t comparisons, double confidence) {
  const double fewest = std::ceil(2 * static_cast<double>(comparisons) / (1 - confidence + kRounding)) - 1;
  return std::max(int64_t{1}, static_cast<int64_t>(fewest));
}

std::string too_few_resamples(int64_t comparisons, int64_t resamples, double confidence) {
  if (comparisons == 0 || resamples == 0) return {};
  const int64_t fewest = fewest_resamples(comparisons, confidence);
  if (resamples >= fewest) return {};
  return fmt::format(
      "{} resamples are too few for {}: corrected for their number, no difference can be significant; {} resamples or more "
      "are needed (--resamples)",
      count_text(resamples), counted(comparisons, "comparison"), count_text(fewest));
}

}  // namespace saccade::lab
