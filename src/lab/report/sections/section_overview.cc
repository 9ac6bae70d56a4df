// The section that opens a report: one table of models by datasets, and one chart.
#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "lab/report/headlines.h"
#include "lab/report/run_sections.h"
#include "saccade/core/counts.h"

namespace saccade::lab {
namespace {

// A model's row: its place in each column, and its mean rank.
struct OverviewRow {
  Series series;
  std::vector<const Headline*> cells;  // one a column; nullptr: not measured
  double mean_rank = 0;                // NaN if nothing was measured that ranks count
  int64_t ranked = 0;                  // columns that it counts
};

std::vector<OverviewRow> rows_of(const std::vector<HeadlineColumn>& columns) {
  std::vector<OverviewRow> rows;
  for (size_t c = 0; c < columns.size(); ++c) {
    for (const Headline& one : columns[c].models) {
      auto row = std::ranges::find_if(
          rows, [&](const OverviewRow& each) { return each.series.name == one.series.name; });
      if (row == rows.end()) {
        rows.push_back({one.series, std::vector<const Headline*>(columns.size()), 0, 0});
        row = rows.end() - 1;
      }
      row->cells[c] = &one;
      if (!columns[c].quality) continue;
      row->mean_rank += one.rank;
      ++row->ranked;
    }
  }
  for (OverviewRow& row : rows) row.mean_rank /= static_cast<double>(row.ranked);
  std::ranges::stable_sort(rows, [](const OverviewRow& a, const OverviewRow& b) {
    // The first of one column is not ahead of the second of three: ranks over fewer columns do not compare.
    if (a.ranked != b.ranked) return a.ranked > b.ranked;
    return a.ranked > 0 && a.mean_rank < b.mean_rank;
  });
  return rows;
}

// Methods of one checkpoint share its colour: each gets its own then.
void own_colours(std::vector<OverviewRow>& rows) {
  std::set<size_t> colours;
  for (const OverviewRow& row : rows) colours.insert(row.series.colour);
  if (colours.size() == rows.size()) return;
  constexpr size_t kColours = 7;  // of eight, the last of which is that of guessing
  for (size_t i = 0; i < rows.size(); ++i)
    rows[i].series.colour = i / kColours * (kColours + 1) + i % kColours;
}

Cell headline_cell(const Headline* one, Unit unit) {
  Cell cell = figure_cell(one == nullptr ? nullptr : &one->figure, unit);
  if (one == nullptr) return cell;
  if (one->best) {
    const size_t end = cell.html.find(" <small>");
    const std::string value = cell.html.substr(0, end);
    cell.html = "<b>" + value + "</b>" + (end == std::string::npos ? "" : cell.html.substr(end));
  } else if (one->tied) {
    cell.html = "<span title=\"cannot be told apart from the best\">\xE2\x89\x88</span> " + cell.html;
  }
  return cell;
}

Table overview_table(const std::vector<HeadlineColumn>& columns, const std::vector<OverviewRow>& rows) {
  Table table;
  table.name = "result";
  const auto ranked = std::ranges::count_if(columns, &HeadlineColumn::quality);
  table.caption =
      "Bold: the best of a column. \xE2\x89\x88: cannot be told apart from it, by the paired test where one run measured both "
      "(after Holm's correction for the column), else because the intervals overlap";
  table.columns = {text_column("model")};
  if (ranked > 0) table.columns.push_back(number_column(ranked > 1 ? "mean rank" : "rank", "rank"));
  for (const HeadlineColumn& column : columns) {
    table.columns.push_back(figure_column(fmt::format("{}: {}", column.dataset, column.figure), column.key));
  }
  bool some_missing = false;
  for (const OverviewRow& row : rows) {
    std::vector<Cell> cells = {text_cell(row.series.name)};
    if (ranked > 0) {
      Cell rank = number_cell(row.mean_rank);
      if (std::isfinite(row.mean_rank)) rank.html = fmt::format("{:.3g}", row.mean_rank);
      if (row.ranked > 0 && row.ranked < ranked) {
        rank.html += fmt::format(" <small>of {}</small>", row.ranked);
        some_missing = true;
      }
      cells.push_back(std::move(rank));
    }
    for (size_t c = 0; c < columns.size(); ++c) cells.push_back(headline_cell(row.cells[c], columns[c].unit));
    table.rows.push_back(std::move(cells));
  }
  if (ranked > 1) {
    table.caption += fmt::format(". The rank is the mean over {} columns{}", ranked,
                                 some_missing ? "; models that lack some of them come last" : "");
  }
  return table;
}

// The chart of all shares; empty if there are none.
Chart overview_chart(const std::vector<HeadlineColumn>& columns, const std::vector<OverviewRow>& rows) {
  Chart chart;
  chart.title = "The same as a chart";
  chart.words = "Each dataset's headline figure with its interval.";
  chart.table = false;
  chart.data.name = "result-chart";
  chart.data.columns = {text_column("figure", "group"), text_column("colour", "series"),
                        text_column("model", "name"), figure_column("value")};
  std::vector<std::string> groups;
  for (size_t c = 0; c < columns.size(); ++c) {
    if (columns[c].unit != Unit::kShare) continue;
    groups.push_back(fmt::format("{}: {}", columns[c].dataset, columns[c].figure));
    for (const OverviewRow& row : rows) {
      if (row.cells[c] == nullptr) continue;
      const Headline& one = *row.cells[c];
      chart.data.rows.push_back({text_cell(groups.back()), text_cell(series_key(row.series)),
                                 text_cell(row.series.name), figure_cell(&one.figure, Unit::kShare)});
    }
  }
  for (const OverviewRow& row : rows) {
    if (std::ranges::none_of(chart.legend,
                             [&](const Series& there) { return there.colour == row.series.colour; })) {
      chart.legend.push_back(row.series);
    }
  }
  if (!groups.empty()) {
    chart.spec = interval_spec(groups, chart.legend, "value");
    chart.spec["encoding"]["y"]["axis"] = {{"labelLimit", 220}};  // pixels: dataset and figure
  }
  return chart;
}

}  // namespace

std::string overview_section(const ReportData& data, PageBuilder& page) {
  const std::vector<HeadlineColumn> columns = headlines(data);
  if (columns.empty()) return {};
  std::vector<OverviewRow> rows = rows_of(columns);
  own_colours(rows);
  std::string html = fmt::format("<section id=\"result\"><h2>Result</h2>\n<p class=\"soft\">{} on {}.</p>\n",
                                 counted(std::ssize(rows), "model"), counted(std::ssize(columns), "figure"));
  html += page.table(overview_table(columns, rows));
  const Chart chart = overview_chart(columns, rows);
  if (!chart.data.rows.empty()) html += page.chart(chart);
  return html + "</section>\n";
}

}  // namespace saccade::lab
