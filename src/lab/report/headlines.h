// The headline figure of each study and dataset: what the table that opens a report compares.
#pragma once

#include <string>
#include <vector>

#include "lab/report/report_data.h"

namespace saccade::lab {

// A model's headline figure on a dataset.
struct Headline {
  Series series;
  Figure figure;
  double rank = 0;  // among the column's models, 1 for the best; equal values share the mean of their ranks
  // True if it cannot be told apart from the best: by the paired test, where one run measured both (after Holm's
  // correction for the column's comparisons with the best), else because the intervals overlap.
  bool tied = false;
  bool best = false;
  const LoadedRun* run = nullptr;
  std::string model;  // its name in the run
};

// One column: results of one dataset under one protocol.
struct HeadlineColumn {
  std::string dataset;
  std::string figure;  // "R@1, text → image"
  std::string key;     // of the saved table
  Unit unit = Unit::kShare;
  bool quality = true;  // false for speed, which no rank counts
  std::vector<Headline> models;
};

// Returns the columns of all runs, with ranks, best and ties. Chance is no model. A model that a column has twice, from two
// runs, counts once, as in the first run.
std::vector<HeadlineColumn> headlines(const ReportData& data);

// Returns a key that is equal for results that compare: of the same dataset, images and protocol.
std::string comparability(const RunInfo& info, const std::string& dataset);

}  // namespace saccade::lab
