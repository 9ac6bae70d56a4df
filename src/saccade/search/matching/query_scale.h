// Scale of a query's scores, which makes them comparable with the evidence of words (evidence.h). Not for use outside
// this module.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "saccade/collection/collection_reader.h"
#include "saccade/matrix.h"
#include "saccade/search/candidates.h"
#include "saccade/search/matching/evidence.h"
#include "saccade/search/search_query.h"

namespace saccade {

// The collection that a window's items are from (search_index).
struct WholeCollection {
  int64_t searched = 0;                         // number of its items that the filter leaves
  bool complete = false;                        // no other item meets the filter
  std::shared_ptr<const Matrix<float>> sample;  // rows of its items
};

// Returns the scale of a query's scores by one row: from the calibration's sample of the rows, or from one of the
// same size.
ScoreScale scale_of(const CollectionReader& collection, const SearchQuery& query,
                    std::span<const float> query_row, double logit_scale, const WholeCollection* whole);

// Returns the scale of late interaction's scores: the last of the kCompetitors best has the standard score 0, the first
// has 2.5. candidates: by score.
ScoreScale late_scale(std::span<const Candidate> candidates);

}  // namespace saccade
