// A row's score, and the order of results.
#pragma once

#include <cstdint>

namespace saccade {

struct RowScore {
  int64_t row = 0;
  float score = 0;
};

// Orders by descending score; equal scores by ascending row number, so that results are stable. A functor,
// because a function passed by address is not inlined.
struct RanksBefore {
  bool operator()(const RowScore& a, const RowScore& b) const {
    return a.score > b.score || (a.score == b.score && a.row < b.row);
  }
};
inline constexpr RanksBefore ranks_before;

}  // namespace saccade
