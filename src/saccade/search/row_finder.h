// Interface of row scoring: each search makes its own pass over a collection's rows, or concurrent searches
// share one.
#pragma once

#include <cstdint>
#include <span>

#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/index/exact_search.h"

namespace saccade {

class RowFinder {
 public:
  virtual ~RowFinder() = default;
  // Returns the result of find_rows for this query alone, with the scores of the wanted rows. Thread-safe.
  [[nodiscard]] virtual Result<FoundRows> find(const SearchedRows& searched, std::span<const float> query,
                                               int64_t k, std::span<const int64_t> wanted,
                                               ThreadPool& pool) = 0;
};

}  // namespace saccade
