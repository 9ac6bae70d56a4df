// Exact search: finds the k rows with the highest dot product to each query, by scoring every row.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/matrix.h"
#include "saccade/core/threads.h"
#include "saccade/index/int8_rows.h"

namespace saccade {

struct RowScore {
  int64_t row = 0;
  float score = 0;
};

// Higher scores first; equal scores by row number, lower first, so that answers are stable.
bool ranks_before(const RowScore& a, const RowScore& b);

// What is searched. All borrowed.
struct SearchedRows {
  MatrixView<const float> rows;           // [n, dim]
  std::span<const uint8_t> allowed = {};  // empty, or one byte a row, 0 leaves the row out
  Int8Rows int8 = {};                     // the first rows in eight bits; count 0: none
};

struct FoundRows {
  // For each query, the min(k, allowed rows) best rows, best first.
  std::vector<std::vector<RowScore>> best;
  // For each query, how many rows were scored in full of those whose eight bits were looked at; empty where
  // all rows were scored in full.
  std::vector<int64_t> rescored;
  // For each query, the scores of the rows wanted, in their order; NaN of those that are not allowed.
  std::vector<std::vector<float>> wanted;
};

// Scores queries, [m, dim], against all rows. A row whose score is NaN is never returned. The same answer,
// bit for bit, for any number of threads, for a query alone or among others, and with rows in eight bits or
// without: of these it is known how far they are off (int8_rows.h), and what they leave in question is scored
// in full. `wanted`: empty, or for each query rows, ascending, whose scores are told wherever they rank; they
// cost next to nothing, as the pass reads them anyway. kUsage for a negative k, kMismatch for widths, a
// filter or rows wanted that do not fit. Thread-safe.
//
// Cost: of one query or a few, a read of all rows at the speed of memory; of many, n x m x dim multiply-adds,
// about two thirds as fast as a bare matrix product. With rows in eight bits a quarter of the bytes, and the
// rows in question; they are not used for more than 16 queries, for k above an eighth of the rows that are
// allowed, nor where fewer than a quarter are allowed: a read in full is sooner then. Memory: lists of the
// best, of 64 queries at a time.
Result<FoundRows> find_rows(const SearchedRows& searched, MatrixView<const float> queries, int64_t k,
                            ThreadPool& pool, std::span<const std::span<const int64_t>> wanted = {});

// Likewise, without rows in eight bits.
Result<std::vector<std::vector<RowScore>>> exact_search(MatrixView<const float> rows,
                                                        MatrixView<const float> queries, int64_t k,
                                                        ThreadPool& pool,
                                                        std::span<const uint8_t> allowed = {});

}  // namespace saccade
