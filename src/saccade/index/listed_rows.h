// Scores of a list of rows. Internal to this module.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "saccade/index/dot_kernels.h"
#include "saccade/matrix.h"

namespace saccade {

// Scores a list of rows, which lie anywhere: calls to(i, q, score) for entry i of the list, in [begin, end), and query q.
// queries: padded.
template <typename To>
void score_listed(MatrixView<const float> rows, std::span<const int64_t> list, int64_t begin, int64_t end,
                  MatrixView<const float> queries, const To& to) {
  constexpr int64_t kTile = 64;
  std::array<const float*, kTile + kDotRowGroup> tile{};
  std::vector<float> scores(static_cast<size_t>(kTile * queries.rows()));
  for (int64_t first = begin; first < end; first += kTile) {
    const int64_t count = std::min(kTile, end - first);
    for (int64_t i = 0; i < count + kDotRowGroup; ++i) {
      tile[static_cast<size_t>(i)] =
          rows.data() + list[static_cast<size_t>(std::min(first + i, end - 1))] * rows.stride();
    }
    dot_kernels().front().run(tile.data(), count, queries.data(), queries.rows(), rows.columns(),
                              scores.data());
    for (int64_t q = 0; q < queries.rows(); ++q) {
      for (int64_t i = 0; i < count; ++i) to(first + i, q, scores[static_cast<size_t>(q * count + i)]);
    }
  }
}

}  // namespace saccade
