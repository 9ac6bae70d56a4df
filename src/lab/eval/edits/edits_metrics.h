// metrics.json of runs of edits (docs/runs.md), as they are written and read (lab/eval/run/record_fields.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lab/eval/composed/composed_metrics.h"
#include "lab/eval/figures/sample.h"
#include "lab/eval/run/record_fields.h"
#include "saccade/core/json.h"

namespace saccade::lab {

// The method that asks by the generated images.
inline constexpr const char* kByGenerated = "generated";

// A method with a model, on all queries or on those of one kind.
struct EditsResult {
  std::string dataset;
  std::string model;
  std::string method;
  int64_t texts_cut = 0;
  bool reference_ranked = false;
  ComposedFigures group;
  static void fields(auto& self, auto& field) {
    SACCADE_FIELDS(dataset, model, method, texts_cut, reference_ranked);
    ComposedFigures::fields(self.group, field);
  }
};

// The paired differences a - b of two methods with a model.
struct EditsComparison {
  std::string dataset;
  std::string model;
  std::string a;
  std::string b;
  std::vector<Difference> figures;
  static void fields(auto& self, auto& field) { SACCADE_FIELDS(dataset, model, a, b, figures); }
};

// Similarity of generated images to their targets, and whether more similar ones help more. One object
// covers one checkpoint, and all queries or those of a kind.
struct EditsLikeness {
  std::string dataset;
  std::string model;
  std::string of;    // "all" or "kind"
  std::string name;  // name of the kind
  int64_t queries = 0;
  BriefFigure cosine;                      // of generated image and target
  BriefFigure reference_cosine;            // of reference and target
  BriefFigure gain;                        // in 1 / rank, over the sum of reference and text
  std::optional<BriefFigure> correlation;  // of cosine and gain, only over all queries
  static void fields(auto& self, auto& field) {
    SACCADE_FIELDS(dataset, model, of);
    field.or_null("name", self.name);
    SACCADE_FIELDS(queries, cosine, reference_cosine, gain, correlation);
  }
};

struct EditsMetrics {
  static constexpr std::string_view kKind = "edits";
  Json engine;  // description of what generated the images
  std::vector<EditsResult> results;
  std::vector<EditsComparison> comparisons;
  std::vector<EditsLikeness> likeness;
  static void fields(auto& self, auto& field) { SACCADE_FIELDS(engine, results, comparisons, likeness); }
};

}  // namespace saccade::lab
