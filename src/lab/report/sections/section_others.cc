// Sections with one table or chart per dataset: tests of composition, trainings.
#include <array>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "lab/report/run_sections.h"
#include "lab/report/verdicts.h"

namespace saccade::lab {
namespace {

constexpr std::array<std::string_view, 3> kScores = {"text", "image", "group"};

struct CompositionEntry {
  Series series;
  const CompositionResult* result = nullptr;
};

// Returns the kind of modification; "all" for all together.
std::string kind_words(const std::optional<std::string>& kind) {
  return kind.value_or("").empty() ? "all" : *kind;
}

Chart composition_chart(const std::string& dataset, const std::vector<CompositionEntry>& results) {
  Chart chart;
  chart.title = dataset + ": text, image and group score";
  chart.words =
      "Share of items that are right, all kinds of change together, with its interval; grey: guessing.";
  chart.table = false;
  chart.data.name = "scores-" + dataset;
  chart.data.columns = {text_column("score", "group"), text_column("colour", "series"),
                        text_column("model", "name"), figure_column("value")};
  std::vector<std::string> groups;
  for (const std::string_view score : kScores) {
    bool any = false;
    for (const CompositionEntry& each : results) {
      const Figure* figure = find_named(each.result->scores, score);
      if (kind_words(each.result->kind) != "all" || figure == nullptr) continue;
      any = true;
      chart.data.rows.push_back({text_cell(score), text_cell(series_key(each.series)),
                                 text_cell(each.series.name), figure_cell(figure, Unit::kShare)});
    }
    if (any) groups.emplace_back(score);
  }
  for (const CompositionEntry& each : results) {
    if (kind_words(each.result->kind) == "all") chart.legend.push_back(each.series);
  }
  chart.spec = interval_spec(groups, chart.legend, "share of items");
  return chart;
}

Table composition_table(const std::string& dataset, const std::vector<CompositionEntry>& results) {
  Table table;
  table.name = "composition-" + dataset;
  table.caption = dataset + ": scores by kind of change; comparisons are strict, so that ties count as wrong";
  table.columns = {text_column("model"),  text_column("kind"),   number_column("items"),
                   number_column("tied"), figure_column("text"), figure_column("image"),
                   figure_column("group")};
  for (const CompositionEntry& each : results) {
    std::vector<Cell> row = {text_cell(each.series.name), text_cell(kind_words(each.result->kind)),
                             number_cell(each.result->items), number_cell(each.result->tied)};
    for (const std::string_view score : kScores) {
      row.push_back(figure_cell(find_named(each.result->scores, score), Unit::kShare));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table composition_differences(const ReportData& data, const LoadedRun& run, const std::string& dataset) {
  Table table;
  table.name = "differences-" + dataset;
  table.caption = dataset + ": paired differences";
  table.columns = {text_column("a"), text_column("b"), text_column("kind"), text_column("score"),
                   figure_column("a \xE2\x88\x92 b", "difference")};
  Verdicts verdicts;
  for (const CompositionComparison& comparison : std::get<CompositionMetrics>(run.metrics).comparisons) {
    if (comparison.dataset != dataset) continue;
    const std::string a = data.series_of(run, comparison.a).name;
    const std::string b = data.series_of(run, comparison.b).name;
    for (const std::string_view score : kScores) {
      const Difference* difference = find_named(comparison.scores, score);
      if (difference == nullptr) continue;
      table.rows.push_back({text_cell(a), text_cell(b), text_cell(kind_words(comparison.kind)),
                            text_cell(score), figure_cell(difference, Unit::kShare)});
      verdicts.add(difference, a, b);
    }
  }
  verdicts.finish(table, run.run->info);
  return table;
}

void add_training_row(Table& table, const std::string& name, size_t colour, double step, double value) {
  if (!std::isfinite(step) || !std::isfinite(value)) return;
  table.rows.push_back({text_cell(name), text_cell(series_key(Series{name, colour})), number_cell(step),
                        Cell{number_text(value, Unit::kNumber), {value}}});
}

Table training_table(std::string name) {
  Table table;
  table.name = std::move(name);
  table.columns = {text_column("series", "name"), text_column("colour", "series"), number_column("step"),
                   number_column("value")};
  return table;
}

Chart loss_chart(const ReportFolder& training, const std::string& name) {
  Chart chart;
  chart.title = name + ": loss";
  chart.words = "A running mean over about a hundred steps, at each evaluation.";
  chart.data = training_table("loss-" + name);
  for (const Json& line : training.evaluations) {
    add_training_row(chart.data, "loss", 0, json_number(line, "step"), json_number(line, "loss"));
  }
  chart.spec =
      lines_spec({Series{"loss", 0}},
                 {.x = "step", .x_title = "step", .y_title = "loss", .percent = false, .bands = false});
  return chart;
}

// Returns the names of the protocols of held-out data, as `train` wrote them.
std::string held_out_protocols(const ReportFolder& training) {
  std::set<std::string> names;
  for (const Json& line : training.evaluations) {
    const Json& sets = member(line, "held_out");
    if (!sets.is_array()) continue;
    for (const Json& set : sets) {
      const std::string name = json_text(set, "protocol");
      names.insert(name.empty() ? "not named" : name);
    }
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

Chart held_out_chart(const ReportFolder& training, const std::string& name) {
  Chart chart;
  chart.title = name + ": R@1 on what is held out";
  chart.words = fmt::format("Both directions. Protocol: {}; figures under another one do not compare.",
                            held_out_protocols(training));
  chart.data = training_table("held-out-" + name);
  for (const Json& line : training.evaluations) {
    const Json& sets = member(line, "held_out");
    if (!sets.is_array()) continue;
    for (const Json& set : sets) {
      for (const Direction direction : kBothDirections) {
        const std::string label = fmt::format("{}, {}", json_text(set, "name"), direction_words(direction));
        auto series = std::ranges::find(chart.legend, label, &Series::name);
        if (series == chart.legend.end()) {
          series = chart.legend.insert(series, Series{label, chart.legend.size()});
        }
        add_training_row(chart.data, label, series->colour, json_number(line, "step"),
                         json_number(member(set, direction_name(direction)), "r1"));
      }
    }
  }
  chart.spec = lines_spec(chart.legend, {.x = "step", .x_title = "step", .y_title = "R@1", .bands = false});
  return chart;
}

}  // namespace

std::string composition_section(const ReportData& data, PageBuilder& page) {
  const auto part = [&](const LoadedRun& run, const CompositionMetrics& metrics, const std::string& dataset) {
    std::vector<CompositionEntry> entries;
    for (const CompositionResult& result : metrics.results) {
      if (result.dataset == dataset) entries.push_back({data.series_of(run, result.model), &result});
    }
    if (entries.empty()) return std::string();
    std::string own =
        fmt::format("<div class=\"panels\">\n{}</div>\n{}", page.chart(composition_chart(dataset, entries)),
                    page.table(composition_table(dataset, entries)));
    const Table differences = composition_differences(data, run, dataset);
    if (!differences.rows.empty()) own += page.table(differences);
    return own;
  };
  const std::string html = dataset_parts<CompositionMetrics>(data, part);
  if (html.empty()) return {};
  return "<section id=\"composition\"><h2>Composition</h2>\n<p class=\"soft\">Captions of the same words "
         "that mean different things, and their images: the right pairs must score higher than the "
         "wrong ones.</p>\n" +
         html + "</section>\n";
}

std::string training_section(const ReportData& data, PageBuilder& page) {
  std::string html;
  for (const ReportFolder* training : data.trainings) {
    const std::string name =
        std::filesystem::absolute(training->folder).lexically_normal().filename().string();
    if (training->evaluations.empty()) {
      html += fmt::format("<p class=\"note\">{}: no evaluation yet.</p>\n", escape_html(name));
      continue;
    }
    html += "<div class=\"panels\">\n" + page.chart(loss_chart(*training, name));
    const Chart held_out = held_out_chart(*training, name);
    if (!held_out.data.rows.empty()) html += page.chart(held_out);
    html += "</div>\n";
  }
  if (html.empty()) return {};
  return "<section id=\"training\"><h2>Training</h2>\n" + html + "</section>\n";
}

}  // namespace saccade::lab
