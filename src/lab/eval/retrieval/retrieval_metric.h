// Metrics of retrieval as one table: a metric is one entry, from which its name, its value for a query and its value
// for a random ranking come.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace saccade::lab {

inline constexpr int64_t kNdcgDepth = 10;

struct RetrievalMetric {
  std::string_view name;    // key in metrics.json; with each depth behind it if `each_depth`
  bool each_depth = false;  // one figure for each depth k
  // Returns the figure of a query from the ranks of its right answers, ascending and not empty. `k` is 0 without depths.
  double (*figure)(std::span<const double> ranks, int64_t k) = nullptr;
  // Returns the expected figure of a ranking drawn at random, for a query with `right` right answers among `gallery`.
  double (*chance)(int64_t right, int64_t gallery, int64_t k) = nullptr;
};

// Returns the mean, over the right answers, of the share of right answers down to the rank of each. Those below `k` count
// as 0, and k of them can count at most (CIRCO's mAP@k). Ranks: ascending, not empty.
double average_precision(std::span<const double> ranks, int64_t k);

// Returns all metrics, in the order of their figures.
std::span<const RetrievalMetric> retrieval_metrics();

}  // namespace saccade::lab
