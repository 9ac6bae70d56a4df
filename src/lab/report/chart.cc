#include "lab/report/chart.h"

#include <utility>

#include <fmt/format.h>

namespace saccade::lab {
namespace {

Json spec_frame(int height) {
  return {{"width", "container"},
          {"height", height},
          {"autosize", {{"type", "fit"}, {"contains", "padding"}}},
          {"data", {{"name", "table"}}}};
}

Json quantitative(std::string_view field, std::string_view title, bool percent) {
  Json axis = Json::object();
  if (percent) axis["format"] = ".2~f";
  return {{"field", field}, {"type", "quantitative"}, {"title", title}, {"axis", axis}};
}

Json series_keys(const std::vector<Series>& series) {
  Json keys = Json::array();
  for (const Series& each : series) keys.push_back(series_key(each));
  return keys;
}

// Returns the scale that gives each series its colour.
Json series_scale(const std::vector<Series>& series) {
  Json range = Json::array();
  // The page's script replaces "series:N" by the page's colour N for light or dark mode.
  for (const Series& each : series) range.push_back(fmt::format("series:{}", each.colour));
  return {{"domain", series_keys(series)}, {"range", std::move(range)}};
}

Json colour(const std::vector<Series>& series) {
  return {{"field", "series"}, {"type", "nominal"}, {"scale", series_scale(series)}, {"legend", nullptr}};
}

Json tip(std::string_view field, std::string_view title, std::string_view format = {}) {
  Json json = {{"field", field}, {"title", title}};
  json["type"] = format.empty() ? "nominal" : "quantitative";
  if (!format.empty()) json["format"] = format;
  return json;
}

}  // namespace

std::string series_key(const Series& series) {
  return fmt::format("s{}", series.colour);
}

Json interval_spec(const std::vector<std::string>& groups, const std::vector<Series>& series,
                   std::string_view title) {
  const size_t rows = groups.size() * (series.size() + 1);
  Json spec = spec_frame(static_cast<int>(rows) * 13 + 44);
  const Json x = quantitative("value", title, true);
  Json low = quantitative("value_low", title, true);
  spec["encoding"] = {{"y", {{"field", "group"}, {"type", "ordinal"}, {"sort", groups}, {"title", nullptr}}},
                      {"yOffset", {{"field", "series"}, {"type", "nominal"}, {"sort", series_keys(series)}}},
                      {"color", colour(series)},
                      {"tooltip",
                       {tip("name", "model"), tip("group", "figure"), tip("value", "value", ".3f"),
                        tip("value_low", "from", ".3f"), tip("value_high", "to", ".3f")}}};
  spec["layer"] = Json::array({{{"mark", {{"type", "rule"}, {"strokeWidth", 2}, {"opacity", 0.55}}},
                                {"encoding", {{"x", std::move(low)}, {"x2", {{"field", "value_high"}}}}}},
                               {{"mark", {{"type", "point"}, {"filled", true}, {"size", 55}, {"opacity", 1}}},
                                {"encoding", {{"x", x}}}}});
  return spec;
}

Json bars_spec(const std::vector<std::string>& bins, const std::vector<Series>& series,
               std::string_view x_title, std::string_view y_title) {
  Json spec = spec_frame(190);
  spec["mark"] = {{"type", "bar"}, {"cornerRadiusEnd", 2}};
  spec["encoding"] = {
      {"x",
       {{"field", "bin"},
        {"type", "ordinal"},
        {"sort", bins},
        {"title", x_title},
        {"axis", {{"labelAngle", 0}, {"labelOverlap", true}}}}},
      {"xOffset", {{"field", "series"}, {"type", "nominal"}, {"sort", series_keys(series)}}},
      {"y", quantitative("share", y_title, true)},
      {"color", colour(series)},
      {"tooltip", {tip("name", "model"), tip("bin", std::string(x_title)), tip("share", "share", ".3f")}}};
  return spec;
}

Json lines_spec(const std::vector<Series>& series, const LineAxes& axes) {
  Json spec = spec_frame(230);
  Json x = quantitative(axes.x, axes.x_title, false);
  x["scale"] = axes.x_log ? Json{{"type", "log"}, {"base", 2}, {"nice", false}}
                          : Json{{"nice", false}, {"zero", false}};
  const Json y = quantitative("value", axes.y_title, axes.percent);
  Json band = quantitative("value_low", axes.y_title, axes.percent);
  const std::string_view format = axes.percent ? ".3f" : ".4~g";
  Json tips = {tip("name", "series"), tip(axes.x, axes.x_title, "~g"), tip("value", axes.y_title, format)};
  if (axes.bands) {
    tips.push_back(tip("value_low", "from", format));
    tips.push_back(tip("value_high", "to", format));
  }
  Json layers =
      Json::array({{{"mark", {{"type", "line"}, {"strokeWidth", 2}, {"interpolate", "monotone"}}},
                    {"encoding", {{"x", x}, {"y", y}, {"color", colour(series)}}}},
                   {{"mark", {{"type", "point"}, {"filled", true}, {"size", 26}, {"opacity", 1}}},
                    {"encoding", {{"x", x}, {"y", y}, {"color", colour(series)}, {"tooltip", tips}}}}});
  if (axes.bands) {
    layers.insert(layers.begin(),
                  Json{{"mark", {{"type", "area"}, {"opacity", 0.16}, {"interpolate", "monotone"}}},
                       {"encoding",
                        {{"x", x},
                         {"y", std::move(band)},
                         {"y2", {{"field", "value_high"}}},
                         {"color", colour(series)}}}});
  }
  if (!axes.marks.empty()) {
    Json values = Json::array();
    for (const auto& [which, at] : axes.marks) {
      values.push_back({{"series", series_key(which)}, {"at", at}});
    }
    Json mark_x = x;
    mark_x["field"] = "at";
    layers.push_back({{"data", {{"values", std::move(values)}}},
                      {"mark", {{"type", "rule"}, {"strokeDash", {5, 4}}, {"strokeWidth", 1.5}}},
                      {"encoding", {{"x", std::move(mark_x)}, {"color", colour(series)}}}});
  }
  spec["layer"] = std::move(layers);
  return spec;
}

Json map_spec(const std::vector<Series>& series, double low, double high) {
  Json spec = spec_frame(0);
  spec["height"] = "container";
  const auto axis = [&](std::string_view field) {
    return Json{{"field", field},
                {"type", "quantitative"},
                {"axis", nullptr},
                {"scale", {{"domain", {low, high}}, {"nice", false}, {"zero", false}}}};
  };
  spec["mark"] = {{"type", "point"}, {"filled", true}, {"size", 22}, {"opacity", 0.65}};
  spec["encoding"] = {{"x", axis("x")},
                      {"y", axis("y")},
                      {"color", colour(series)},
                      {"tooltip", {tip("kind", "kind"), tip("label", "what")}}};
  return spec;
}

Json pareto_spec(const std::vector<Series>& series, std::string_view x_title, std::string_view y_title) {
  Json spec = spec_frame(300);
  Json x = quantitative("x", x_title, false);
  x["scale"] = {{"type", "log"}, {"nice", true}};
  x["axis"] = {{"format", "~s"}};
  const Json y = quantitative("y", y_title, true);
  const auto bound = [](Json encoding, std::string_view field) {
    encoding["field"] = field;
    return encoding;
  };
  const Json filter = {{"filter", "isValid(datum.frontier)"}};
  const Json tips = {tip("name", "model"), tip("x", x_title, ".3~s"), tip("y", y_title, ".3f")};
  spec["layer"] = Json::array(
      {{{"transform", {filter}},
        {"mark",
         {{"type", "line"}, {"interpolate", "step-before"}, {"strokeDash", {5, 4}}, {"opacity", 0.6}}},
        {"encoding", {{"x", x}, {"y", y}}}},
       {{"mark", {{"type", "rule"}, {"opacity", 0.5}}},
        {"encoding",
         {{"x", bound(x, "x_low")}, {"x2", {{"field", "x_high"}}}, {"y", y}, {"color", colour(series)}}}},
       {{"mark", {{"type", "rule"}, {"opacity", 0.5}}},
        {"encoding",
         {{"x", x}, {"y", bound(y, "y_low")}, {"y2", {{"field", "y_high"}}}, {"color", colour(series)}}}},
       {{"mark", {{"type", "point"}, {"filled", true}, {"size", 90}, {"opacity", 1}}},
        {"encoding", {{"x", x}, {"y", y}, {"color", colour(series)}, {"tooltip", tips}}}},
       // Names of all points would lie on each other; the legend has them.
       {{"transform", {filter}},
        {"mark", {{"type", "text"}, {"dy", -12}, {"limit", 140}}},
        {"encoding", {{"x", x}, {"y", y}, {"text", {{"field", "name"}}}}}}});
  return spec;
}

}  // namespace saccade::lab
