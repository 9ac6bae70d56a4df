// Exact search: finds the k rows with the highest dot product to each query, by scoring every row.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/matrix.h"
#include "saccade/core/threads.h"

namespace saccade {

struct RowScore {
  int64_t row = 0;
  float score = 0;
};

// Higher scores first; equal scores by row number, lower first, so that answers are stable.
bool ranks_before(const RowScore& a, const RowScore& b);

// For each query, the min(k, allowed rows) best rows, best first. rows: [n, dim], queries: [m, dim].
// `allowed`: empty, or one byte a row, 0 leaves the row out. A row whose score is NaN is never returned.
// The same answer for any number of threads, and for a query alone or among others.
// Cost: reads all rows once a block of queries; at n x dim beyond the caches it runs at memory speed.
Result<std::vector<std::vector<RowScore>>> exact_search(MatrixView<const float> rows,
                                                        MatrixView<const float> queries, int64_t k,
                                                        ThreadPool& pool,
                                                        std::span<const uint8_t> allowed = {});

}  // namespace saccade
