// Charts as Vega-Lite specifications. A chart's data are a table of the page, named in the specification as
// its data, so that the drawn data can be saved. Widths are those of the box around a chart. The
// specification says which series a mark belongs to, and the page's script sets the colour.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lab/report/table.h"
#include "saccade/core/json.h"

namespace saccade::lab {

// A series of a page. It has one colour in all charts, by its place in the order of the page's models.
struct Series {
  std::string name;
  size_t colour = 0;
};

struct Chart {
  std::string title;
  std::string words;           // alternative text, and notes on the data
  Json spec;                   // without data
  std::vector<Series> legend;  // empty: no legend
  Table data;
  bool square = false;  // as high as wide
  bool table = true;    // the data are worth a table of their own under the chart
};

// Returns "sN", the key of a series in data and scales. Names may be anything, and two may be equal.
std::string series_key(const Series& series);

// Returns a dot plot with intervals: one row per `group` (in the given order), in it one dot per series.
// Data: group, series, name, value, value_low, value_high; shares from 0 to 1.
Json interval_spec(const std::vector<std::string>& groups, const std::vector<Series>& series,
                   std::string_view title);

// Returns a bar chart of shares over bins in the given order, one bar per series. Data: bin, series, name,
// share.
Json bars_spec(const std::vector<std::string>& bins, const std::vector<Series>& series,
               std::string_view x_title, std::string_view y_title);

struct LineAxes {
  std::string x;  // key of the horizontal value
  std::string x_title;
  std::string y_title;
  bool percent = true;  // y are shares
  bool bands = true;    // there are intervals
  bool x_log = false;
  // Vertical lines that mark a special value of a series.
  std::vector<std::pair<Series, double>> marks = {};
};
// Returns a line chart with bands. Data: x, series, name, value, value_low, value_high.
Json lines_spec(const std::vector<Series>& series, const LineAxes& axes);

// Returns a scatter plot in a square from `low` to `high` in both directions, without axes. Data: x, y,
// series, label.
Json map_spec(const std::vector<Series>& series, double low, double high);

// Returns a scatter plot with intervals in both directions, and the Pareto frontier with its names. Data: name,
// series, x, x_low, x_high, y, y_low, y_high, frontier (the y of the frontier, or null).
Json pareto_spec(const std::vector<Series>& series, std::string_view x_title, std::string_view y_title);

}  // namespace saccade::lab
