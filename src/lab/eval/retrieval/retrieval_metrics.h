// metrics.json of runs of retrieval (docs/runs.md), as they are written and read (lab/eval/run/record_fields.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lab/eval/figures/relevance.h"
#include "lab/eval/figures/sample.h"
#include "lab/eval/retrieval/retrieval.h"
#include "lab/eval/run/record_fields.h"

namespace saccade::lab {

struct RetrievalDirection {
  QueryCounts counts;
  std::vector<Figure> figures;  // retrieval_names
  static void fields(auto& self, auto& field) {
    QueryCounts::fields(self.counts, field);
    field.rest(self.figures);
  }
};

// The symmetric protocol beside the run's own: each image with its first caption, as many texts as images.
struct SymmetricRetrieval {
  ByDirection<RetrievalDirection> directions = {};
  ByDirection<std::vector<Difference>> gain = {};  // the run's protocol minus this one, paired by image
  static void fields(auto& self, auto& field) {
    self.directions.fields(self.directions, field);
    field.object("gain", [&](auto& in) { self.gain.fields(self.gain, in); });
  }
};

// Figures once the first `depth` answers to every query are in the order of a second model (lab/eval/retrieval/retrieval_rerank.h).
struct RerankPoint {
  int64_t depth = 0;
  // Figures r1, r5 and r10. They are empty where a smaller depth holds a direction's whole gallery.
  ByDirection<std::vector<Figure>> figures = {};
  ByDirection<std::vector<Difference>> gain = {};  // over the first model alone
  static void fields(auto& self, auto& field) {
    field("depth", self.depth);
    self.figures.fields(self.figures, field);
    field.object("gain", [&](auto& in) { self.gain.fields(self.gain, in); });
  }
};
struct RerankResult {
  std::string second;            // name of the second checkpoint
  std::string by;                // "match", "maxsim" or "cosine"
  int64_t pairs = 0;             // of a text and an image that it scored
  double seconds_per_query = 0;  // of both directions, decoding among them
  std::vector<RerankPoint> points = {};
  static void fields(auto& self, auto& field) {
    SACCADE_FIELDS(second, by, pairs, seconds_per_query, points);
  }
};

// R@1, R@5 and R@10 of the queries of one group.
struct QueryGroupFigures {
  std::string kind;
  std::string group;
  int64_t queries = 0;  // with a right answer
  int64_t images = 0;   // to which they belong: the clusters of the bootstrap
  // True if there are fewer images than kFewestClusters. Intervals are then Wilson's, with a trial for each image, since those of
  // a bootstrap over so few are too narrow.
  bool few = false;
  std::vector<BriefFigure> figures = {};  // r1, r5, r10
  static void fields(auto& self, auto& field) { SACCADE_FIELDS(kind, group, queries, images, few, figures); }
};

// A model on a dataset.
struct RetrievalResult {
  std::string dataset;
  std::string model;
  int64_t images = 0;
  int64_t texts = 0;
  ByDirection<RetrievalDirection> directions = {};
  // Texts longer than the context, and the tokens that were dropped; nullopt where nothing was encoded here.
  std::optional<int64_t> texts_cut = {};
  std::optional<int64_t> tokens_dropped = {};
  std::optional<Difference> gap = {};  // R@1 of image to text minus that of text to image, paired by image
  std::optional<SymmetricRetrieval> symmetric = {};
  std::optional<RerankResult> rerank = {};
  std::optional<std::vector<QueryGroupFigures>> groups = {};  // of text queries, kind by kind
  static void fields(auto& self, auto& field) {
    SACCADE_FIELDS(dataset, model, images, texts);
    self.directions.fields(self.directions, field);
    field.if_set("texts_cut", self.texts_cut);
    field.if_set("tokens_dropped", self.tokens_dropped);
    field.if_set("gap", self.gap);
    field.if_set("symmetric", self.symmetric);
    field.if_set("rerank", self.rerank);
    field.if_set("groups", self.groups);
  }
};

// The paired differences a - b of two models on a dataset.
struct RetrievalComparison {
  std::string dataset;
  std::string a;
  std::string b;
  ByDirection<std::vector<Difference>> directions = {};
  static void fields(auto& self, auto& field) {
    SACCADE_FIELDS(dataset, a, b);
    self.directions.fields(self.directions, field);
  }
};

struct RetrievalMetrics {
  static constexpr std::string_view kKind = "retrieval";
  std::vector<RetrievalResult> results;
  std::vector<RetrievalComparison> comparisons;
  static void fields(auto& self, auto& field) { SACCADE_FIELDS(results, comparisons); }
};

}  // namespace saccade::lab
