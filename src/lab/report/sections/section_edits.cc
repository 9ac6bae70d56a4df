// Generated edits: how often a generated image finds its target, by kind of modification, and whether images
// that are more similar to their targets help more.
#include <algorithm>

#include <fmt/format.h>

#include "lab/report/page_builder.h"
#include "lab/report/run_sections.h"
#include "lab/report/table.h"
#include "saccade/pages/html.h"

namespace saccade::lab {
namespace {

constexpr const char* kGenerated = "generated";  // method name used by `eval edits`

std::vector<const Json*> of_dataset(const Json& metrics, const char* list, const std::string& dataset,
                                    std::string_view of) {
  std::vector<const Json*> found;
  const Json& all = json_member(metrics, list);
  if (!all.is_array()) return found;
  for (const Json& each : all) {
    if (json_text(each, "dataset") == dataset && json_text(each, "of") == of) found.push_back(&each);
  }
  return found;
}

Cell recall_cell(const Json& result, const char* name) {
  return figure_cell(json_member(json_member(result, "figures"), name), Unit::kShare);
}

// Table of queries by the generated image, and of the baselines that need no engine.
Table methods_table(const ReportData& data, const LoadedRun& run, const std::string& dataset) {
  Table table;
  table.name = "edits-" + dataset;
  table.caption = dataset + ": share of queries with a target among the first k, asked by one picture or row";
  table.columns = {text_column("model", "model"), text_column("asked by", "method"),
                   number_column("queries", "queries"), figure_column("r1", "r1"), figure_column("r5", "r5")};
  for (const Json* result : of_dataset(run.run->metrics, "results", dataset, "all")) {
    table.rows.push_back({text_cell(data.series_of(run, json_text(*result, "model")).name),
                          text_cell(json_text(*result, "method")),
                          number_cell(json_number(*result, "queries")), recall_cell(*result, "r1"),
                          recall_cell(*result, "r5")});
  }
  return table;
}

// Table of the generated images by kind of modification, the most successful kinds first.
Table kinds_table(const ReportData& data, const LoadedRun& run, const std::string& dataset) {
  Table table;
  table.name = "edits-kinds-" + dataset;
  table.caption = dataset + ": generated pictures by kind of change; cosines are with the true target";
  table.columns = {text_column("model", "model"),
                   text_column("kind", "kind"),
                   number_column("queries", "queries"),
                   figure_column("r1", "r1"),
                   figure_column("r5", "r5"),
                   figure_column("cosine", "cosine"),
                   figure_column("the reference's", "reference_cosine")};
  std::vector<const Json*> results = of_dataset(run.run->metrics, "results", dataset, "kind");
  std::erase_if(results, [](const Json* result) { return json_text(*result, "method") != kGenerated; });
  const auto r1 = [](const Json* result) {
    return json_number(json_member(json_member(*result, "figures"), "r1"), "value");
  };
  std::ranges::stable_sort(results, [&](const Json* a, const Json* b) { return r1(a) > r1(b); });
  const std::vector<const Json*> likeness = of_dataset(run.run->metrics, "likeness", dataset, "kind");
  for (const Json* result : results) {
    const std::string model = json_text(*result, "model");
    const std::string kind = json_text(*result, "name");
    const auto like = std::ranges::find_if(likeness, [&](const Json* each) {
      return json_text(*each, "model") == model && json_text(*each, "name") == kind;
    });
    const Json none;
    const Json& alike = like == likeness.end() ? none : **like;
    table.rows.push_back({text_cell(data.series_of(run, model).name), text_cell(kind),
                          number_cell(json_number(*result, "queries")), recall_cell(*result, "r1"),
                          recall_cell(*result, "r5"),
                          figure_cell(json_member(alike, "cosine"), Unit::kNumber),
                          figure_cell(json_member(alike, "reference_cosine"), Unit::kNumber)});
  }
  return table;
}

// Table of cosines over all queries, and of their correlation with the gain.
Table likeness_table(const ReportData& data, const LoadedRun& run, const std::string& dataset) {
  Table table;
  table.name = "edits-likeness-" + dataset;
  table.caption =
      dataset +
      ": how like the true target the generated pictures are, and the rank correlation of that with what asking by them "
      "gains over the sum of reference and text (1 / rank)";
  table.columns = {text_column("model", "model"),     number_column("queries", "queries"),
                   figure_column("cosine", "cosine"), figure_column("the reference's", "reference_cosine"),
                   figure_column("gain", "gain"),     figure_column("correlation", "correlation")};
  for (const Json* one : of_dataset(run.run->metrics, "likeness", dataset, "all")) {
    const auto figure = [&](const char* name) { return figure_cell(json_member(*one, name), Unit::kNumber); };
    table.rows.push_back({text_cell(data.series_of(run, json_text(*one, "model")).name),
                          number_cell(json_number(*one, "queries")), figure("cosine"),
                          figure("reference_cosine"), figure("gain"), figure("correlation")});
  }
  return table;
}

}  // namespace

std::string edits_section(const ReportData& data, PageBuilder& page) {
  std::string html;
  for (const LoadedRun& run : data.runs) {
    if (run.run->info.kind != "edits") continue;
    for (const RunDataset& dataset : run.run->info.datasets) {
      std::string tables;
      for (const Table& table :
           {methods_table(data, run, dataset.name), likeness_table(data, run, dataset.name),
            kinds_table(data, run, dataset.name)}) {
        if (!table.rows.empty()) tables += page.table(table);
      }
      if (tables.empty()) continue;
      html += fmt::format("<h3>{}</h3>\n<p class=\"soft\">Engine: {}</p>\n{}", escape_html(dataset.name),
                          escape_html(dump_json(json_member(run.run->metrics, "engine"))), tables);
    }
  }
  if (html.empty()) return html;
  return "<section id=\"edits\"><h2>Generated edits</h2>\n<p class=\"soft\">A generated picture stands for the target of an "
         "edit query: its nearest neighbour in the query's gallery should be that target.</p>\n" +
         html + "</section>\n";
}

}  // namespace saccade::lab
