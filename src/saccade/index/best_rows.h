// Selection of the best rows among those offered. Internal to this module.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "saccade/index/row_score.h"

namespace saccade {

// The best k of the rows offered so far, in any order. Candidates are kept, up to twice k, and then halved.
// An offered row costs one comparison, or a few nanoseconds if it is kept, for any k.
class BestRows {
 public:
  // Begins with a score threshold. `floor` is either known to be reached by k other rows, or a trial value;
  // the caller then checks if k rows reach it.
  explicit BestRows(int64_t k, float floor = -std::numeric_limits<float>::infinity())
      : k_(static_cast<size_t>(k)), floor_(floor) {}

  void offer(int64_t row, float score) {
    if (!(score >= floor_)) return;  // NaN ends here too
    kept_.push_back({row, score});
    if (kept_.size() >= 2 * k_ + kSlack) halve();
  }
  // Offers many rows at a time; most are below the floor, and several are compared at once. scores: [rows].
  void offer(std::span<const int64_t> rows, const float* scores) {
    constexpr size_t kTogether = 16;
    size_t i = 0;
    for (; i + kTogether <= rows.size(); i += kTogether) {
      int reach = 0;
      for (size_t j = 0; j < kTogether; ++j) reach |= scores[i + j] >= floor_ ? 1 : 0;
      if (reach == 0) continue;
      for (size_t j = 0; j < kTogether; ++j) offer(rows[i + j], scores[i + j]);
    }
    for (; i < rows.size(); ++i) offer(rows[i], scores[i]);
  }

  // Returns a score below which no offered row is kept now.
  [[nodiscard]] float floor() const { return floor_; }
  // Returns a score below which no row is among the best.
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
    std::nth_element(kept_.begin(), last, kept_.end(), RanksBefore());
    floor_ = last->score;
    kept_.resize(k_);
  }

  size_t k_;
  float floor_;
  std::vector<RowScore> kept_;
};

}  // namespace saccade
