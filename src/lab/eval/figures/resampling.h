// Building blocks of the bootstrap (sample.h), for figures that are not means or medians of queries.
#pragma once

#include <cstdint>
#include <span>

namespace saccade::lab {

// Fills `times`, one entry per cluster, with how often resample `resample` contains each. estimate() draws
// the same way, so samples over as many clusters are resampled alike.
void draw_clusters(uint64_t seed, int64_t resample, std::span<int32_t> times);

struct Interval {
  double low = 0;
  double high = 1;
};
// Returns Wilson's interval for a share of `trials`, at least one (J. Am. Stat. Assoc. 22 (1927)).
Interval wilson_interval(double share, int64_t trials, double confidence);

// Returns the z below which a standard normal lies with probability p, 0 < p < 1.
double normal_quantile(double p);

}  // namespace saccade::lab
