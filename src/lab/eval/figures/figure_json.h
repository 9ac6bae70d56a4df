// JSON of figures, as used in reports and runs.
#pragma once

#include <span>

#include "lab/eval/figures/sample.h"
#include "saccade/core/json.h"

namespace saccade::lab {

// Returns the value, or null if it is not finite.
Json number_or_null(double value);
// Returns {"value", "low", "high"} with the percentile interval. Missing numbers are null.
Json figure_json(const Figure& figure);

// Returns {"r1": {"value", "low", "high", "bca_low", "bca_high"}, ...}; missing numbers are null.
Json figures_json(std::span<const Figure> figures);
// Returns {"r1": {"difference", "low", "high", "bca_low", "bca_high", "p_value", "told_apart"}, ...}.
Json differences_json(std::span<const Difference> differences);

}  // namespace saccade::lab
