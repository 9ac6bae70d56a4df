// What a bootstrap is made of (sample.h), for figures that are no means or medians of queries.
#pragma once

#include <cstdint>
#include <span>

namespace saccade::lab {

// How often each cluster is in resample `resample`: times has one entry a cluster, and is filled. What
// estimate() draws by: samples over as many clusters are resampled alike.
void draw_clusters(uint64_t seed, int64_t resample, std::span<int32_t> times);

// The z below which a standard normal lies with probability p, 0 < p < 1.
double normal_quantile(double p);

}  // namespace saccade::lab
