// Late interaction: several vectors an image or text, scored by MaxSim.
//
// MaxSim is the sum over a query's vectors of the largest dot product with one of the item's vectors (Khattab and Zaharia,
// "ColBERT", SIGIR 2020, equation 3). Vectors of padding take no part.
#pragma once

#include <cstdint>
#include <stop_token>
#include <vector>

#include "saccade/matrix.h"
#include "saccade/result.h"

#pragma GCC visibility push(default)
namespace saccade {

// Vectors of several items, one item after the other. Movable, not copyable.
struct MultiEmbeddings {
  Matrix<float> rows = {};           // [all vectors, dim], each of length 1
  std::vector<int64_t> begin = {0};  // item i has rows [begin[i], begin[i + 1])

  // Number of items.
  [[nodiscard]] int64_t size() const { return static_cast<int64_t>(begin.size()) - 1; }
  // The vectors of item `i`, [m, dim]; 0 <= i < size().
  [[nodiscard]] MatrixView<const float> item(int64_t i) const {
    const auto at = static_cast<size_t>(i);
    return rows.view().slice(begin[at], begin[at + 1] - begin[at]);
  }
};

// Returns the MaxSim score of one item for one query: query [n, dim], item [m, dim]. -infinity if the item has no
// vectors. kMismatch if the widths differ. Sums in double; plain loops, n x m x dim multiply-adds. Thread-safe.
Result<float> max_sim(MatrixView<const float> query, MatrixView<const float> item);

// Returns the MaxSim scores of all items for all queries, [queries, items]. Errors and cost as above; kCancelled if asked
// to stop, after the pair at hand.
Result<Matrix<float>> max_sim(const MultiEmbeddings& queries, const MultiEmbeddings& items,
                              const std::stop_token& stop = {});

}  // namespace saccade
#pragma GCC visibility pop
