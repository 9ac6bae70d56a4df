// Match probabilities of hits, calibrated on queries with known relevant rows.
//
// A raw score means little. Its scale differs between encoders and queries, some rows are near everything
// (hubs), and the best of many rows scores high by chance. Therefore a hit is described by six cheap
// features:
//
//   score     itself
//   standard  (score - mean) / deviation of the query's scores over a sample of the rows
//   odds      log odds of the hit in a softmax over the query's kCompetitors best scores, at the
//             encoder's training temperature: high for a hit that stands alone, low for one of many
//             similar ones. A contrastive loss makes this softmax the posterior of a query that has
//             exactly one right row (van den Oord et al., "Representation Learning with Contrastive
//             Predictive Coding", 2018, equation 5)
//   hub       the row's dot product with the mean of background queries, standardized over the sample: how
//             near the row is to everything (Dinu, Lazaridou and Baroni, "Improving zero-shot learning by
//             mitigating the hubness problem", 2015)
//   level     the standard score of the query's kJudgedHits-th hit: if it is high too, many rows
//             match, and low odds mean little
//   words     log(1 + the number of the query's words): "arrow" has more answers than "arrow down left"
//
// A logistic regression maps them to a probability. A second one, over the first hit's features, predicts if
// the query has any relevant row. It is fitted on labelled queries, each used twice: against all rows, and
// with its right rows removed, so that nothing relevant is left. Both count equally, so the probability
// assumes that half of all queries have an answer. The model is used only if it beats the constant base rate
// by two standard errors on held-out queries; otherwise no probability is given.
//
// Without enough labels the queries still give a null distribution: the share of background queries whose
// best hit stands out as much. This is a conformal p-value (Vovk, Gammerman and Shafer, "Algorithmic Learning
// in a Random World", 2005).
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/index/exact_search.h"
#include "saccade/matrix.h"

namespace saccade {

inline constexpr int64_t kCompetitors = 64;     // best scores that a hit's odds are taken among
inline constexpr int64_t kJudgedHits = 10;      // number of best hits used per labelled query
inline constexpr int64_t kMostRight = 128;      // right rows a labelled query may have
inline constexpr int64_t kFewestRows = 65;      // one more than the competitors: with fewer there is no null
inline constexpr int64_t kFewestLabelled = 60;  // labelled queries that a fit needs
// Minimum number of labelled queries if the queries are images. Measured on two icon libraries: fits to 128
// and 165 of them predicted 0.6 for hits of which 0.15 were right. Fits to 209 and 252 were calibrated.
inline constexpr int64_t kFewestLabelledPictures = 200;
inline constexpr int64_t kFewestRightHits = 30;  // right ones among the hits learned from
inline constexpr int64_t kSampleRows = 256;

// Statistics of the rows and of background queries, without labels.
struct Surroundings {
  std::vector<float> mean_query;  // [dim]: of background queries
  Matrix<float> sample;           // [rows, dim]: up to kSampleRows of the rows
  double hub_mean = 0;            // mean of the sample's dot products with mean_query, and deviation
  double hub_deviation = 1;
  double temperature = 1;  // factor on scores in the softmax: the encoder's logit scale
};
// Computes the statistics from `queries`: [n, dim], and an evenly spaced sample of the allowed rows.
Surroundings surroundings_of(MatrixView<const float> rows, std::span<const uint8_t> allowed,
                             MatrixView<const float> queries, double temperature);

struct LabelledQueries {
  Matrix<float> rows;                       // [n, dim], each of length 1
  std::vector<std::vector<int64_t>> right;  // right row numbers per query, ascending; empty if unknown
  std::vector<int64_t> words;               // number of words of each query; 0 for an image
  std::vector<int64_t> itself;              // row excluded per query (its own image), or -1
  int64_t fewest = kFewestLabelled;         // with right rows, that a fit needs
};

struct HitFigures {
  static constexpr size_t kCount = 6;
  double score = 0;
  double standard = 0;
  double odds = 0;
  double hub = 0;
  double level = 0;
  double words = 0;
};

// Log odds of hits in a softmax over their query's kCompetitors best scores (HitFigures::odds).
class LogOdds {
 public:
  // `best`: the query's best scores, best first; not kept. `temperature`: as in Surroundings.
  LogOdds(std::span<const RowScore> best, double temperature);
  // Returns the log odds of a hit with this score, in [-20, 20].
  [[nodiscard]] double of(double score) const;

