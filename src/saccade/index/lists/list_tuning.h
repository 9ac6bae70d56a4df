// Finds the effort with which a search through lists reaches a wanted recall, and measures that recall.
#pragma once

#include <cstdint>
#include <span>
#include <stop_token>

#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/index/lists/list_search.h"
#include "saccade/matrix.h"

namespace saccade {

// Number of best rows that recall is measured at.
inline constexpr int64_t kRecallAt = 10;
// Limit on the rescored rows of a tuned effort.
inline constexpr int64_t kMostRescored = 16'384;

// Queries of one kind. Rows of text and rows of images are tuned apart: texts lie elsewhere than images, so that their
// neighbors are spread over more lists.
struct TuningQueries {
  MatrixView<const float> rows;  // [m, dim]
  std::span<const int64_t> itself =
      {};  // [m] or empty: the row that a query is a copy of, and that is not counted; or -1
};

struct ListRecall {
  ListProbe probe;
  double wanted = 0;
  double measured = 0;  // share of the exact kRecallAt best rows that are found, with that probe
  int64_t queries = 0;  // that it was measured on; others than those that the probe was found with
  int64_t tuned_with = 0;
  [[nodiscard]] bool known() const { return queries > 0; }
  // Returns true if the wanted recall was reached.
  [[nodiscard]] bool reached() const { return known() && measured >= wanted; }
};

struct TuningOptions {
  double recall = 0.95;      // wanted, above 0 and below 1
  int64_t most_tuned = 250;  // queries that find the probe; the others measure
  std::stop_token stop = {};
};

// Checks a wanted recall: kUsage unless it is above 0 and below 1.
Status check_recall(double recall);

// Tunes with the first queries, a third of them up to most_tuned, and measures on the others. These are looked at again only if
// they show that the effort is too small; it is raised then. Returns known() == false for
// fewer than kFewestTuning queries. Cost: an exact search for all queries, and a few approximate ones for each.
inline constexpr int64_t kFewestTuning = 30;
Result<ListRecall> tune_lists(const SearchedRows& searched, const ListIndex& index, const ListChecks& checks,
                              const TuningQueries& queries, const TuningOptions& options, ThreadPool& pool);

}  // namespace saccade
