// metrics.json of runs of visualness (docs/runs.md), as they are written and read (lab/eval/run/record_fields.h).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
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

// The same for one set of texts, labelled or not, one lexicon, and texts of one length.
struct AttentionCorrelation {
  std::string dataset;  // name of the texts
  std::string model;
  std::string lexicon;  // "mrc", or "mrc + word2vec"
  std::string length;   // "all", or one of kTextLengths
  AttentionRatings ratings;
  static void fields(auto& self, auto& field) {
    SACCADE_FIELDS(dataset, model, lexicon, length);
    AttentionRatings::fields(self.ratings, field);
  }
};

// Correlation of two models' attention to the words of the same texts.
struct AttentionAgreement {
  std::string dataset;
  std::string a;
  std::string b;
  double r = 0;
  double low = 0;
  double high = 0;
  double p = 0;
  int64_t words = 0;
  static void fields(auto& self, auto& field) { SACCADE_FIELDS(dataset, a, b, r, low, high, p, words); }
};

// The texts over which attention was measured: means over them. Without a list of objects their figures are
// NaN.
struct AttentionTextFacts {
  std::string dataset;
  int64_t texts = 0;
  double words = 0;
  double objects = Figure::kNone;  // number of words that name objects
  double object_share = Figure::kNone;
  std::vector<std::pair<std::string, double>> attention_to_objects;  // by model: share
  static void fields(auto& self, auto& field) {
    SACCADE_FIELDS(dataset, texts, words, objects, object_share, attention_to_objects);
  }
};

// Correlation of a lexicon's ratings with people's.
struct WordRatingAgreement {
  std::string lexicon;
  double r = 0;
  double low = 0;
  double high = 0;
  double p = 0;
  int64_t words = 0;
  std::optional<double> alpha;  // the people's agreement, Krippendorff's ordinal alpha
  static void fields(auto& self, auto& field) { SACCADE_FIELDS(lexicon, r, low, high, p, words, alpha); }
};

// Words to which an expansion gave a rating, in ranges of the rating.
inline constexpr std::array<std::string_view, 3> kRatingRanges = {"high", "medium", "low"};
inline constexpr double kHighRating = 0.7;  // and above
inline constexpr double kLowRating = 0.3;   // and below
struct RatedWordRange {
  std::string name;
  int64_t words = 0;
  std::vector<std::string> examples;
  static void fields(auto& self, auto& field) { SACCADE_FIELDS(name, words, examples); }
};
struct RatedWordList {
  std::string lexicon;
  std::vector<RatedWordRange> ranges;  // kRatingRanges
  static void fields(auto& self, auto& field) { SACCADE_FIELDS(lexicon, ranges); }
};

// A method on a part of a dataset's texts (text_parts.h). The figures are NaN if the part lacks a class.
struct VisualnessPart {
  std::string name;
  int64_t texts = 0;
  int64_t visual = 0;
  std::array<Figure, BinaryFigures::kNames.size()> figures;
  static void fields(auto& self, auto& field) {
    SACCADE_FIELDS(name, texts, visual);
    for (size_t i = 0; i < self.figures.size(); ++i) field(BinaryFigures::kNames[i], self.figures[i]);
  }
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
  std::optional<AttentionRatings> attention;  // with the given lexicon, over the dataset's texts
  std::vector<VisualnessPart> parts;
  [[nodiscard]] const Figure& f1() const { return figures.front(); }
  static void fields(auto& self, auto& field) {
    SACCADE_FIELDS(dataset, model, method, texts, visual, threshold, threshold_from);
    for (size_t i = 0; i < self.figures.size(); ++i) field(BinaryFigures::kNames[i], self.figures[i]);
    SACCADE_FIELDS(details, mrr, ambiguous, attention);
    field.added("parts", self.parts);
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
  std::vector<AttentionCorrelation> attention;
  std::vector<AttentionAgreement> attention_between;
  std::vector<AttentionTextFacts> attention_texts;
  std::vector<WordRatingAgreement> word_ratings;
  std::vector<RatedWordList> rated_words;
  static void fields(auto& self, auto& field) {
    SACCADE_FIELDS(results, comparisons);
    field.added("attention", self.attention);
    field.added("attention_between", self.attention_between);
    field.added("attention_texts", self.attention_texts);
    field.added("word_ratings", self.word_ratings);
    field.added("rated_words", self.rated_words);
  }
};

}  // namespace saccade::lab
