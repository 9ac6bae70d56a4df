// The section that opens a study's page: the leaderboard, and accuracy beside speed.
#include <algorithm>
#include <array>
#include <functional>
#include <optional>

#include <fmt/format.h>

#include "lab/report/leaderboard_table.h"
#include "lab/report/run_sections.h"
#include "lab/report/sections/speed_chart.h"
#include "saccade/core/counts.h"
#include "saccade/pages/html.h"

namespace saccade::lab {
namespace {

constexpr std::array<std::pair<const char*, const char*>, 3> kHits{
    {{"r1", "R@1"}, {"r5", "R@5"}, {"r10", "R@10"}}};

// Returns a difference as text: with its sign.
Cell difference_cell(const std::optional<Difference>& difference) {
  if (!difference) return figure_cell(static_cast<const Difference*>(nullptr), Unit::kShare);
  Cell cell = figure_cell(&*difference, Unit::kShare);
  if (difference->figure.value >= 0.0005) cell.html = fmt::format("+{}", cell.html);
  return cell;
}

Cell length_cell(const LeaderboardRow& row, const std::string& dataset) {
  const auto found = std::ranges::find(row.lengths, dataset, &LeaderboardLength::dataset);
  const auto number = [](const std::optional<int64_t>& value) {
    return value ? static_cast<double>(*value) : Figure::kNone;
  };
  if (found == row.lengths.end()) {
    return figure_cell(Figure::kNone, Figure::kNone, Figure::kNone, Unit::kNumber);
  }
  Cell cell = figure_cell(number(found->value), number(found->low), number(found->high), Unit::kNumber);
  if (!found->above_chance) cell.html = "no better than chance";
  if (found->above_chance && found->at_end) cell.html += " <small>(texts end)</small>";
  return cell;
}

// A column, and its cell in a row.
struct BoardColumn {
  Column column;
  std::function<Cell(const LeaderboardRow&)> cell;
};

std::vector<BoardColumn> columns_of(const Leaderboard& board) {
  std::vector<BoardColumn> columns;
  const auto measured = [&](auto has) { return std::ranges::any_of(board.rows, has); };
  const auto add = [&](Column column, std::function<Cell(const LeaderboardRow&)> cell) {
    columns.push_back({std::move(column), std::move(cell)});
  };
  // The first column stays in view where the table is wider than the window.
  add(text_column("model"), [](const LeaderboardRow& row) { return text_cell(row.model); });
  add(number_column("rank"), [](const LeaderboardRow& row) {
    return row.rank ? count_cell(*row.rank) : number_cell(Figure::kNone);
  });
  for (const Direction direction : kBothDirections) {
    const bool to_image = direction == Direction::kTextToImage;
    if (!measured([&](const LeaderboardRow& row) { return !row.retrieval.of(direction).empty(); })) continue;
    for (const auto& [name, heading] : kHits) {
      add(figure_column(fmt::format("{} {}", to_image ? "T2I" : "I2T", heading),
                        fmt::format("{}_{}", direction_name(direction), name)),
          [direction, name = name](const LeaderboardRow& row) {
            return figure_cell(find_named(row.retrieval.of(direction), name), Unit::kShare);
          });
    }
  }
  if (measured([](const LeaderboardRow& row) { return row.gap.has_value(); })) {
    add(figure_column("I2T - T2I", "gap"),
        [](const LeaderboardRow& row) { return difference_cell(row.gap); });
  }
  for (const Direction direction : kBothDirections) {
    if (!measured([&](const LeaderboardRow& row) { return row.symmetric.of(direction).has_value(); }))
      continue;
    add(figure_column(
            fmt::format("{} R@1 over symmetric", direction == Direction::kTextToImage ? "T2I" : "I2T"),
            fmt::format("{}_over_symmetric", direction_name(direction))),
        [direction](const LeaderboardRow& row) { return difference_cell(row.symmetric.of(direction)); });
  }
  for (const char* name : {"text", "image", "group"}) {
    if (!measured([&](const LeaderboardRow& row) { return find_named(row.composition, name) != nullptr; }))
      continue;
    add(figure_column(fmt::format("{} score", name), fmt::format("{}_score", name)),
        [name](const LeaderboardRow& row) {
          return figure_cell(find_named(row.composition, name), Unit::kShare);
        });
  }
  if (measured([](const LeaderboardRow& row) { return row.benchmark.has_value(); })) {
    add(number_column("QPS", "qps"), [](const LeaderboardRow& row) {
      return number_cell(row.benchmark ? row.benchmark->queries_per_s : Figure::kNone);
    });
  }
  if (measured([](const LeaderboardRow& row) { return row.images_per_s.has_value(); })) {
    add(figure_column("images/s", "images_per_s"),
        [](const LeaderboardRow& row) { return spread_cell(row.images_per_s); });
    add(figure_column("texts/s", "texts_per_s"),
        [](const LeaderboardRow& row) { return spread_cell(row.texts_per_s); });
    add(figure_column("queries/s", "queries_per_s"),
        [](const LeaderboardRow& row) { return spread_cell(row.queries_per_s); });
  }
  add(number_column("parameters"), [](const LeaderboardRow& row) {
    return row.parameters > 0 ? count_cell(row.parameters) : number_cell(Figure::kNone);
  });
  add(text_column("vectors"), [](const LeaderboardRow& row) {
    return text_cell(row.scored_by.empty() ? "" : row.scored_by == "maxsim" ? "late interaction" : "dense");
  });
  std::vector<std::pair<std::string, std::string>> lengths;  // dataset, and its domain in the heading
  for (const LeaderboardRow& row : board.rows) {
    for (const LeaderboardLength& one : row.lengths) {
      const auto same = [&](const auto& there) { return there.first == one.dataset; };
      if (std::ranges::any_of(lengths, same)) continue;
      lengths.emplace_back(
          one.dataset, one.domain.empty() ? one.dataset : fmt::format("{} ({})", one.domain, one.dataset));
    }
  }
  for (const auto& [name, heading] : lengths) {
    add(figure_column(fmt::format("effective length, {}", heading), fmt::format("length_{}", name)),
        [dataset = name](const LeaderboardRow& row) { return length_cell(row, dataset); });
  }
  if (measured([](const LeaderboardRow& row) { return !row.missing.empty(); })) {
    add(text_column("not measured", "missing"),
        [](const LeaderboardRow& row) { return text_cell(fmt::format("{}", fmt::join(row.missing, ", "))); });
  }
  return columns;
}

// Returns the series that a row's model has in the report's other charts.
Series row_series(const ReportData& data, const LeaderboardRow& row) {
  for (const LoadedRun& run : data.runs) {
    const bool has = std::ranges::any_of(run.run->info.checkpoints, [&](const RunCheckpoint& one) {
      return one.name == row.model && one.fingerprint == row.fingerprint && one.precision == row.precision;
    });
    if (has) return data.series_of(run, row.model);
  }
  return {.name = row.model};
}

// Returns the chart of R@1 against the benchmark's QPS, of models with both.
Chart qps_chart(const Leaderboard& board, const ReportData& data) {
  std::vector<SpeedPoint> points;
  for (const LeaderboardRow& row : board.rows) {
    const Figure* r1 = find_named(row.retrieval.t2i, "r1");
    if (!row.benchmark || r1 == nullptr) continue;
    const double qps = row.benchmark->queries_per_s;
    points.push_back({row_series(data, row), {.value = qps, .low = qps, .high = qps}, r1});
  }
  Chart chart = speed_chart(
      points, {.column = "QPS", .x_title = "queries per second", .y_title = "R@1, text to image"});
  chart.title = "Accuracy and speed";
  chart.words =
      "R@1 of text to image against the benchmark's queries per second. The line joins models that no other "
      "surpasses in both.";
  chart.table = false;
  chart.data.name = "leaderboard-chart";
  return chart;
}

}  // namespace

Table leaderboard_table(const Leaderboard& board) {
  Table table;
  table.name = "leaderboard";
  table.caption =
      board.ranked_by.empty()
          ? "Nothing to rank by was measured"
          : fmt::format("Ranked by {}; models that cannot be told apart share a rank", board.ranked_by);
  const std::vector<BoardColumn> columns = columns_of(board);
  for (const BoardColumn& one : columns) table.columns.push_back(one.column);
  for (const LeaderboardRow& row : board.rows) {
    std::vector<Cell>& cells = table.rows.emplace_back();
    for (const BoardColumn& one : columns) cells.push_back(one.cell(row));
  }
  return table;
}

std::string leaderboard_section(const Leaderboard& board, const ReportData& data, PageBuilder& page) {
  std::string html =
      fmt::format("<section id=\"leaderboard\"><h2>Leaderboard</h2>\n<p class=\"soft\">{}.</p>\n",
                  counted(std::ssize(board.rows), "model"));
  html += page.table(leaderboard_table(board));
  for (const std::string& note : board.notes)
    html += fmt::format("<p class=\"soft\">{}</p>\n", escape_html(note));
  const Chart chart = qps_chart(board, data);
  if (chart.data.rows.size() > 1) html += page.chart(chart);
  return html + "</section>\n";
}

}  // namespace saccade::lab
