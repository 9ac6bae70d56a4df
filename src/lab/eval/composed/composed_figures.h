// Metrics of composed search: how high the targets of edit queries rank.
//
//   r1 r5 r10 r50       share of queries with a target (any, or the one the text was
//                       written for) among the first k
//   map5 map10 map25 map50   mean over queries of: sum over the targets among the first k of (number of
//                       targets up to there / rank), divided by min(targets, k)   (Baldrati et al., ICCV
//                       2023, section 4)
//   r_subset1 .. 3      the same over the query's subset alone, if every query has one
//   mean_r5_r_subset1   CIRR's headline metric
//   mean_r10_r50        Fashion-IQ's headline metric
//   reference1          share of queries whose first answer is the reference, if it is ranked
//   negative1           share of queries with explicit negatives whose first answer is one of them
//   negative_above      share of those queries that score a negative at least as high as the best target
//   best_r10 worst_r10 swing_r10   for queries with paraphrases: r10 of the best and of the worst wording
//                       of each query, and the difference of the two
//
// Ranks are counted under a declared tie policy. Bootstrap intervals resample by reference
// (figures/sample.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lab/eval/composed/composed_metrics.h"
#include "lab/eval/composed/composed_task.h"
#include "lab/eval/figures/ranking.h"
#include "lab/eval/figures/sample.h"
#include "lab/eval/rows/embed.h"
#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/matrix.h"

namespace saccade::lab {

// Names of figures that are shown in one table. A table leaves out those that none of its lines has.
struct ComposedFigureSet {
  std::string_view what;
  std::vector<std::string> names;
};
ComposedFigureSet composed_recalls();    // r1 r5 r10 r50
ComposedFigureSet composed_headlines();  // of subsets, and the layouts' headline metrics
// Returns all figures, in the order of their tables.
std::vector<ComposedFigureSet> composed_figure_sets();

// Ranking result of one query text.
struct ComposedAnswer {
  std::vector<double> ranks;         // ranks of all targets, ascending; empty: they are withheld
  double recall_rank = 0;            // rank of the target that r@k counts
  std::vector<double> subset_ranks;  // ranks of the targets in the subset, ascending
  bool tied = false;
  bool negative_above = false;
  std::vector<int64_t> top;         // images, best first; equal scores by number
  std::vector<float> top_scores;    // [top]
  std::vector<int64_t> top_subset;  // first answers within the subset
};

// Ranks the gallery for every query. rows: [task.asked, dim] and [task.pictures, dim]; their dot products are
// the scores. `depth` is the size of `top`; 0 computes ranks alone, without `top` and `negative_above`.
// Returns kBadData for a score that is NaN. Cost: all products, one to three times.
Result<std::vector<ComposedAnswer>> rank_composed(const ComposedTask& task, MatrixView<const float> asked,
                                                  MatrixView<const float> pictures, TiePolicy ties,
                                                  int64_t depth, ThreadPool& pool);
// Likewise for images of several embeddings each: a score is the largest dot product with one of them.
Result<std::vector<ComposedAnswer>> rank_composed(const ComposedTask& task, MatrixView<const float> asked,
                                                  const EmbeddedRows& pictures, TiePolicy ties, int64_t depth,
                                                  ThreadPool& pool);

// Returns the share of queries, in their original wording, with a target among the first `k`; NaN without
// queries.
double recall_at(const ComposedTask& task, std::span<const ComposedAnswer> answers, double k);

// Metrics of a group of queries.
struct ComposedGroup : ComposedFigures {
  std::vector<Estimates> estimates;  // for all queries; for those with negatives; for those with paraphrases
};
// Returns the metrics of all queries, of each kind if there are several, and of the mean over kinds for
// Fashion-IQ's layout. Queries without targets are not counted.
std::vector<ComposedGroup> composed_groups(const ComposedTask& task, std::span<const ComposedAnswer> answers,
                                           const BootstrapOptions& bootstrap, ThreadPool& pool);

// Returns the means over several trainings (seeds) of one group, as mean_over_trainings. `tied` is not set.
// Returns kUsage without trainings; kMismatch for groups of other queries.
Result<ComposedGroup> mean_over_seeds(std::span<const ComposedGroup* const> trainings,
                                      const BootstrapOptions& bootstrap);

// Returns the difference a - b of each metric.
Result<std::vector<Difference>> composed_differences(const ComposedGroup& a, const ComposedGroup& b,
                                                     double confidence);

}  // namespace saccade::lab
