// metrics.json of runs of visualness (docs/runs.md), as they are written and read (lab/eval/run/record_fields.h).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lab/eval/figures/sample.h"
#include "lab/eval/run/record_fields.h"
#include "lab/eval/visualness/binary.h"
#include "saccade/core/json.h"

namespace saccade::lab {

// Mean reciprocal rank of the texts' own images.
struct PictureRank {
  Figure mrr;
  int64_t texts = 0;
  int64_t images = 0;
  static void fields(auto& self, auto& field) {
    Figure::fields(self.mrr, field);
    SACCADE_FIELDS(texts, images);
  }
};

// Distribution of the scores of ambiguous texts.
struct AmbiguousScores {
  int64_t texts = 0;
  double mean = 0;
  double deviation = 0;
  std::vector<double> quantiles;  // kAmbiguousShares, in deviations from the mean
  double bimodality = 0;          // Sarle's
  double called_visual = 0;       // share
  static void fields(auto& self, auto& field) {
    SACCADE_FIELDS(texts, mean, deviation, quantiles, bimodality, called_visual);
  }
};
inline constexpr std::array kAmbiguousShares = {0.05, 0.25, 0.5, 0.75, 0.95};

// Correlation of a model's attention to words with the words' ratings.
struct AttentionRatings {
  double r = 0;
  double low = 0;
  double high = 0;
  double p = 0;
  int64_t words = 0;
  int64_t texts = 0;
  int64_t unaligned = 0;  // texts left out
  static void fields(auto& self, auto& field) { SACCADE_FIELDS(r, low, high, p, words, texts, unaligned); }
};

// A method, a checkpoint or a rule, on a dataset.
struct VisualnessResult {
  std::string dataset;
  std::string model;  // name of the checkpoint, or of the rule
  std::string method;
  int64_t texts = 0;
  int64_t visual = 0;  // of these texts
  double threshold = 0;
  Json threshold_from;  // "checkpoint", or {"name", "sha256"} of the validation's dataset
  std::array<Figure, BinaryFigures::kNames.size()> figures;  // of these names
  Json details;                                              // what a method adds
  std::optional<PictureRank> mrr;
  std::optional<AmbiguousScores> ambiguous;
  std::optional<AttentionRatings> attention;
  [[nodiscard]] const Figure& f1() const { return figures.front(); }
  static void fields(auto& self, auto& field) {
    SACCADE_FIELDS(dataset, model, method, texts, visual, threshold, threshold_from);
    for (size_t i = 0; i < self.figures.size(); ++i) field(BinaryFigures::kNames[i], self.figures[i]);
    SACCADE_FIELDS(details, mrr, ambiguous, attention);
  }
};

// The paired differences a - b of two methods: BinaryFigures::kNames, and "mrr" where both have it.
struct VisualnessComparison {
  std::string dataset;
  std::string a;
  std::string b;
  std::vector<Difference> scores;
  static void fields(auto& self, auto& field) { SACCADE_FIELDS(dataset, a, b, scores); }
};

struct VisualnessMetrics {
  static constexpr std::string_view kKind = "visualness";
  std::vector<VisualnessResult> results;
  std::vector<VisualnessComparison> comparisons;
  static void fields(auto& self, auto& field) { SACCADE_FIELDS(results, comparisons); }
};

}  // namespace saccade::lab
