// Carrying out of a planned search. Not for use outside this module.
#pragma once

#include "saccade/collection/collection_reader.h"
#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/search/plan/row_query.h"
#include "saccade/search/plan/search_plan.h"
#include "saccade/search/row_finder.h"
#include "saccade/search/search_answer.h"

namespace saccade {

// Carries a search out from its first look at the rows to its answer. asked: as plan_search() had it.
Result<SearchAnswer> carry_out(const CollectionReader& collection, const RowQuery& asked, SearchPlan plan,
                               ThreadPool& pool, RowFinder& finder);

// Plans a search and carries it out.
Result<SearchAnswer> search_with(const CollectionReader& collection, const RowQuery& asked, ThreadPool& pool,
                                 RowFinder& finder);

}  // namespace saccade
