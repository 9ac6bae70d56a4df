// Figures as reports and runs hold them.
#pragma once

#include "saccade/core/json.h"
#include "lab/eval/figures/sample.h"

namespace saccade::lab {

// null where the value is not finite.
Json number_or_null(double value);
// {"value", "low", "high"}: the percentile interval; null for what there is not.
Json figure_json(const Figure& figure);

}  // namespace saccade::lab
