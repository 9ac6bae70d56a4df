// Charts as Vega-Lite specifications. A chart's data are a table of the page, named in the specification as
// its data, so that what is drawn is what can be saved. Widths are those of the box a chart stands in;
// colours are the page's: the specification says which series a mark is of, the page's script the colour.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "saccade/core/json.h"
#include "lab/report/table.h"

namespace saccade::lab {

// A series of a page has one colour in all charts: its place in the order of the page's models.
struct Series {
  std::string name;
  size_t colour = 0;
};

struct Chart {
  std::string title;
  std::string words;  // what is drawn, for readers who do not see it, and what is to be known about it
  Json spec;          // without data
  std::vector<Series> legend;  // empty: no legend
  Table data;
  bool square = false;  // as high as wide
  bool table = true;    // the data are worth a table of their own under the chart
};

// "sN": a series in data and scales. Names may be anything, and two may be alike.
std::string series_key(const Series& series);
// The scale that gives each series its colour.
Json series_scale(const std::vector<Series>& series);

// Values with intervals, a row of dots for each `group` (in the given order), in it a dot for each series.
// Data: group, series, name, value, value_low, value_high; as shares, shown in percent.
Json interval_spec(const std::vector<std::string>& groups, const std::vector<Series>& series,
                   std::string_view title);

// Shares as bars over bins in the given order, in it a bar for each series. Data: bin, series, name, share.
Json bars_spec(const std::vector<std::string>& bins, const std::vector<Series>& series,
               std::string_view x_title, std::string_view y_title);

struct LineAxes {
  std::string x;  // key of the horizontal value
  std::string x_title;
  std::string y_title;
  bool percent = true;  // y are shares
  bool bands = true;    // there are intervals
  bool x_log = false;
  // Vertical lines: a place in a series that has a meaning.
  std::vector<std::pair<Series, double>> marks = {};
};
// Lines with bands. Data: x, series, name, value, value_low, value_high.
Json lines_spec(const std::vector<Series>& series, const LineAxes& axes);

// Points in a square of `low` to `high` both ways, without axes. Data: x, y, series, label.
Json map_spec(const std::vector<Series>& series, double low, double high);

// Points with intervals both ways and their names, and the frontier through the best of them.
// Data: name, series, x, x_low, x_high, y, y_low, y_high, frontier (the y of the frontier, or null).
Json pareto_spec(const std::vector<Series>& series, std::string_view x_title, std::string_view y_title);

}  // namespace saccade::lab
