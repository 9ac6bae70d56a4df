// Exact search: finds the k rows with the highest dot product to each query, by scoring every row.
#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/index/int8_rows.h"
#include "saccade/index/row_score.h"
#include "saccade/matrix.h"

namespace saccade {

// Rows to search. All borrowed.
struct SearchedRows {
  MatrixView<const float> rows;           // [n, dim]
  std::span<const uint8_t> allowed = {};  // empty, or one byte a row, 0 leaves the row out
  Int8Rows int8 = {};                     // 8-bit codes of the first rows; count 0 if there are none
  std::stop_token stop = {};              // ends a search within milliseconds, with kCancelled
};

// Largest number of queries that share one pass over the rows.
inline constexpr int64_t kPassQueries = 64;

struct FoundRows {
  // Best rows for each query, min(k, allowed rows) of them, best first.
  std::vector<std::vector<RowScore>> best;
  // Number of rows per query that were scored in full after a look at their 8-bit codes; empty if all rows
  // were scored in full. Of three and more queries it depends on which thread ends first.
  std::vector<int64_t> rescored;
  // Scores of the wanted rows for each query, in their order; NaN for rows that are not allowed.
  std::vector<std::vector<float>> wanted;
};

// Scores queries, [m, dim], against all rows. A row whose score is NaN is never returned. The result is
// bit-identical for any number of threads, for a query alone or in a batch, and with or without 8-bit rows.
// Their error is bounded (int8_rows.h), and rows that the bound cannot exclude are scored in full. `wanted`:
// empty, or for each query rows, ascending, whose scores are returned at any rank. They cost almost nothing,
// because the pass reads them anyway. Returns kUsage for a negative k, and kMismatch for widths, a filter or
// wanted rows that do not fit. Thread-safe.
//
// Cost: one or a few queries read all rows at the speed of memory. Many queries take n x m x dim
// multiply-adds, at a rate close to that of a bare matrix product. 8-bit rows read a quarter of the bytes, and
// the candidate rows in full. On processors with AVX-512 VNNI their products are several times as fast; on others
// they are not used for more than 16 queries. Nor are they used if fewer than a quarter of the rows are allowed, or
// for k above an eighth of the allowed rows (a 64th for more than 16 queries). A search of full rows is faster in
// those cases.
// Memory: lists of the best rows for kPassQueries queries at a time.
Result<FoundRows> find_rows(const SearchedRows& searched, MatrixView<const float> queries, int64_t k,
                            ThreadPool& pool, std::span<const std::span<const int64_t>> wanted = {});

// Returns the number of queries at a time for which find_rows takes the least time for each, at most kPassQueries. Cost: none.
int64_t queries_of_a_pass(const SearchedRows& searched, int64_t k);

// Searches without 8-bit rows.
Result<std::vector<std::vector<RowScore>>> exact_search(MatrixView<const float> rows,
                                                        MatrixView<const float> queries, int64_t k,
                                                        ThreadPool& pool,
                                                        std::span<const uint8_t> allowed = {});

}  // namespace saccade
