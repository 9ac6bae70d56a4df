// Correction of p-values for the number of comparisons.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace saccade::lab {

// Returns the p-values adjusted by Holm's step-down method (Scand. J. Statist. 6, 1979): each is compared with the level
// itself then, and the probability of any false claim among all of them is at most the level, whatever their dependence.
// With m values, the i-th smallest is multiplied by m - i + 1, is at least its predecessor and at most 1. NaN stays NaN and
// is not counted.
std::vector<double> holm_adjusted(std::span<const double> p_values);

// Returns true if the p-value is at most 1 - confidence, up to rounding; false for NaN.
bool is_significant(double p_value, double confidence);

// Returns the fewest resamples with which one of `comparisons` can be significant after Holm's correction. The smallest p-value
// of paired_differences (sample.h) is 2 / (1 + resamples).
int64_t fewest_resamples(int64_t comparisons, double confidence);

// Returns a sentence, without its full stop, that says that the resamples are fewer; empty if they suffice or are 0.
std::string too_few_resamples(int64_t comparisons, int64_t resamples, double confidence);

}  // namespace saccade::lab