 private:
  [[nodiscard]] double exponential(double score) const;
  double temperature_;
  double first_ = 0;  // the best score
  double sum_ = 0;
};

// Weights of features standardized by `centre` and `spread`; the last one is the intercept.
struct HitRegression {
  std::array<double, HitFigures::kCount> centre = {};
  std::array<double, HitFigures::kCount> spread = {1, 1, 1, 1, 1, 1};
  std::array<double, HitFigures::kCount + 1> weight = {};

  // Returns the log odds.
  [[nodiscard]] double logit(const std::array<double, HitFigures::kCount>& figures) const;
};

// Fitted calibration model of a query's hits; plain numbers that can be stored.
struct MatchModel {
  HitRegression hit;    // model of the probability that a hit is right
  HitRegression there;  // by the first hit, that the query has an answer
  bool tells = false;   // true if they may be used
  std::string reason;   // why not, for people: "..., so that nothing can be told of a hit"
  int64_t queries = 0;  // number of queries in the null distribution below
  int64_t labelled = 0;
  int64_t right_hits = 0;
  double gain = 0;        // held-out gain over the base rate in log loss, nats per query
  double gain_error = 0;  // its standard error
  // Null distribution: a statistic of each null query's first hit, ascending. It is the log odds of `there`
  // if `tells`, else the standard score. Null queries are those without a right row; if `tells` is false for
  // want of labels, all queries.
  std::vector<float> best;
  // Number of wrong rows that a query has at or above a standard score; falls as the score rises.
  std::vector<float> false_score;  // ascending
  std::vector<float> false_count;
  int64_t rows = 0;  // among which that was counted
};

// Fits the model to queries against `rows` where `allowed` is not 0 (empty: all). Never fails for lack of
// data: a model without predictions gives its reason. Returns the errors of exact_search, and kCancelled between two batches. Cost: two passes
// over the rows per batch of queries, and milliseconds.
Result<MatchModel> fit_matches(MatrixView<const float> rows, std::span<const uint8_t> allowed,
                               const Surroundings& surroundings, const LabelledQueries& queries,
                               ThreadPool& pool, const std::stop_token& stop = {});

struct HitLikelihood {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  double right = kUnknown;           // probability, where the model tells
  double expected_false = kUnknown;  // wrong rows that a query without a right one has at this standard score
  double standard = 0;
};
struct Judgement {
  std::vector<HitLikelihood> hits;  // one a hit of `best`
  // Probability that the query has a relevant row, if the model gives one.
  double there = HitLikelihood::kUnknown;
  // Share of null queries whose first hit stands out at least as much: (1 + their number) / (1 + all). NaN
  // without a null distribution.
  double p_value = HitLikelihood::kUnknown;
};
// Computes the match probabilities of `best`: the query's best rows, best first, kCompetitors of them or all.
// `searched`: number of rows that they are the best of. `words`: as in LabelledQueries. Cost: kSampleRows +
// best.size() dot products.
Judgement judge_hits(const MatchModel& model, const Surroundings& surroundings, MatrixView<const float> rows,
                     std::span<const float> query, std::span<const RowScore> best, int64_t searched,
                     int64_t words);

// Returns the features themselves, for measurements.
std::vector<HitFigures> hit_figures(const Surroundings& surroundings, MatrixView<const float> rows,
                                    std::span<const float> query, std::span<const RowScore> best,
                                    int64_t words);

}  // namespace saccade
