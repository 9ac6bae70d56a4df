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
#include "saccade/core/error.h"
#include "saccade/core/json.h"
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

// Figures of one kind of query. They are NaN without data.
struct MatchFigures {
  // Hits with a match probability between two numbers, and the number of them that are relevant.
  struct Bin {
    double from = 0;
    double to = 0;
    int64_t hits = 0;
    double promised = Figure::kNone;
    Figure came = {};
  };
  struct Cut {
    double cut = 0;
    int64_t hits = 0;  // at or above it
    double promised = Figure::kNone;
    Figure precision = {};
    Figure found = {};        // share of queries with an answer there of which any hit is shown
    Figure false_found = {};  // the same of queries without one
  };
  bool tells = false;
  std::string reason;
  int64_t learned = 0;  // labelled queries
  int64_t asked = 0;
  double gain = 0;  // MatchModel's
  double gain_error = 0;
  Figure first_right;   // share of queries with an answer there whose first hit is right
  Figure found_auroc;   // queries with an answer against the same without: by Judgement::there
  Figure cosine_auroc;  // by the best score
  Figure hit_auroc;     // right hits against wrong ones, by likelihood; of all asked, first ten hits each
  Figure hit_cosine_auroc;
  Figure rare;  // share of queries without an answer with a p-value of at most 0.1
  std::vector<Bin> bins;
  std::vector<Cut> cuts;
};

// Computes the figures. rows: [pictures, dim]; learned and asked: one row per query. Errors: those of
// exact_search; never kCancelled.
Result<MatchFigures> measure_matches(MatrixView<const float> rows, const MatchQueries& learned,
                                     const Matrix<float>& learned_rows, const MatchQueries& asked,
                                     const Matrix<float>& asked_rows, double temperature,
                                     const BootstrapOptions& bootstrap, ThreadPool& pool);

Json match_figures_json(const MatchFigures& figures);

// Returns the AUROC: how often a value of `high` is above one of `low`, ties half. The interval resamples
// clusters.
Figure clustered_auroc(std::span<const double> high, std::span<const int64_t> high_cluster,
                       std::span<const double> low, std::span<const int64_t> low_cluster, int64_t clusters,
                       const BootstrapOptions& options, ThreadPool& pool);

}  // namespace saccade::lab
