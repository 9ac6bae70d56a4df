// Exact search that reads most rows only as codes (int8_rows.h), and scores in full only the rows that their
// bound cannot exclude. Internal to this module.
//
// The rows are processed in parts of fixed size, whatever the number of threads. The score of each row is
// known to lie between a - b and a + b. The k-th largest lower end is a lower bound of the k-th best score. A
// row whose upper end is below it is neither among the best nor tied with them. The remaining rows are scored
// in full in descending order of their upper ends, until these fall below the k-th best score found. All
// comparisons are strict: rows of equal scores are all scored, and come in their order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "saccade/core/threads.h"
#include "saccade/index/best_rows.h"
#include "saccade/index/dot_kernels.h"
#include "saccade/index/int8_rows.h"
#include "saccade/matrix.h"

namespace saccade {

// Finds for each query the result of exact search among rows [0, int8.count), unordered, and the number of
// rows scored in full. Parameter k is at least 1. Parameter `padded` holds the queries, [m, padded_dim(dim)].
// `queries` are made from them by make_int8_query; they must be usable. Cost: a
// read of the codes, and of each candidate row. Memory: 16 bytes per candidate, at most some thousands per
// query and part. For more than kBoundedQueries queries, a search of full rows is as fast.
inline constexpr int64_t kBoundedQueries = 16;
struct BoundedBest {
  std::vector<BestRows> best;
  std::vector<int64_t> rescored;
};
BoundedBest bounded_search(MatrixView<const float> rows, const Int8Rows& int8,
                           std::span<const Int8Query> queries, MatrixView<const float> padded, int64_t k,
                           std::span<const uint8_t> allowed, ThreadPool& pool);

// Likewise among `candidates`, rows below int8.count in any order, for one query: padded is [1, padded_dim(dim)]. Cost: a
// read of the candidates' codes, wherever they lie.
BoundedBest bounded_candidates(MatrixView<const float> rows, const Int8Rows& int8, const Int8Query& query,
                               MatrixView<const float> padded, int64_t k, std::span<const int64_t> candidates,
                               ThreadPool& pool);

}  // namespace saccade
