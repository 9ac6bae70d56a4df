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
  static void fields(auto& self, auto& field) {
    SACCADE_FIELDS(dataset, model, images, texts);
    self.directions.fields(self.directions, field);
    field.if_set("texts_cut", self.texts_cut);
    field.if_set("tokens_dropped", self.tokens_dropped);
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
