// Search of a collection whose store has a vector index of its own. Not for use outside this module.
#pragma once

#include "saccade/collection/collection_reader.h"
#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/search/plan/row_query.h"
#include "saccade/search/search_answer.h"

namespace saccade {

// Searches a collection that has an index of its own: asks it for the nearest items, and ranks these by their full rows like
// the rows of a folder. Asks for more while they do not suffice and more come.
Result<SearchAnswer> search_index(const CollectionReader& collection, const RowQuery& by_row,
                                  ThreadPool& pool);

}  // namespace saccade
