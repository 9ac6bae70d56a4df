// Generated edits: how often a generated image finds its target, by kind of modification, and whether images
// that are more similar to their targets help more.
#include <algorithm>

#include <fmt/format.h>

#include "lab/report/page_builder.h"
#include "lab/report/run_sections.h"
#include "lab/report/table.h"

namespace saccade::lab {
namespace {

Cell recall_cell(const ComposedFigures& group, const char* name) {
  return figure_cell(find_named(group.figures, name), Unit::kShare);
}

// Table of queries by the generated image, and of the baselines that need no engine.
Table methods_table(const ReportData& data, const LoadedRun& run, const std::string& dataset,
                    const EditsMetrics& metrics) {
  Table table;
  table.name = "edits-" + dataset;
  table.caption = dataset + ": share of queries with a target among the first k, asked by one image or row";
  table.columns = {text_column("model"), text_column("asked by", "method"), number_column("queries"),
                   figure_column("r1"), figure_column("r5")};
  for (const EditsResult& result : metrics.results) {
    if (result.dataset != dataset || result.group.of != "all") continue;
    table.rows.push_back({text_cell(data.series_of(run, result.model).name), text_cell(result.method),
                          number_cell(result.group.queries), recall_cell(result.group, "r1"),
                          recall_cell(result.group, "r5")});
  }
  return table;
}

// Table of the generated images by kind of modification, the most successful kinds first.
Table kinds_table(const ReportData& data, const LoadedRun& run, const std::string& dataset,
                  const EditsMetrics& metrics) {
  Table table;
  table.name = "edits-kinds-" + dataset;
  table.caption = dataset + ": generated images by kind of change; cosines are with the true target";
  table.columns = {text_column("model"),
                   text_column("kind"),
                   number_column("queries"),
                   figure_column("r1"),
                   figure_column("r5"),
                   figure_column("cosine"),
                   figure_column("the reference's", "reference_cosine")};
  std::vector<const EditsResult*> results;
  for (const EditsResult& result : metrics.results) {
    const bool shown =
        result.dataset == dataset && result.group.of == "kind" && result.method == kByGenerated;
    if (shown) results.push_back(&result);
  }
  const auto r1 = [](const EditsResult* result) {
    const Figure* found = find_named(result->group.figures, "r1");
    return found == nullptr ? Figure::kNone : found->value;
  };
  std::ranges::stable_sort(results, [&](const auto* a, const auto* b) { return r1(a) > r1(b); });
  for (const EditsResult* result : results) {
    const ComposedFigures& group = result->group;
    const auto like = std::ranges::find_if(metrics.likeness, [&](const EditsLikeness& each) {
      return each.dataset == dataset && each.of == "kind" && each.model == result->model &&
             each.name == group.name;
    });
    const EditsLikeness none;
    const EditsLikeness& alike = like == metrics.likeness.end() ? none : *like;
    table.rows.push_back({text_cell(data.series_of(run, result->model).name), text_cell(group.name),
                          number_cell(group.queries), recall_cell(group, "r1"), recall_cell(group, "r5"),
                          figure_cell(&alike.cosine, Unit::kNumber),
                          figure_cell(&alike.reference_cosine, Unit::kNumber)});
  }
  return table;
}

// Table of cosines over all queries, and of their correlation with the gain.
Table likeness_table(const ReportData& data, const LoadedRun& run, const std::string& dataset,
                     const EditsMetrics& metrics) {
  Table table;
  table.name = "edits-likeness-" + dataset;
  table.caption =
      dataset +
      ": how like the true target the generated images are, and the rank correlation of that with what asking by them "
      "gains over the sum of reference and text (1 / rank)";
  table.columns = {text_column("model"),    number_column("queries"),
                   figure_column("cosine"), figure_column("the reference's", "reference_cosine"),
                   figure_column("gain"),   figure_column("correlation")};
  for (const EditsLikeness& one : metrics.likeness) {
    if (one.dataset != dataset || one.of != "all") continue;
    const Figure* correlation = one.correlation ? &*one.correlation : nullptr;
    table.rows.push_back({text_cell(data.series_of(run, one.model).name), number_cell(one.queries),
                          figure_cell(&one.cosine, Unit::kNumber),
                          figure_cell(&one.reference_cosine, Unit::kNumber),
                          figure_cell(&one.gain, Unit::kNumber), figure_cell(correlation, Unit::kNumber)});
  }
  return table;
}

}  // namespace

std::string edits_section(const ReportData& data, PageBuilder& page) {
  const auto part = [&](const LoadedRun& run, const EditsMetrics& metrics, const std::string& dataset) {
    std::string tables;
    for (const auto& make : {methods_table, likeness_table, kinds_table}) {
      const Table table = make(data, run, dataset, metrics);
      if (!table.rows.empty()) tables += page.table(table);
    }
    if (tables.empty()) return tables;
    return fmt::format("<p class=\"soft\">Engine: {}</p>\n{}", escape_html(dump_json(metrics.engine)),
                       tables);
  };
  const std::string html = dataset_parts<EditsMetrics>(data, part);
  if (html.empty()) return html;
  return "<section id=\"edits\"><h2>Generated edits</h2>\n<p class=\"soft\">A generated image stands for the target of an "
         "edit query: its nearest neighbour in the query's gallery should be that target.</p>\n" +
         html + "</section>\n";
}

}  // namespace saccade::lab
