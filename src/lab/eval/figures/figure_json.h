// JSON of figures, as used in reports and runs.
#pragma once

#include "lab/eval/figures/sample.h"
#include "saccade/core/json.h"

namespace saccade::lab {

// Returns the value, or null if it is not finite.
Json number_or_null(double value);
// Returns {"value", "low", "high"} with the percentile interval. Missing numbers are null.
Json figure_json(const Figure& figure);

}  // namespace saccade::lab
