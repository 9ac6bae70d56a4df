// Learning-rate schedule: linear warm-up, then half a cosine down to 0 (Loshchilov and Hutter 2017, "SGDR",
// eq. 5, a single period), or a constant rate.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "lab/train/options/loop_options.h"

namespace saccade::lab {

struct LearningRateSchedule {
  double peak = 1e-3;
  double warmup = 0.05;  // share of the steps; at least one step
  int64_t steps = 1;
  RateSchedule shape = RateSchedule::kCosine;  // after the warm-up

  // Returns the rate of step 0 to steps - 1. The warm-up ends at the peak; its first step has a share of it,
  // never 0.
  [[nodiscard]] double at(int64_t step) const {
    const double warmup_steps = std::max(1.0, warmup * static_cast<double>(steps));
    const auto now = static_cast<double>(step);
    if (now < warmup_steps) return peak * (now + 1) / warmup_steps;
    if (shape == RateSchedule::kConstant) return peak;
    const double share = (now - warmup_steps) / std::max(1.0, static_cast<double>(steps) - warmup_steps);
    return peak * 0.5 * (1 + std::cos(std::numbers::pi * std::min(share, 1.0)));
  }
};

}  // namespace saccade::lab
