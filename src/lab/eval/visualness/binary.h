// Metrics of binary classification: macro-averaged F1, precision and recall, and accuracy, with intervals;
// and the threshold with the best F1.
//
// Macro: the mean over both classes, each as the positive class (as in the study's table 2). A class that was
// never predicted has a precision of 0. These are not means over texts, so a resample counts the confusion
// matrix again.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "lab/eval/figures/sample.h"
#include "saccade/core/error.h"
#include "saccade/core/threads.h"

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
// Computes the figures; all are NaN without texts.
BinaryFigures binary_figures(const Confusion& confusion);

// Labels and predictions of texts, 1 for visual, and the cluster of each text (sample.h).
struct BinaryAnswers {
  std::vector<uint8_t> truth;
  std::vector<uint8_t> answer;
  std::vector<int64_t> cluster;
  int64_t clusters = 0;
};
Confusion count_confusion(const BinaryAnswers& answers);
// Returns estimates of kNames for figures_of and paired_differences. Resamples as estimate() does. Cost:
// resamples * clusters.
Estimates estimate_binary(const BinaryAnswers& answers, const BootstrapOptions& options, ThreadPool& pool);

struct Threshold {
  double value = 0;  // a score above it means visual
  double f1 = 0;     // macro, on the texts it was chosen on
};
// Returns the threshold with the highest macro F1. It lies between two neighbouring scores, or below or above
// all of them; among equally good ones it is the middle one. Errors: kUsage if the texts are of one class, or
// there are none; kBadData for a score that is not finite. Cost: n log n.
Result<Threshold> choose_threshold(std::span<const double> scores, std::span<const uint8_t> truth);

}  // namespace saccade::lab
