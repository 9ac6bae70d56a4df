// Figures of telling two classes apart: macro-averaged F1, precision and recall, and accuracy, with
// intervals; and the threshold that does it best.
//
// Macro: the mean over both classes, each as the class that is looked for (what the study's table 2 has). A
// class that nothing was taken for has a precision of 0. These are no means over texts, so a resample counts
// anew what was told right and wrong.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "lab/eval/figures/sample.h"

namespace saccade::lab {

// [truth][answer], 1 for visual.
using Confusion = std::array<std::array<double, 2>, 2>;

struct BinaryFigures {
  static constexpr std::array<std::string_view, 4> kNames = {"f1", "precision", "recall", "accuracy"};
  double f1 = 0;
  double precision = 0;
  double recall = 0;
  double accuracy = 0;
};
// NaN throughout for no texts.
BinaryFigures binary_figures(const Confusion& confusion);

// Truths and answers of texts, 1 for visual, and the cluster each text belongs to (sample.h).
struct BinaryAnswers {
  std::vector<uint8_t> truth;
  std::vector<uint8_t> answer;
  std::vector<int64_t> cluster;
  int64_t clusters = 0;
};
Confusion count_confusion(const BinaryAnswers& answers);
// Of kNames; what figures_of and paired_differences take. Drawn as estimate()
// draws. Cost: resamples * clusters.
Estimates estimate_binary(const BinaryAnswers& answers, const BootstrapOptions& options, ThreadPool& pool);

struct Threshold {
  double value = 0;  // a score above it means visual
  double f1 = 0;     // macro, on the texts it was chosen on
};
// The threshold of the highest macro F1: one between two neighbouring scores, or below all or above all of
// them; of equally good ones the middle one. kUsage where the texts are of one class, or there are none;
// kBadData for a score that is not finite. Cost: n log n.
Result<Threshold> choose_threshold(std::span<const double> scores, std::span<const uint8_t> truth);

}  // namespace saccade::lab
