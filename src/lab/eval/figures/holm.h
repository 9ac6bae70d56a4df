// Correction of p-values for the number of comparisons.
#pragma once

#include <span>
#include <vector>

namespace saccade::lab {

// Returns the p-values adjusted by Holm's step-down method (Scand. J. Statist. 6, 1979): each is compared with the level
// itself then, and the probability of any false claim among all of them is at most the level, whatever their dependence.
// With m values, the i-th smallest is multiplied by m - i + 1, is at least its predecessor and at most 1. NaN stays NaN and
// is not counted.
std::vector<double> holm_adjusted(std::span<const double> p_values);

}  // namespace saccade::lab
