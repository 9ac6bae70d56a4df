// Measurements of each checkpoint, joined from several runs: accuracy, composition, length and speed of one
// checkpoint in one precision. They are joined by fingerprint, whatever the checkpoint's name in each run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lab/eval/figures/sample.h"
#include "lab/eval/run/run.h"
#include "lab/eval/speed.h"
#include "saccade/core/error.h"

namespace saccade::lab {

struct EffectiveTokens {
  std::optional<int64_t>
      tokens;           // tokens of a text needed for a share of the best R@1; nullopt: never reached
  bool at_end = false;  // there was no more to read: it might be more
  double share = 0;
  // True if the curve is above chance. Otherwise `tokens` is noise.
  bool above_chance = true;
};

struct MeasuredSpeed {
  std::optional<Spread> images_per_s;
  std::optional<Spread> queries_per_s;
  std::optional<double> text_p95_ms;
  std::optional<int64_t> peak_bytes;
  int64_t text_samples = 0;
};

// One checkpoint in one precision.
struct MeasuredModel {
  std::string name;  // unique among these
  RunCheckpoint checkpoint;
  std::optional<Figure> accuracy;     // text to image, R@1
  std::optional<Figure> composition;  // group score, or text score for items with one image
  std::optional<EffectiveTokens> length;
  std::optional<MeasuredSpeed> speed;
};

// A paired difference a - b of two models that one run measured on the same items.
struct MeasuredDifference {
  size_t a = 0;  // an index into the models
  size_t b = 0;
  Difference difference;
  int64_t resamples = 0;  // of the run
  double confidence = 0.95;
};

struct Measurements {
  std::vector<MeasuredModel> models;
  std::vector<MeasuredDifference> accuracy_differences;
  std::vector<MeasuredDifference> composition_differences;
  std::string composition_figure;  // "group" or "text"
  // Value of each figure for chance.
  std::optional<double> accuracy_chance;
  std::optional<double> composition_chance;
  // Dataset of each measurement; empty if not measured.
  std::string accuracy_dataset;
  std::string composition_dataset;
  std::string speed_dataset;
  std::string speed_machine;         // "some processor, 2 threads"
  std::vector<std::string> remarks;  // remarks for the reader of the figures, in sentences
};

struct MeasurementChoice {
  // Names of the datasets to use if runs of one kind have several; if empty, there may be only one.
  std::vector<std::string> datasets;
  // Device of the speed measurements ("cpu"); empty accepts any, as long as there is only one.
  std::string device;
  bool composition = false;  // true to gather them
  bool length = false;
};

// Gathers the measurements. Errors: kUsage without runs or for a dataset that no run names; kBadData for
// invalid metrics. kMismatch, naming runs and values, for figures of different datasets or protocols, speeds
// of different machines or settings, and one figure measured twice with different values. Speeds measured
// twice always differ a little: the slower one counts, with a remark.
Result<Measurements> gather_measurements(std::span<const Run> runs, const MeasurementChoice& choice);

}  // namespace saccade::lab
