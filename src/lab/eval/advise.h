// Advice on which of the measured models to use for given requirements. Limits exclude models. The others are
// ranked by accuracy, and by speed where accuracies do not differ significantly. Everything comes from runs.
// Values that no run has measured are reported and exclude no model.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lab/eval/run/measurements.h"
#include "lab/eval/run/run.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"

namespace saccade::lab {

struct AdviceQuestion {
  std::vector<std::string> datasets;  // MeasurementChoice::datasets
  std::string device;
  std::optional<double> min_images_per_s;
  std::optional<double> max_latency_ms;  // 95th percentile of single text queries
  std::optional<int64_t> max_memory_bytes;
  std::vector<std::string> languages;
  std::optional<int64_t> query_length;  // own tokens of a query, start and end not counted
  bool composition = false;             // true to rank by the test of composition
};

// An excluded model: the limit it breaks, and the value measured.
struct Excluded {
  std::string limit;  // "min_images_per_s", ...
  double wanted = 0;
  double measured = 0;
  std::string sentence;
};

struct AdvisedModel {
  MeasuredModel measured;
  int64_t rank = 0;  // from 1; 0: not ranked
  // Number of the tier, from 1. The accuracies of one tier do not differ significantly from that of its best.
  int64_t tier = 0;
  // True if the figure that models are ranked by is above chance; `nullopt` if chance or interval are
  // unknown.
  std::optional<bool> above_chance;
  std::vector<std::string> why;      // sentences
  std::vector<Excluded> excluded;    // limits it breaks
  std::vector<std::string> missing;  // reasons why it cannot be judged
};

struct Advice {
  std::string ranked_by;  // "text-to-image R@1", "group score"
  std::string dataset;    // dataset of the measurement
  std::string speed_machine;
  std::vector<AdvisedModel> ranked;      // best first
  std::vector<AdvisedModel> excluded;    // by at least one limit
  std::vector<AdvisedModel> not_judged;  // lack a measurement that the question needs and others have
  std::vector<std::string> notes;
};

// Ranks the models in tiers. A tier holds the best of the remaining models and all that do not differ
// significantly from it. If one run measured both, the paired difference decides, after Holm's correction (figures/holm.h)
// for the number of differences that the runs have. Otherwise the intervals decide, by whether they overlap; without
// intervals no two models can be told apart.
// Within a tier, faster models come first. A limit that no model was measured for is noted and excludes
// nobody. If some models were measured, the others are listed as not judged. An effective length counts as
// not measured if the model is no better than chance. Errors: kUsage if no run measures the figure to rank
// by; those of gather_measurements.
Result<Advice> advise(std::span<const Run> runs, const AdviceQuestion& question);

Json advice_json(const Advice& advice, const AdviceQuestion& question);
// Returns the advice as text for people; each line ends with a newline.
std::string advice_text(const Advice& advice);

}  // namespace saccade::lab
