// metrics.json of runs of composed search (docs/runs.md), as they are written and read (lab/eval/run/record_fields.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lab/eval/figures/sample.h"
#include "lab/eval/run/record_fields.h"

namespace saccade::lab {

// Figures of a group of queries.
struct ComposedFigures {
  std::string of;    // "all", "kind", or "mean of kinds": each kind counts once
  std::string name;  // name of the kind
  int64_t queries = 0;
  int64_t gallery = 0;  // images of the smallest gallery
  int64_t tied = 0;
  std::vector<Figure> figures;
  static void fields(auto& self, auto& field) {
    field("of", self.of);
    field.or_null("name", self.name);
    SACCADE_FIELDS(queries, gallery, tied, figures);
  }
};

// A method with a model, on a dataset's queries or on those of one kind.
struct ComposedResult {
  std::string dataset;
  std::string model;
  std::string method;
  std::optional<double> weight;
  std::string weight_from;
  std::string composer;                  // kind of the trained composer; empty: none
  std::optional<double> tau;             // threshold of a composer that has one
  std::optional<double> tokens_matched;  // share of the texts' tokens that met one of the reference's
  int64_t texts_cut = 0;
  int64_t tokens_dropped = 0;
  bool reference_ranked = false;
  std::string recall;  // RecallTarget's name
  ComposedFigures group;
  static void fields(auto& self, auto& field) {
    SACCADE_FIELDS(dataset, model, method, weight);
    field.or_null("weight_from", self.weight_from);
    field.or_null("composer", self.composer);
    SACCADE_FIELDS(tau, tokens_matched);
    field.added("texts_cut", self.texts_cut);
    field.added("tokens_dropped", self.tokens_dropped);
    field.added("reference_ranked", self.reference_ranked);
    field.added("recall", self.recall);
    ComposedFigures::fields(self.group, field);
  }
};

// The weight, or a composer's tau, with the highest r10 on the dataset for choosing.
struct ComposedChoice {
  std::string dataset;
  std::string model;
  std::string method;
  double weight = 0;
  double r10 = 0;
  static void fields(auto& self, auto& field) { SACCADE_FIELDS(dataset, model, method, weight, r10); }
};

// Figures of a composer at one tau.
struct TauPoint {
  std::string model;
  std::string method;
  double tau = 0;
  std::optional<double> matched;  // ComposedResult::tokens_matched
  std::vector<Figure> figures;
  std::string dataset;
  static void fields(auto& self, auto& field) {
    SACCADE_FIELDS(model, method, tau, matched, figures, dataset);
  }
};

// Cosines of each token of references with each of their texts': counts[i] are from low + i * width.
struct TokenSimilarities {
  int64_t queries = 0;
  int64_t pairs = 0;
  double mean = Figure::kNone;
  double low = 0;
  double width = 0;
  std::vector<int64_t> counts;
  std::string model;
  std::string dataset;
  static void fields(auto& self, auto& field) {
    SACCADE_FIELDS(queries, pairs, mean, low, width, counts, model, dataset);
  }
};

// The paired differences a - b of two methods.
struct ComposedComparison {
  struct Side {
    std::string model;
    std::string method;
    static void fields(auto& self, auto& field) { SACCADE_FIELDS(model, method); }
  };
  std::string dataset;
  std::string of;
  Side a;
  Side b;
  std::vector<Difference> figures;
  static void fields(auto& self, auto& field) { SACCADE_FIELDS(dataset, of, a, b, figures); }
};

// A training of a composer without one of its parts, or the whole training, measured as the mean over its seeds.
struct ComposedAblation {
  std::string dataset;
  std::string of;       // "all", or "mean of kinds"
  std::string name;     // name of the ablation, or "full"
  std::string changed;  // options that differ from those of the full training; empty for the full one
  std::vector<uint64_t> seeds;
  std::vector<std::string> methods;  // names of the composers among the results, one for each seed
  int64_t queries = 0;
  std::vector<Figure> figures;          // means over the seeds
  std::vector<Difference> differences;  // the ablation less the full training; none for the full one
  // The training less a method that is not trained, of the same encoder.
  struct Untrained {
    std::string method;
    std::vector<Difference> figures;
    static void fields(auto& self, auto& field) { SACCADE_FIELDS(method, figures); }
  };
  std::vector<Untrained> untrained;
  static void fields(auto& self, auto& field) {
    SACCADE_FIELDS(dataset, of, name, changed, seeds, methods, queries, figures, differences);
    field.added("untrained", self.untrained);
  }
};

struct ComposedMetrics {
  static constexpr std::string_view kKind = "composed";
  std::vector<ComposedResult> results;
  std::vector<ComposedChoice> chosen;
  std::vector<TauPoint> tau_curves;
  std::vector<TokenSimilarities> token_similarities;
  std::vector<ComposedComparison> comparisons;
  std::vector<ComposedAblation> ablations;
  static void fields(auto& self, auto& field) {
    field("results", self.results);
    field.added("chosen", self.chosen);
    field.added("tau_curves", self.tau_curves);
    field.added("token_similarities", self.token_similarities);
    field("comparisons", self.comparisons);
    field.added("ablations", self.ablations);
  }
};

}  // namespace saccade::lab
