// Which of the measured models to take, given what it has to do: limits that exclude, then accuracy, then
// speed where accuracies cannot be told apart. Everything comes from runs; what no run has measured is said
// and judges nobody.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "lab/eval/run/measurements.h"
#include "lab/eval/run/run.h"

namespace saccade::lab {

struct AdviceQuestion {
  std::vector<std::string> datasets;  // MeasurementChoice::datasets
  std::string device;
  std::optional<double> min_images_per_s;
  std::optional<double> max_latency_ms;  // 95th percentile of single text queries
  std::optional<int64_t> max_memory_bytes;
  std::vector<std::string> languages;
  std::optional<int64_t> query_length;  // own tokens of a query, start and end not counted
  bool composition = false;             // who does what to whom decides: rank by the test of composition
};

// Why a model is out: a limit, and what was measured against it.
struct Excluded {
  std::string limit;  // "min_images_per_s", ...
  double wanted = 0;
  double measured = 0;
  std::string sentence;
};

struct AdvisedModel {
  MeasuredModel measured;
  int64_t rank = 0;  // from 1; 0: not ranked
  // Models of one tier cannot be told apart from its best by accuracy; from 1.
  int64_t tier = 0;
  // Whether what it is ranked by is above what guessing gets; none where chance or interval are not known.
  std::optional<bool> above_chance;
  std::vector<std::string> why;      // sentences
  std::vector<Excluded> excluded;    // limits it breaks
  std::vector<std::string> missing;  // what keeps it from being judged
};

struct Advice {
  std::string ranked_by;  // "text-to-image R@1", "group score"
  std::string dataset;    // where it was measured
  std::string speed_machine;
  std::vector<AdvisedModel> ranked;      // best first
  std::vector<AdvisedModel> excluded;    // by at least one limit
  std::vector<AdvisedModel> not_judged;  // what others have measured and the question needs is missing
  std::vector<std::string> notes;
};

// A tier is the best of the models left and all that cannot be told apart from it: by the paired
// difference if one run measured both (Difference::told_apart), else by whether their intervals overlap;
// without intervals nobody can tell. Within a tier the faster goes first. A limit that no model was
// measured for is noted and judges nobody; where some were, those that were not are not judged; an
// effective length of a model that found no more than guessing is no measurement. kUsage where no run
// measures what is ranked by; else as gather_measurements.
Result<Advice> advise(std::span<const Run> runs, const AdviceQuestion& question);

Json advice_json(const Advice& advice, const AdviceQuestion& question);
// For people: lines, each ended.
std::string advice_text(const Advice& advice);

}  // namespace saccade::lab
