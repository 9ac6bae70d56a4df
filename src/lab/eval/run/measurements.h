// What runs have measured of each checkpoint, brought together: accuracy, composition, length and speed of
// one checkpoint in one precision, by its fingerprint, whatever it is called in each run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "saccade/core/error.h"
#include "lab/eval/figures/sample.h"
#include "lab/eval/run/run.h"
#include "lab/eval/speed.h"

namespace saccade::lab {

struct EffectiveTokens {
  std::optional<int64_t>
      tokens;           // own tokens of a text that a share of the best R@1 takes; none: never found
  bool at_end = false;  // there was no more to read: it might be more
  double share = 0;
  // Whether the curve found more than guessing does: where it did not, `tokens` is noise and says nothing.
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
  std::optional<Figure> composition;  // group score, or text score where items have one picture
  std::optional<EffectiveTokens> length;
  std::optional<MeasuredSpeed> speed;
};

// A paired difference of two models that one run measured on the same items: a less b.
struct MeasuredDifference {
  size_t a = 0;  // an index into the models
  size_t b = 0;
  Difference difference;
};

struct Measurements {
  std::vector<MeasuredModel> models;
  std::vector<MeasuredDifference> accuracy_differences;
  std::vector<MeasuredDifference> composition_differences;
  std::string composition_figure;  // "group" or "text"
  // What guessing gets of each figure.
  std::optional<double> accuracy_chance;
  std::optional<double> composition_chance;
  // What each was measured on; empty: not at all.
  std::string accuracy_dataset;
  std::string composition_dataset;
  std::string length_dataset;
  std::string speed_dataset;
  std::string speed_machine;         // "some processor, 2 threads"
  std::vector<std::string> remarks;  // what a reader of the figures should know, in sentences
};

struct MeasurementChoice {
  // Names of datasets to go by, where runs of one kind have several; empty: there may be only one.
  std::vector<std::string> datasets;
  // Speed measured on this device ("cpu"); empty: on any, as long as it is one.
  std::string device;
  bool composition = false;  // whether these are looked at
  bool length = false;
};

// kUsage without runs or for a dataset that no run names. kMismatch, naming runs and values, for what does
// not go together: figures of different datasets or protocols, speeds of different machines or settings, one
// figure measured twice with different values. Speeds measured twice differ a little always: the slower one
// counts, which is remarked. kBadData for metrics that break the format.
Result<Measurements> gather_measurements(std::span<const Run> runs, const MeasurementChoice& choice);

}  // namespace saccade::lab
