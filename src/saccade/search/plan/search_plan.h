// Plan of a search: what is prepared before its first look at the rows, so that several searches can share a pass. Not
// for use outside this module.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "saccade/collection/collection_reader.h"
#include "saccade/core/error.h"
#include "saccade/index/lists/list_tuning.h"
#include "saccade/search/candidates.h"
#include "saccade/search/keywords/keyword_search.h"
#include "saccade/search/plan/row_query.h"
#include "saccade/search/search_answer.h"
#include "saccade/search/search_query.h"

namespace saccade {

// Returns kCancelled if the query's stop is requested.
Status check_stop(const SearchQuery& query);
// Checks the stop and the bounds of the query. kCancelled, kUsage.
Status check_search(const SearchQuery& query);

// Returns the initial number of candidates among `searched` images. It suffices without a second pass if
// images have a few copies each. It exceeds the number of images by at most one, so that `complete` can be
// determined.
int64_t first_count(const SearchQuery& query, int64_t searched, bool late, bool judged, bool words);

// Rows that a filter allows, as find_rows takes them.
struct AllowedRows {
  std::vector<uint8_t> filtered;  // empty without a filter
  std::span<const uint8_t> rows;
  int64_t count = 0;
};
// Allowed rows by filter, for several searches: each filter is looked up once.
using AllowedByFilter = std::map<std::string, std::shared_ptr<const AllowedRows>>;

// A search up to its first look at the rows. Not copied, as `rows` refers to `brought`.
struct SearchPlan {
  SearchPlan() = default;
  SearchPlan(SearchPlan&&) = default;
  SearchPlan& operator=(SearchPlan&&) = default;

  SearchAnswer answer;
  std::shared_ptr<const AllowedRows> allowed;
  SearchWords words;
  std::vector<int64_t> brought;  // rows that `rows` wants
  CandidateRows rows;
  const ListRecall* recall = nullptr;  // of the approximate index, if it is used
  int64_t first = 0;                   // candidates of the first look; 0: there are no rows to look at
};

// Checks the query and prepares its search. `known`: receives the rows that its filter allows.
Result<SearchPlan> plan_search(const CollectionReader& collection, const RowQuery& asked,
                               AllowedByFilter& known);

}  // namespace saccade
