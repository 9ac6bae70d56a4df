// Conversion of the public query and options to the search module's.
#pragma once

#include "saccade/core/error.h"
#include "saccade/engine.h"
#include "saccade/query.h"
#include "saccade/search/search_query.h"

namespace saccade {

// Translates the options alone. kUsage for a value out of range.
Result<SearchQuery> search_query(const SearchOptions& options);
// Translates a query with its options, all but Query::liked, which is SearchCall::like of the engine's core. kUsage for a query
// without content, a weight out of range, or unreadable syntax; kNotFound for an item's id below 1.
Result<SearchQuery> search_query(const Query& query, const SearchOptions& options);

}  // namespace saccade
