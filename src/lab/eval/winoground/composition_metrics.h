// metrics.json of runs of winoground (docs/runs.md), as they are written and read (lab/eval/run/record_fields.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lab/eval/figures/sample.h"
#include "lab/eval/run/record_fields.h"

namespace saccade::lab {

// A model on all items of a dataset, or on those of one kind.
struct CompositionResult {
  std::string dataset;
  std::string model;
  std::optional<std::string> kind = {};  // nullopt: all items
  int64_t items = 0;
  int64_t tied = 0;
  std::vector<Figure> scores = {};  // "text", and for items of two images "image" and "group"
  static void fields(auto& self, auto& field) { SACCADE_FIELDS(dataset, model, kind, items, tied, scores); }
};

// The paired differences a - b of two models.
struct CompositionComparison {
  std::string dataset;
  std::string a;
  std::string b;
  std::optional<std::string> kind = {};
  std::vector<Difference> scores = {};
  static void fields(auto& self, auto& field) { SACCADE_FIELDS(dataset, a, b, kind, scores); }
};

struct CompositionMetrics {
  static constexpr std::string_view kKind = "winoground";
  std::vector<CompositionResult> results;
  std::vector<CompositionComparison> comparisons;
  static void fields(auto& self, auto& field) { SACCADE_FIELDS(results, comparisons); }
};

}  // namespace saccade::lab
