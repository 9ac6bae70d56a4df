// A search by one row: its query, made from an encoded one, and the completion of its answer. Not for use outside this
// module.
#pragma once

#include <optional>
#include <span>

#include "saccade/collection/collection_reader.h"
#include "saccade/core/error.h"
#include "saccade/index/max_sim_kernels.h"
#include "saccade/model/encoder_backend.h"
#include "saccade/search/encoded_query.h"
#include "saccade/search/matching/hit_judge.h"
#include "saccade/search/matching/query_scale.h"
#include "saccade/search/search_answer.h"
#include "saccade/search/search_query.h"

namespace saccade {

// Query of search_with(), by one row. All borrowed.
struct RowQuery {
  std::span<const float> row;
  const PackedQuery* late = nullptr;  // rows of late interaction; `nullptr`: the one row alone is compared
  const HitJudge* by = nullptr;       // judges the hits; `nullptr`: they are not judged
  const SearchQuery& query;
  std::optional<double> logit_scale;  // the encoder's; without it the query's words are not looked at
  // Collection of a window of items; `nullptr`: the collection is whole.
  const WholeCollection* whole = nullptr;
};

// Data that the row query of an encoded query borrows.
struct EncodedParts {
  HitJudge judge;
  std::optional<PackedQuery> late;
};

// Returns the row query of an encoded one, which borrows from `parts`.
Result<RowQuery> row_query(const CollectionReader& collection, EncoderBackend& encoder,
                           const EncodedQuery& encoded, const SearchQuery& query, EncodedParts& parts);

// Completes the answer to an encoded query.
Status complete_answer(const CollectionReader& collection, EncoderBackend& encoder,
                       const EncodedQuery& encoded, const RowQuery& asked, SearchAnswer& answer);

}  // namespace saccade
