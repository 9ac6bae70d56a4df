// The best rows of those offered; not for use outside this module.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "saccade/index/exact_search.h"

namespace saccade {

// The best k of the rows offered so far, in whatever order they come, as a heap with the worst on top.
class BestRows {
 public:
  explicit BestRows(int64_t k) : k_(static_cast<size_t>(k)) {}

  void offer(int64_t row, float score) {
    if (heap_.size() == k_) {
      if (!ranks_before({row, score}, heap_.front())) return;  // NaN ends here too
      std::pop_heap(heap_.begin(), heap_.end(), ranks_before);
      heap_.back() = {row, score};
    } else {
      if (score != score) return;
      heap_.push_back({row, score});
    }
    std::push_heap(heap_.begin(), heap_.end(), ranks_before);
  }

  // No row of a score below this one is among the best.
  [[nodiscard]] float least() const {
    return heap_.size() < k_ ? -std::numeric_limits<float>::infinity() : heap_.front().score;
  }
  [[nodiscard]] const std::vector<RowScore>& rows() const { return heap_; }

 private:
  size_t k_;
  std::vector<RowScore> heap_;
};

}  // namespace saccade
