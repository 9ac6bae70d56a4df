// The best pictures of a collection for a query, before
// near-duplicates are folded; not for use outside this module.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "saccade/collection/collection_reader.h"
#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/index/lists/list_search.h"
#include "saccade/index/max_sim_kernels.h"
#include "saccade/search/row_finder.h"

namespace saccade {

struct ApproximateIndex;  // collection/rows/approximate_index.h

struct Candidate {
  int64_t row = 0;
  int64_t id = 0;
  float score = 0;
  float pooled_score = 0;  // late interaction: of the first stage
};

struct Candidates {
  std::vector<Candidate> best;      // by score, then id
  std::vector<Candidate> brought;   // the rows wanted that are not among these; likewise
  int64_t scored = 0;               // late interaction: by all their rows
  std::optional<int64_t> rescored;  // FoundRows::rescored, where rows in eight bits were looked at
  bool complete = false;            // nothing ranks behind them
  // Number of the first of `best` whose ranks are known, after fusion with keywords: an image that was not found may rank
  // before those behind them, as words bring some of any score.
  int64_t ranked = std::numeric_limits<int64_t>::max();
  bool approximate = false;  // found through the approximate index: a row among the best may be missing
  std::string why_exact =
      {};  // why that index was not used after all, in a sentence; empty: it was, or need not be
};

// Rows from which candidates are chosen.
struct CandidateRows {
  std::span<const uint8_t> allowed;
  std::span<const int64_t> wanted = {};  // ascending: whatever they score
  std::set<int64_t> without = {};        // rows that are never candidates
  // Request to stop between blocks of pictures scored by all their rows: kCancelled.
  std::stop_token stop = {};
  // Approximate index to look into, with the effort of this kind of query; nullptr: all rows are scored.
  const ApproximateIndex* approximate = nullptr;
  ListProbe probe = {};
  int64_t count = 0;  // allowed rows
};

// Returns the request that find_candidates and find_late_candidates make for `count` candidates, borrowed from `rows`. `nullopt`
// if they look into the approximate index instead.
std::optional<RowRequest> row_request(std::span<const float> query, int64_t count, const CandidateRows& rows);

// Finds the best candidates by one row per item: at least the first `count`, or all. Rows of equal score at
// the end are included together or not at all, since find_rows orders them by row number, which may not be id
// order.
Result<Candidates> find_candidates(const CollectionReader& collection, std::span<const float> query,
                                   int64_t count, const CandidateRows& rows, ThreadPool& pool,
                                   RowFinder& finder);

// Finds the `count` best by one row per item, and scores them again by all rows (MaxSim), together with the
// wanted ones.
Result<Candidates> find_late_candidates(const CollectionReader& collection, std::span<const float> query,
                                        const PackedQuery& late, int64_t count, const CandidateRows& rows,
                                        ThreadPool& pool, RowFinder& finder);

// Puts those that were brought among the best.
void join_brought(Candidates& candidates);

}  // namespace saccade
