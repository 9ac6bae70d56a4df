// Reranking: R@1 over the number of answers that a second model puts into its order.
#include <fmt/format.h>

#include "lab/report/run_sections.h"
#include "lab/report/verdicts.h"

namespace saccade::lab {
namespace {

struct RerankEntry {
  Series series;
  const RetrievalResult* result = nullptr;  // has `rerank`
};

struct RerankDepth {
  int64_t depth = 0;
  const std::vector<Figure>* figures = nullptr;
  const Difference* gain = nullptr;  // of R@1 over the first model alone
};

// Returns the points of a curve. It begins with the first model alone, which is reranking at a depth of 1, and ends where a depth
// holds the whole gallery.
std::vector<RerankDepth> rerank_curve(const RetrievalResult& result, Direction direction) {
  std::vector<RerankDepth> curve = {{1, &result.directions.of(direction).figures}};
  for (const RerankPoint& point : result.rerank->points) {
    const std::vector<Figure>& figures = point.figures.of(direction);
    if (point.depth < 2 || figures.empty()) continue;
    curve.push_back({point.depth, &figures, find_named(point.gain.of(direction), "r1")});
  }
  return curve;
}

Chart rerank_chart(const std::string& dataset, const std::vector<RerankEntry>& entries, Direction direction) {
  Chart chart;
  chart.title = fmt::format("{}, reranked: {}", dataset, direction_words(direction));
  chart.words =
      "R@1 once the first answers are in the second model's order, with its interval; 1: the first model alone.";
  chart.data.name = fmt::format("rerank-{}-{}", dataset, direction_name(direction));
  chart.data.columns = {text_column("model", "name"), text_column("colour", "series"),
                        number_column("answers reranked", "depth"), figure_column("R@1", "value")};
  for (const RerankEntry& entry : entries) {
    chart.legend.push_back(entry.series);
    for (const RerankDepth& point : rerank_curve(*entry.result, direction)) {
      chart.data.rows.push_back({text_cell(entry.series.name), text_cell(series_key(entry.series)),
                                 number_cell(point.depth),
                                 figure_cell(find_named(*point.figures, "r1"), Unit::kShare)});
    }
  }
  chart.spec = lines_spec(chart.legend,
                          {.x = "depth", .x_title = "answers reranked", .y_title = "R@1", .x_log = true});
  chart.table = false;  // the section's own table has these figures
  return chart;
}

Table rerank_table(const std::string& dataset, const std::vector<RerankEntry>& entries, const RunInfo& info) {
  Table table;
  table.name = "rerank-" + dataset;
  table.caption = fmt::format(
      "{}: figures by the number of answers reranked, and the paired difference of R@1 to the first model alone",
      dataset);
  table.columns = {text_column("model"),
                   text_column("direction"),
                   number_column("depth"),
                   figure_column("R@1", "r1"),
                   figure_column("R@5", "r5"),
                   figure_column("R@10", "r10"),
                   figure_column("R@1 gained", "gain")};
  Verdicts verdicts;
  for (const RerankEntry& entry : entries) {
    for (const Direction direction : kBothDirections) {
      for (const RerankDepth& point : rerank_curve(*entry.result, direction)) {
        std::vector<Cell> row = {text_cell(entry.series.name),
                                 text_cell(direction_name(direction), direction_words(direction)),
                                 number_cell(point.depth)};
        for (const char* name : {"r1", "r5", "r10"}) {
          row.push_back(figure_cell(find_named(*point.figures, name), Unit::kShare));
        }
        row.push_back(figure_cell(point.gain, Unit::kShare));
        table.rows.push_back(std::move(row));
        verdicts.add(point.gain, "reranking", "the first model alone");
      }
    }
  }
  verdicts.finish(table, info);
  return table;
}

}  // namespace

std::string rerank_section(const ReportData& data, PageBuilder& page) {
  const auto part = [&](const LoadedRun& run, const RetrievalMetrics& metrics, const std::string& dataset) {
    std::vector<RerankEntry> entries;
    std::string own;
    for (const RetrievalResult& result : metrics.results) {
      if (result.dataset != dataset || !result.rerank) continue;
      entries.push_back({data.series_of(run, result.model), &result});
      own += fmt::format(
          "<p class=\"soft\">{}: {} scores {} pairs of an image and a text ({}), {} s per query.</p>\n",
          escape_html(entries.back().series.name), escape_html(result.rerank->second),
          count_cell(result.rerank->pairs).html, escape_html(result.rerank->by),
          number_cell(result.rerank->seconds_per_query).html);
    }
    if (entries.empty()) return own;
    own += "<div class=\"panels\">\n";
    for (const Direction direction : kBothDirections) {
      own += page.chart(rerank_chart(dataset, entries, direction));
    }
    return own + "</div>\n" + page.table(rerank_table(dataset, entries, run.run->info));
  };
  const std::string html = dataset_parts<RetrievalMetrics>(data, part);
  if (html.empty()) return {};
  return "<section id=\"rerank\"><h2>Reranking</h2>\n<p class=\"soft\">A second model puts the first answers to each query into "
         "its order. The other answers stay behind them.</p>\n" +
         html + "</section>\n";
}

}  // namespace saccade::lab
