// A second encoder's word on the best pictures of an
// answer: retrieve with a quick one, judge with a slow one.
#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>

#include "saccade/collection/collection.h"
#include "saccade/core/error.h"
#include "saccade/progress.h"
#include "saccade/core/threads.h"
#include "saccade/core/enum_names.h"
#include "saccade/model/encoder.h"
#include "saccade/search/search.h"

namespace saccade {

enum class RerankMethod {
  kStrongest,  // the last of these that the encoder and the query allow
  kCosine,     // of one row each
  kMaxSim,     // late interaction
  kMatch,      // the encoder's matching head, for texts alone (BLIP-2's ITM + ITC)
};
std::span<const EnumName<RerankMethod>> enum_names(RerankMethod);  // "strongest", "cosine", "maxsim", "match"

struct RerankOptions {
  RerankMethod method = RerankMethod::kStrongest;
  int64_t depth = 100;  // hits scored anew, at least 1
  int batch = 8;        // pictures an encoder call
  std::string name;     // of the checkpoint, for Reranking
};

// The answer to `query` from search_encoded, its first `depth` hits scored anew by `second`, those first, by
// that score; behind them, as they were, what could not be read or has changed, and hits further down. Then
// the first query.k. Hits' scores of the two kinds do not compare; Hit::reranked tells them apart. Pictures
// are read from their paths and must have the bytes they had when they were taken in.
//
// kUsage for a depth below 1 or kMatch for a query with a picture; kUnsupported for a method the encoder does
// not have, or a text where it has no tokenizer; kCancelled when asked to stop; else as search_encoded. Cost:
// decoding and encoding `depth` pictures, `batch` at a time. Thread-safe.
Result<SearchAnswer> search_and_rerank(const Collection& collection, EncoderBackend& encoder, EncoderBackend& second,
                                 const SearchQuery& query, const RerankOptions& options, ThreadPool& pool,
                                 const ProgressCallback& progress = {}, std::stop_token stop = {});

}  // namespace saccade
