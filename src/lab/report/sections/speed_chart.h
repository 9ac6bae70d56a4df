// Accuracy against speed: what the leaderboard and the section of speed share. Internal to the module.
#pragma once

#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include "lab/eval/figures/sample.h"
#include "lab/eval/speed_metrics.h"
#include "lab/report/chart.h"
#include "lab/report/table.h"

namespace saccade::lab {

// Speed and R@1 of a model.
struct SpeedPoint {
  Series series;
  Spread speed;
  const Figure* recall = nullptr;

  [[nodiscard]] double x() const { return speed.value; }
  [[nodiscard]] double y() const { return recall == nullptr ? std::nan("") : recall->value; }
};

// Returns a rate with its range; empty if it was not measured.
Cell spread_cell(const std::optional<Spread>& spread);

// Titles of the axes, and the column of the speeds.
struct SpeedAxes {
  std::string_view column;
  std::string_view x_title;
  std::string_view y_title = "R@1";
};

// Returns the chart with its data, its legend and the Pareto frontier. The caller names it.
Chart speed_chart(const std::vector<SpeedPoint>& points, const SpeedAxes& axes);

}  // namespace saccade::lab
