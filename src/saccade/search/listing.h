// Answers without a query: the images that a filter leaves, newest first.
#pragma once

#include "saccade/collection/collection_reader.h"
#include "saccade/core/error.h"
#include "saccade/search/search_answer.h"

namespace saccade {

// Returns true if there is nothing to search for: no text and no image.
bool is_listing(const SearchQuery& query);

// Returns the first `query.k` images that `query.filter` leaves, newest first (newest_first). They are ranked by date, have
// no score (NaN; null as JSON), and near-duplicates are not grouped. No encoder is needed. kUsage for a broken filter, for
// k below 1, and for options that need scores (cut, explain).
Result<SearchAnswer> list_newest(const CollectionReader& collection, const SearchQuery& query);

}  // namespace saccade
