// Who scores the rows of a collection: each search makes its own pass over them, or
// those of the same moment share one.
#pragma once

#include <cstdint>
#include <span>

#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/index/exact_search.h"
#include "saccade/search/search.h"

namespace saccade {

class RowFinder {
 public:
  virtual ~RowFinder() = default;
  // What find_rows says of this query alone, the scores of the rows wanted among it. Thread-safe.
  [[nodiscard]] virtual Result<FoundRows> find(const SearchedRows& searched, std::span<const float> query,
                                               int64_t k, std::span<const int64_t> wanted,
                                               ThreadPool& pool) = 0;
};

// As search_encoded in search.h, with the same answer; `finder` scores the rows.
Result<SearchAnswer> search_encoded(const Collection& collection, EncoderBackend& encoder, const EncodedQuery& encoded,
                              const SearchQuery& query, ThreadPool& pool, RowFinder& finder);

}  // namespace saccade
