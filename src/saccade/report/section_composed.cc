// Composed search: a table of figures a dataset, a line for each checkpoint and way of composing.
#include <array>

#include <fmt/format.h>

#include "saccade/report/html.h"
#include "saccade/report/page_builder.h"
#include "saccade/report/run_sections.h"
#include "saccade/report/table.h"

namespace saccade {
namespace {

// What each table shows, as `eval composed` groups its figures.
struct Figures {
  std::string_view what;
  std::vector<std::string> names;
};

std::vector<Figures> all_figures() {
  return {
      {"share of queries with a target among the first k", {"r1", "r5", "r10", "r50"}},
      {"mean average precision", {"map5", "map10", "map25", "map50"}},
      {"subsets and headlines", {"r_subset1", "r_subset2", "r_subset3", "mean_r5_r_subset1", "mean_r10_r50"}},
      {"references, explicit negatives and paraphrases",
       {"reference1", "negative1", "negative_above", "best_r10", "worst_r10", "swing_r10"}}};
}

std::string method_of(const Json& result) {
  const Json& weight = json_member(result, "weight");
  const std::string method = json_text(result, "method");
  return weight.is_number() ? fmt::format("{} {:.2g}", method, weight.get<double>()) : method;
}

Table figures_table(const ReportData& data, const LoadedRun& run, const std::string& dataset,
                    const Figures& figures) {
  Table table;
  table.name = fmt::format("composed-{}-{}", dataset, figures.names.front());
  table.caption = fmt::format("{}: {}", dataset, figures.what);
  table.columns = {text_column("model", "model"), text_column("method", "method"), text_column("of", "of"),
                   number_column("queries", "queries")};
  std::vector<std::string> shown;
  const Json& results = json_member(run.run->metrics, "results");
  for (const std::string& name : figures.names) {
    for (const Json& result : results) {
      if (json_text(result, "dataset") != dataset ||
          !json_member(json_member(result, "figures"), name).is_object())
        continue;
      shown.push_back(name);
      table.columns.push_back(figure_column(name + ", %", name));
      break;
    }
  }
  if (shown.empty()) return table;
  for (const Json& result : results) {
    if (json_text(result, "dataset") != dataset) continue;
    const std::string kind = json_text(result, "name");
    std::vector<Cell> row = {text_cell(data.series_of(run, json_text(result, "model")).name),
                             text_cell(method_of(result)),
                             text_cell(kind.empty() ? json_text(result, "of") : kind),
                             number_cell(json_number(result, "queries"))};
    for (const std::string& name : shown) {
      row.push_back(figure_cell(json_member(json_member(result, "figures"), name), Unit::kPercent));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace

std::string composed_section(const ReportData& data, PageBuilder& page) {
  std::string html;
  for (const LoadedRun& run : data.runs) {
    if (run.run->info.kind != "composed" || !json_member(run.run->metrics, "results").is_array()) continue;
    for (const RunDataset& dataset : run.run->info.datasets) {
      std::string tables;
      for (const Figures& figures : all_figures()) {
        const Table table = figures_table(data, run, dataset.name, figures);
        if (!table.rows.empty()) tables += page.table(table);
      }
      if (!tables.empty()) html += fmt::format("<h3>{}</h3>\n{}", escape_html(dataset.name), tables);
    }
  }
  if (html.empty()) return {};
  return "<section id=\"composed\"><h2>Composed search</h2>\n<p class=\"soft\">A picture and a change in words are one query; "
         "the picture that is meant is to come first.</p>\n" +
         html + "</section>\n";
}

}  // namespace saccade
