// The best rows of those offered; not for use outside this module.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "saccade/index/exact_search.h"

namespace saccade {

// The best k of the rows offered so far, in whatever order they come. Those that may be among them are
// kept, up to twice as many, and then halved: a row costs a comparison or, where it is kept, a few
// nanoseconds, however large k is.
class BestRows {
 public:
  // floor: of k other rows, all are known to score no less.
  explicit BestRows(int64_t k, float floor = -std::numeric_limits<float>::infinity())
      : k_(static_cast<size_t>(k)), floor_(floor) {}

  void offer(int64_t row, float score) {
    if (!(score >= floor_)) return;  // NaN ends here too
    kept_.push_back({row, score});
    if (kept_.size() >= 2 * k_ + kSlack) halve();
  }

  // No row of a score below this one is among the best.
  [[nodiscard]] float least() {
    halve();
    return floor_;
  }
  [[nodiscard]] const std::vector<RowScore>& rows() {
    halve();
    return kept_;
  }

 private:
  static constexpr size_t kSlack = 32;

  void halve() {
    if (k_ == 0) kept_.clear();
    if (kept_.empty() || kept_.size() < k_) return;
    const auto last = kept_.begin() + static_cast<std::ptrdiff_t>(k_ - 1);
    std::nth_element(kept_.begin(), last, kept_.end(), ranks_before);
    floor_ = last->score;
    kept_.resize(k_);
  }

  size_t k_;
  float floor_;
  std::vector<RowScore> kept_;
};

}  // namespace saccade
