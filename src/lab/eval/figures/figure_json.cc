#include "lab/eval/figures/figure_json.h"

#include <cmath>

namespace saccade::lab {

Json number_or_null(double value) {
  return std::isfinite(value) ? Json(value) : Json();
}

Json figure_json(const Figure& figure) {
  return {{"value", number_or_null(figure.value)},
          {"low", number_or_null(figure.low)},
          {"high", number_or_null(figure.high)}};
}

}  // namespace saccade::lab
