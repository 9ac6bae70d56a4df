// Exact nearest neighbours over your own matrix: no model, no collection, no copy.
#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <string_view>

#include "saccade/matrix.h"
#include "saccade/result.h"

#pragma GCC visibility push(default)
namespace saccade {

// Score of a row for a query.
enum class Metric {
  kInnerProduct,  // dot product; the cosine if all vectors have length 1
  kCosine,  // cosine similarity; vectors of any length. A vector of zeros has similarity 0 to everything
};

// Returns "inner_product" or "cosine". Thread-safe.
std::string_view name(Metric metric);
// Returns the metric of that name. kUsage, which lists the names, for any other name. Thread-safe.
Result<Metric> parse_metric(std::string_view name);

// Options of top_k.
struct TopKOptions {
  Metric metric = Metric::kInnerProduct;  // score
  int threads = 0;                        // 0: one for each processor of the process; at most 1,024
  // Empty, or one byte a row: 0 leaves the row out.
  std::span<const uint8_t> allowed = {};
  std::stop_token stop = {};  // ends the call within milliseconds of a request, with kCancelled
};

// Best rows of each query, best first: rows and scores are [queries, k]. If fewer than k rows are allowed,
// the rest has row -1 and score -infinity.
struct TopK {
  Matrix<int64_t> rows = {};  // row numbers, from 0
  Matrix<float> scores = {};  // scores of these rows
};

// Finds the k rows with the highest score for each query. queries: [m, dim], rows: [n, dim]. Equal scores are
// ordered by row number, lower first; rows whose score is NaN are never returned. Results are bit-identical
// for any number of threads, and for a query alone or in a batch. kUsage for k < 1, for more than 2^48 results of all
// queries and for a number of threads out of range; kMismatch for widths or a filter that do not fit; kCancelled after a
// stop request.
// Cost: for a few queries one read of all rows at the speed of memory; for many n x m x dim multiply-adds. kCosine
// copies both matrices. Thread-safe.
Result<TopK> top_k(MatrixView<const float> queries, MatrixView<const float> rows, int64_t k,
                   const TopKOptions& options = {});

}  // namespace saccade
#pragma GCC visibility pop
