// A second encoder's word on the best pictures of an
// answer: retrieve with a quick one, judge with a slow one.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <stop_token>
#include <string>

#include "saccade/collection/collection_reader.h"
#include "saccade/core/enum_names.h"
#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/model/encoder_backend.h"
#include "saccade/progress.h"
#include "saccade/rerank_method.h"
#include "saccade/search/row_finder.h"
#include "saccade/search/search.h"

namespace saccade {

std::span<const EnumName<RerankMethod>> enum_names(RerankMethod);  // "strongest", "cosine", "maxsim", "match"

struct RerankOptions {
  RerankMethod method = RerankMethod::kStrongest;
  int64_t depth = 100;  // hits scored anew, at least 1
  int batch = 8;        // pictures an encoder call
  std::string name;     // of the checkpoint, for Reranking
  // Time from which no batch is begun but the first, and from which no decoder or lent encoder is waited for.
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
};

// Returns the answer to `query` from search_encoded, with its first `depth` hits reranked by the scores of
// `second`. They come first. Hits that could not be read, have changed or were left out at the deadline
// (Reranking::out_of_time) follow unchanged, with hits further down. The first query.k are kept. `rows` scores the rows;
// `nullptr`: in a pass of its own. The two kinds of scores are not comparable; Hit::reranked distinguishes them. Images
// are read from their paths and must have the bytes that were indexed.
//
// Errors: kUsage for a depth below 1 or kMatch for a query with an image; kUnsupported for a method that the
// encoder lacks, or a text without a tokenizer; kCancelled if stopped; else as search_encoded. Cost: decoding
// and encoding `depth` images, `batch` at a time. Thread-safe.
Result<SearchAnswer> search_and_rerank(const CollectionReader& collection, EncoderBackend& encoder,
                                       EncoderBackend& second, const SearchQuery& query,
                                       const RerankOptions& options, ThreadPool& pool,
                                       const ProgressCallback& progress = {}, std::stop_token stop = {},
                                       RowFinder* rows = nullptr);

}  // namespace saccade
