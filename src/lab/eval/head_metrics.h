// metrics.json of runs of heads (docs/runs.md), as they are written and read (lab/eval/run/record_fields.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lab/eval/figures/relevance.h"
#include "lab/eval/figures/sample.h"
#include "lab/eval/retrieval/retrieval_metrics.h"
#include "lab/eval/run/record_fields.h"

namespace saccade::lab {

inline constexpr std::string_view kMeanRecall = "mean_recall";

// Figures, or differences, of recall: "r1", "r5" and "r10" each way, and the mean of these six.
template <typename T>
struct RecallOf {
  ByDirection<std::vector<T>> directions;
  T mean_recall;
  static void fields(auto& self, auto& field) {
    self.directions.fields(self.directions, field);
    field(kMeanRecall, self.mean_recall);
  }
};

// Verdict on the comparison of a with b.
struct Verdict {
  std::string a;
  std::string b;
  bool better = false;  // a is, and it shows
  bool worse = false;
  // "mlp is better than linear: mean recall +0.031 [0.012, 0.050]", or that it cannot
  // be called better.
  std::string sentence;
  RecallOf<Difference> differences;
  static void fields(auto& self, auto& field) {
    SACCADE_FIELDS(a, b, better, worse, sentence);
    self.differences.fields(self.differences, field);
  }
};

// The study's models: heads of one kind, size and width over the seeds.
struct HeadCell {
  std::string dataset;
  std::string kind;
  int64_t pairs = 0;
  int64_t width = 0;
  std::vector<uint64_t> seeds;
  RecallOf<Figure> recall;
  std::vector<double> by_seed;  // mean recall
  static void fields(auto& self, auto& field) {
    SACCADE_FIELDS(dataset, kind, pairs, width, seeds);
    self.recall.fields(self.recall, field);
    field("by_seed", self.by_seed);
  }
};

// A verdict of the study, with the dataset and a's pairs and width.
struct HeadVerdict {
  Verdict verdict;
  std::string dataset;
  int64_t pairs = 0;
  int64_t width = 0;
  static void fields(auto& self, auto& field) {
    Verdict::fields(self.verdict, field);
    SACCADE_FIELDS(dataset, pairs, width);
  }
};

// The encoder without a head.
struct HeadlessRecall {
  std::string dataset;
  RecallOf<Figure> recall;
  static void fields(auto& self, auto& field) {
    field("dataset", self.dataset);
    self.recall.fields(self.recall, field);
  }
};

struct HeadsMetrics {
  static constexpr std::string_view kKind = "heads";
  std::vector<RetrievalResult> results;
  std::vector<HeadCell> cells;
  std::vector<HeadVerdict> verdicts;
  std::vector<HeadlessRecall> pretrained;
  static void fields(auto& self, auto& field) { SACCADE_FIELDS(results, cells, verdicts, pretrained); }
};

}  // namespace saccade::lab
