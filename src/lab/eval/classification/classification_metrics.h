// metrics.json of runs of classification (docs/runs.md), as they are written and read (lab/eval/run/record_fields.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lab/eval/figures/sample.h"
#include "lab/eval/run/record_fields.h"

namespace saccade::lab {

// A class of a dataset, and how often a model finds it.
struct ClassResult {
  std::string label;
  std::string name;  // as it stands in the prompts
  int64_t images = 0;
  int64_t top1 = 0;  // images whose best class it is, rightly
  int64_t top5 = 0;
  std::optional<std::string> mistaken_for = {};  // the class that most of its other images get
  static void fields(auto& self, auto& field) {
    SACCADE_FIELDS(label, name, images, top1, top5, mistaken_for);
  }
};

// A model on a dataset.
struct ClassificationResult {
  std::string dataset;
  std::string model;
  int64_t images = 0;
  int64_t tied = 0;                  // images with a wrong class of exactly the right one's score
  std::vector<Figure> figures;       // top1, top5, mean_per_class
  std::vector<ClassResult> classes;  // empty for chance
  static void fields(auto& self, auto& field) {
    SACCADE_FIELDS(dataset, model, images, tied, figures, classes);
  }
};

// The paired differences a - b of two models on a dataset.
struct ClassificationComparison {
  std::string dataset;
  std::string a;
  std::string b;
  std::vector<Difference> figures;
  static void fields(auto& self, auto& field) { SACCADE_FIELDS(dataset, a, b, figures); }
};

struct ClassificationMetrics {
  static constexpr std::string_view kKind = "classification";
  std::vector<ClassificationResult> results;
  std::vector<ClassificationComparison> comparisons;
  static void fields(auto& self, auto& field) { SACCADE_FIELDS(results, comparisons); }
};

}  // namespace saccade::lab
