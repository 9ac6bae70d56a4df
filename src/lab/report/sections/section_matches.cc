// Calibration of match probabilities: predicted against observed, and the effect of cut-offs.

#include <fmt/format.h>

#include "lab/report/run_sections.h"

namespace saccade::lab {
namespace {

struct Kind {
  const char* key;
  const char* words;
  std::optional<MatchFigures> MatchesResult::*figures;
};
constexpr std::array<Kind, 2> kKinds = {{{"text", "searched by text", &MatchesResult::texts},
                                         {"image", "searched by image", &MatchesResult::pictures}}};

struct Entry {
  Series series;
  const MatchFigures* figures = nullptr;
};

Chart calibration_chart(const std::string& dataset, const Kind& kind, const std::vector<Entry>& entries) {
  Chart chart;
  chart.title = fmt::format("{}, {}: promised and come true", dataset, kind.words);
  chart.words =
      "Hits by what was promised of them, and the share of them that is right, with its interval; "
      "where promises come true, both are the same.";
  chart.data.name = fmt::format("calibration-{}-{}", dataset, kind.key);
  chart.data.columns = {text_column("model", "name"), text_column("colour", "series"),
                        number_column("promised"), figure_column("came true", "value"),
                        number_column("hits")};
  for (const Entry& entry : entries) {
    if (entry.figures->bins.empty()) continue;
    chart.legend.push_back(entry.series);
    for (const MatchFigures::Bin& bin : entry.figures->bins) {
      chart.data.rows.push_back({text_cell(entry.series.name), text_cell(series_key(entry.series)),
                                 number_cell(bin.promised), figure_cell(&bin.came, Unit::kShare),
                                 number_cell(bin.hits)});
    }
  }
  chart.spec = lines_spec(chart.legend, {.x = "promised", .x_title = "promised", .y_title = "came true"});
  return chart;
}

Table summary_table(const std::string& dataset, const Kind& kind, const std::vector<Entry>& entries) {
  Table table;
  table.name = fmt::format("matches-{}-{}", dataset, kind.key);
  table.caption = fmt::format(
      "{}, {}: how well an answer that is there is told from one that is not (AUROC), by "
      "likelihood and by cosine",
      dataset, kind.words);
  table.columns = {text_column("model"),
                   number_column("asked"),
                   figure_column("first hit right", "first_right"),
                   figure_column("there or not", "found_auroc"),
                   figure_column("by cosine", "cosine_auroc"),
                   figure_column("right or wrong hit", "hit_auroc"),
                   figure_column("by cosine", "hit_cosine_auroc"),
                   text_column("nothing can be told", "reason")};
  for (const Entry& entry : entries) {
    const MatchFigures& figures = *entry.figures;
    const auto auroc = [](const Figure& figure) { return figure_cell(&figure, Unit::kNumber); };
    table.rows.push_back({text_cell(entry.series.name), number_cell(figures.asked),
                          figure_cell(&figures.first_right, Unit::kShare), auroc(figures.found_auroc),
                          auroc(figures.cosine_auroc), auroc(figures.hit_auroc),
                          auroc(figures.hit_cosine_auroc), text_cell(figures.reason)});
  }
  return table;
}

Table cuts_table(const std::string& dataset, const Kind& kind, const std::vector<Entry>& entries) {
  Table table;
  table.name = fmt::format("cuts-{}-{}", dataset, kind.key);
  table.caption = fmt::format(
      "{}, {}: what a cut shows; found: queries with an answer that show any hit, false found: "
      "queries without one that do",
      dataset, kind.words);
  table.columns = {text_column("model"),
                   number_column("cut"),
                   number_column("hits"),
                   number_column("promised"),
                   figure_column("precision"),
                   figure_column("found"),
                   figure_column("false found", "false_found")};
  for (const Entry& entry : entries) {
    for (const MatchFigures::Cut& cut : entry.figures->cuts) {
      const auto share = [](const Figure& figure) { return figure_cell(&figure, Unit::kShare); };
      table.rows.push_back({text_cell(entry.series.name), number_cell(cut.cut), number_cell(cut.hits),
                            number_cell(cut.promised, Unit::kShare), share(cut.precision), share(cut.found),
                            share(cut.false_found)});
    }
  }
  return table;
}

}  // namespace

std::string matches_section(const ReportData& data, PageBuilder& page) {
  const auto part = [&](const LoadedRun& run, const MatchesMetrics& metrics, const std::string& dataset) {
    std::string own;
    for (const Kind& kind : kKinds) {
      std::vector<Entry> entries;
      for (const MatchesResult& result : metrics.results) {
        const std::optional<MatchFigures>& figures = result.*kind.figures;
        if (result.dataset != dataset || !figures) continue;
        entries.push_back({data.series_of(run, result.model), &*figures});
      }
      if (entries.empty()) continue;
      own += page.table(summary_table(dataset, kind, entries));
      const Chart chart = calibration_chart(dataset, kind, entries);
      if (chart.data.rows.empty()) continue;
      own += "<div class=\"panels\">\n" + page.chart(chart) + "</div>\n" +
             page.table(cuts_table(dataset, kind, entries));
    }
    return own;
  };
  const std::string html = dataset_parts<MatchesMetrics>(data, part);
  if (html.empty()) return {};
  return "<section id=\"matches\"><h2>Nothing matches</h2>\n<p class=\"soft\">What search promises of its hits, learned "
         "on one half of the classes and asked of the other, with the answer there and with its class taken away.</p>\n" +
         html + "</section>\n";
}

}  // namespace saccade::lab
