// Approximate search: looks into the lists nearest to a query (list_index.h), and scores the best candidates again.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/index/exact_search.h"
#include "saccade/index/lists/list_index.h"

namespace saccade {

// Effort of a search. It is what decides recall.
struct ListProbe {
  int64_t scanned = 0;   // allowed rows whose scores are estimated
  int64_t rescored = 0;  // best of these that are scored again
};

// Returns the effort of a search for k rows, which is at least that of `probe`: more hits need more candidates. The recall that
// was measured is that of the best 10 of them.
ListProbe probe_for(const ListProbe& probe, int64_t k);

// Returns true if a search through the lists is worth it among `allowed` rows. It is not if most of these would be
// looked at anyway.
bool lists_pay(const ListProbe& probe, int64_t allowed, int64_t k);

// Finds rows as find_rows does, for one query, among the candidates that the lists give and all rows from index.covered on.
// Scores are exact; a row among the best k may be missing. A list is read further down the lists' order until
// enough allowed rows were seen, so that a filter loses no hits. The effort is that of probe_for, and twice as much with a
// filter, whose best rows may lie further from the query. Wanted rows are among the best wherever they rank so. The result is the same for any number of threads, and
// with or without 8-bit rows. kBadData for a list whose check is wrong, or a row number beyond the rows; other errors are
// those of find_rows. Thread-safe.
//
// Cost: a read of all lists' means, of 70 bytes (at 512 columns) a scanned row, of a byte a row that the filter leaves out
// on the way, and of the candidates' 8-bit codes.
Result<FoundRows> find_near_rows(const SearchedRows& searched, const ListIndex& index,
                                 const ListChecks& checks, const ListProbe& probe,
                                 std::span<const float> query, int64_t k, ThreadPool& pool,
                                 std::span<const int64_t> wanted = {});

// Candidate of a scan.
struct EstimatedRow {
  int64_t row = 0;
  float estimate = 0;
};

// Returns all lists in the order in which a query looks into them.
std::vector<int64_t> order_lists(const ListIndex& index, std::span<const float> query, ThreadPool& pool);

// Returns the best effort.rescored rows by their estimated score, best first, among the first lists that hold effort.scanned
// allowed rows. Errors as find_near_rows.
Result<std::vector<EstimatedRow>> scan_lists(const SearchedRows& searched, const ListIndex& index,
                                             const ListChecks& checks, const ListProbe& effort,
                                             std::span<const float> query, ThreadPool& pool);

}  // namespace saccade
