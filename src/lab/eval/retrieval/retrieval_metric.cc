#include "lab/eval/retrieval/retrieval_metric.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "lab/eval/figures/sample.h"

namespace saccade::lab {
namespace {

double ndcg_gain(double rank) {
  return 1 / std::log2(1 + rank);
}

// Returns the ideal DCG: the largest sum of gains of `right` right answers up to the depth.
double ideal_ndcg_gain(int64_t right) {
  double sum = 0;
  for (int64_t rank = 1; rank <= std::min(right, kNdcgDepth); ++rank)
    sum += ndcg_gain(static_cast<double>(rank));
  return sum;
}

double hit_at(std::span<const double> ranks, int64_t k) {
  return ranks.front() <= static_cast<double>(k) ? 1 : 0;
}
double chance_of_hit(int64_t right, int64_t gallery, int64_t k) {
  const auto n = static_cast<double>(gallery);
  const auto p = static_cast<double>(right);
  double miss = 1;  // probability that none of k draws without replacement is right
  for (int64_t i = 0; i < std::min(k, gallery) && miss > 0; ++i) {
    miss *= std::max(0.0, (n - p - static_cast<double>(i)) / (n - static_cast<double>(i)));
  }
  return 1 - miss;
}

double recall_at(std::span<const double> ranks, int64_t k) {
  const auto within = std::ranges::upper_bound(ranks, static_cast<double>(k)) - ranks.begin();
  return static_cast<double>(within) / static_cast<double>(ranks.size());
}
double chance_of_recall(int64_t /*right*/, int64_t gallery, int64_t k) {
  return static_cast<double>(std::min(k, gallery)) / static_cast<double>(gallery);
}

double reciprocal_rank(std::span<const double> ranks, int64_t /*k*/) {
  return 1 / ranks.front();
}
double chance_of_reciprocal_rank(int64_t right, int64_t gallery, int64_t /*k*/) {
  double reciprocal = 0;
  double later = 1;  // probability that the first right answer has this rank or a later one
  for (int64_t rank = 1; rank <= gallery - right + 1; ++rank) {
    const double here =
        static_cast<double>(right) / (static_cast<double>(gallery) - static_cast<double>(rank - 1));
    reciprocal += later * here / static_cast<double>(rank);
    later *= 1 - here;
  }
  return reciprocal;
}

double ndcg_at_depth(std::span<const double> ranks, int64_t /*k*/) {
  double gains = 0;
  for (const double rank : ranks) gains += rank <= static_cast<double>(kNdcgDepth) ? ndcg_gain(rank) : 0;
  return gains / ideal_ndcg_gain(static_cast<int64_t>(ranks.size()));
}
double chance_of_ndcg(int64_t right, int64_t gallery, int64_t /*k*/) {
  return static_cast<double>(right) / static_cast<double>(gallery) *
         ideal_ndcg_gain(std::min(gallery, kNdcgDepth)) / ideal_ndcg_gain(right);
}

double whole_average_precision(std::span<const double> ranks, int64_t /*k*/) {
  return average_precision(ranks, std::numeric_limits<int64_t>::max());
}
// The answer at rank j is right with probability right / gallery. Each of the j - 1 before it is then right with
// probability (right - 1) / (gallery - 1).
double chance_of_average_precision(int64_t right, int64_t gallery, int64_t /*k*/) {
  const double others =
      gallery > 1 ? (static_cast<double>(right) - 1) / (static_cast<double>(gallery) - 1) : 0;
  double sum = 0;
  for (int64_t rank = 1; rank <= gallery; ++rank) {
    const auto j = static_cast<double>(rank);
    sum += (1 + (j - 1) * others) / j;
  }
  return sum / static_cast<double>(gallery);
}

double first_rank(std::span<const double> ranks, int64_t /*k*/) {
  return ranks.front();
}
double chance_of_first_rank(int64_t right, int64_t gallery, int64_t /*k*/) {
  return (static_cast<double>(gallery) + 1) / (static_cast<double>(right) + 1);
}

constexpr auto kMetrics = std::to_array<RetrievalMetric>({
    {"r", true, hit_at, chance_of_hit},
    {"recall", true, recall_at, chance_of_recall},
    {"mrr", false, reciprocal_rank, chance_of_reciprocal_rank},
    {"ndcg10", false, ndcg_at_depth, chance_of_ndcg},
    {"map", false, whole_average_precision, chance_of_average_precision},
    {kMeanRank, false, first_rank, chance_of_first_rank},  // the last: median_rank is its median
});

}  // namespace

double average_precision(std::span<const double> ranks, int64_t k) {
  double sum = 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] <= static_cast<double>(k)) sum += static_cast<double>(i + 1) / ranks[i];
  }
  return sum / static_cast<double>(std::min(std::ssize(ranks), k));
}

std::span<const RetrievalMetric> retrieval_metrics() {
  return kMetrics;
}

}  // namespace saccade::lab
