#include "lab/eval/figures/figure_json.h"

#include <cmath>

namespace saccade::lab {
namespace {

Json interval(const Figure& figure, const char* value_name) {
  Json json = {{value_name, number_or_null(figure.value)},
               {"low", number_or_null(figure.low)},
               {"high", number_or_null(figure.high)},
               {"bca_low", number_or_null(figure.bca_low)},
               {"bca_high", number_or_null(figure.bca_high)}};
  if (std::isfinite(figure.wilson_high)) json["wilson_high"] = figure.wilson_high;
  return json;
}

}  // namespace

Json number_or_null(double value) {
  return std::isfinite(value) ? Json(value) : Json();
}

Json figure_json(const Figure& figure) {
  return {{"value", number_or_null(figure.value)},
          {"low", number_or_null(figure.low)},
          {"high", number_or_null(figure.high)}};
}

Json figures_json(std::span<const Figure> figures) {
  Json object = Json::object();
  for (const Figure& figure : figures) object[figure.name] = interval(figure, "value");
  return object;
}

Json differences_json(std::span<const Difference> differences) {
  Json object = Json::object();
  for (const Difference& difference : differences) {
    Json json = interval(difference.figure, "difference");
    json["p_value"] = number_or_null(difference.p_value);
    json["told_apart"] = difference.told_apart;
    object[difference.figure.name] = std::move(json);
  }
  return object;
}

}  // namespace saccade::lab
