#include "lab/train/tasks/visualness_figures.h"

#include <cmath>

namespace saccade::lab {

Json visualness_figures_json(const VisualnessFigures& figures) {
  const auto number = [](double value) { return std::isfinite(value) ? Json(value) : Json(); };
  return {{"f1", figures.f1},
          {"precision", figures.precision},
          {"recall", figures.recall},
          {"accuracy", figures.accuracy},
          {"threshold", figures.threshold},
          {"texts", figures.texts},
          {"mrr", number(figures.mrr)},
          {"images", figures.pictures}};
}

Result<VisualnessFigures> parse_visualness_figures(const Json& json) {
  VisualnessFigures figures;
  SACCADE_ASSIGN(figures.f1, json_field<double>(json, "f1"));
  SACCADE_ASSIGN(figures.precision, json_field<double>(json, "precision"));
  SACCADE_ASSIGN(figures.recall, json_field<double>(json, "recall"));
  SACCADE_ASSIGN(figures.accuracy, json_field<double>(json, "accuracy"));
  SACCADE_ASSIGN(figures.threshold, json_field<double>(json, "threshold"));
  SACCADE_ASSIGN(figures.texts, json_field<int64_t>(json, "texts"));
  SACCADE_ASSIGN(figures.mrr, json_field_or<double>(json, "mrr", std::nan("")));
  const char* images = json.contains("images") ? "images" : "pictures";  // its earlier name
  SACCADE_ASSIGN(figures.pictures, json_field<int64_t>(json, images));
  return figures;
}

}  // namespace saccade::lab
