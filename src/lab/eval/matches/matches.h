// Evaluation of match probabilities (index/likelihood.h). They are calibrated on one half of a dataset's
// classes, as `saccade index` calibrates them on a collection's captions. The other half is queried twice:
// with the answer present, and with its whole class removed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lab/data/dataset.h"
#include "lab/eval/figures/sample.h"
#include "lab/eval/matches/matches_metrics.h"
#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/index/likelihood.h"
#include "saccade/matrix.h"

namespace saccade::lab {

// A gallery of images with its queries.
struct MatchTask {
  std::vector<std::string> captions;  // all captions of each image, joined by "; "; empty if there are none
  std::vector<int64_t> class_of;      // class of each image: its group's number, or its own
  int64_t classes = 0;
  std::vector<uint8_t> learned;  // one byte per class: 1 for calibration, 0 for the test
};
// Makes the task from `items` by number. Classes are split into halves at random by `seed`.
MatchTask match_task(std::span<const DatasetItem> items, std::span<const int64_t> numbers, uint64_t seed);

// The queries of one kind, for calibration and for the test. Calibration texts are parts and words of
// captions, and everyday words (text/caption_queries.h). Test texts are each image's first caption. Without
// texts the images themselves are the queries. The query's class is relevant, and so are images with all
// words of its text.
struct MatchQueries {
  std::vector<std::string> texts;  // empty for image queries
  std::vector<std::vector<int64_t>> right;
  std::vector<int64_t> itself;   // the query's own image, excluded from its answers; -1 for texts
  std::vector<int64_t> cluster;  // its class; -1 for everyday words
};
inline constexpr int64_t kMostAsked = 2000;
MatchQueries learned_texts(const MatchTask& task, int64_t count);
MatchQueries asked_texts(const MatchTask& task);
MatchQueries learned_pictures(const MatchTask& task);
MatchQueries asked_pictures(const MatchTask& task);

// Computes the figures. rows: [pictures, dim]; learned and asked: one row per query. Errors: those of
// exact_search; never kCancelled.
Result<MatchFigures> measure_matches(MatrixView<const float> rows, const MatchQueries& learned,
                                     const Matrix<float>& learned_rows, const MatchQueries& asked,
                                     const Matrix<float>& asked_rows, double temperature,
                                     const BootstrapOptions& bootstrap, ThreadPool& pool);

// Returns the AUROC: how often a value of `high` is above one of `low`, ties half. The interval resamples
// clusters.
Figure clustered_auroc(const ClusteredValues& high, const ClusteredValues& low, int64_t clusters,
                       const BootstrapOptions& options, ThreadPool& pool);

}  // namespace saccade::lab
