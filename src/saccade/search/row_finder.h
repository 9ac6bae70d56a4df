// Interface of row scoring: each search makes its own pass over a collection's rows, or concurrent searches
// share one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/index/exact_search.h"

namespace saccade {

// Rows that one query asks a pass for, as the arguments of find_rows for it alone. Borrowed.
struct RowRequest {
  std::span<const float> query;          // [dim]
  int64_t k = 0;                         // best rows
  std::span<const int64_t> wanted = {};  // ascending
};

// Answers requests in one pass over the rows. Each gets the result of find_rows for it alone. If the
// pass fails, each request makes a pass of its own, so that none gets the error of another's query. The largest `k`
// decides the cost of the pass. Thread-safe.
std::vector<Result<FoundRows>> find_together(const SearchedRows& searched,
                                             std::span<const RowRequest> requests, ThreadPool& pool);

// Returns true if two queries for that many best rows are to share a pass, whose cost the larger number decides.
constexpr bool share_a_pass(int64_t k, int64_t other) {
  return k <= 4 * other && other <= 4 * k;
}

class RowFinder {
 public:
  virtual ~RowFinder() = default;
  // Returns the result of find_rows for this query alone, with the scores of the wanted rows. Thread-safe.
  [[nodiscard]] virtual Result<FoundRows> find(const SearchedRows& searched, std::span<const float> query,
                                               int64_t k, std::span<const int64_t> wanted,
                                               ThreadPool& pool) = 0;
};

// A pass over the rows for each search.
class OwnPass final : public RowFinder {
 public:
  Result<FoundRows> find(const SearchedRows& searched, std::span<const float> query, int64_t k,
                         std::span<const int64_t> wanted, ThreadPool& pool) override;
};

}  // namespace saccade
