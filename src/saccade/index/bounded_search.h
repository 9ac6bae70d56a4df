// Exact search that reads most rows as codes alone (int8_rows.h), and in full only those that their bound
// leaves in question; not for use outside this module.
//
// In parts of fixed size, whatever the number of threads: of each row it is known that its score is between
// a - b and a + b. The k-th largest lower end of any rows is a score that the k-th best of all reaches, so
// that a row whose upper end is below it is not among the best, nor tied with them. What is left is scored in
// full from the largest upper end down, until these fall below the k-th best score found. All comparisons are
// strict: rows of equal scores are all scored, and come in their order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "saccade/index/best_rows.h"
#include "saccade/index/dot_kernels.h"
#include "saccade/index/exact_search.h"

namespace saccade {

// What exact search finds for each query among rows [0, int8.count), not in order; and how many rows were
// scored in full. k: 1 or more. padded: the queries, [m, padded_dim(dim)]; they are those of `queries`, made
// by make_int8_query, and usable, at most kBoundedQueries. Cost: a read of the codes, and of each row in
// question. Memory: 16 bytes a row in question, at most some thousands a query and part.
inline constexpr int64_t kBoundedQueries = 16;
struct BoundedBest {
  std::vector<BestRows> best;
  std::vector<int64_t> rescored;
};
BoundedBest bounded_search(MatrixView<const float> rows, const Int8Rows& int8,
                           std::span<const Int8Query> queries, MatrixView<const float> padded, int64_t k,
                           std::span<const uint8_t> allowed, ThreadPool& pool);

}  // namespace saccade
