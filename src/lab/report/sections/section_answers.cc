// Whole answers to texts: their order, and whether their match probabilities come true.

#include <fmt/format.h>

#include "lab/report/run_sections.h"

namespace saccade::lab {
namespace {

struct AnswersEntry {
  Series series;
  const AnswersFigures* figures = nullptr;
};

Table orders_table(const std::string& dataset, const std::vector<AnswersEntry>& entries) {
  Table table;
  table.name = fmt::format("answers-{}", dataset);
  table.caption = fmt::format(
      "{}: the first ten hits, ordered by embeddings alone, by keywords alone, by two other ways of fusion, and by "
      "default",
      dataset);
  table.columns = {text_column("model"),
                   text_column("queries"),
                   text_column("order"),
                   figure_column("nDCG@10", "ndcg"),
                   figure_column("first hit right", "first_right"),
                   figure_column("nDCG@10 of the default less this", "default_leads")};
  for (const AnswersEntry& entry : entries) {
    for (const AnswersFigures::Order& order : entry.figures->orders) {
      table.rows.push_back(
          {text_cell(entry.series.name), text_cell(std::string(enum_name(order.group))),
           text_cell(std::string(enum_name(order.ordering))), figure_cell(&order.ndcg, Unit::kShare),
           figure_cell(&order.first, Unit::kShare),
           order.ordering == Ordering::kDefault ? text_cell("") : figure_cell(&order.lead, Unit::kShare)});
    }
  }
  return table;
}

Chart reliability_chart(const std::string& dataset, const std::vector<AnswersEntry>& entries) {
  Chart chart;
  chart.title = fmt::format("{}: match probability and share of right hits", dataset);
  chart.words =
      "Hits by their match probability, and the share of them that is right. Where probabilities are calibrated, both are the "
      "same.";
  chart.data.name = fmt::format("answers-calibration-{}", dataset);
  chart.data.columns = {text_column("model", "name"), text_column("colour", "series"),
                        number_column("match probability", "promised"), figure_column("right", "value"),
                        number_column("hits")};
  for (const AnswersEntry& entry : entries) {
    if (entry.figures->bins.empty()) continue;
    chart.legend.push_back(entry.series);
    for (const AnswersFigures::Bin& bin : entry.figures->bins) {
      const Figure right{.value = bin.came};
      chart.data.rows.push_back({text_cell(entry.series.name), text_cell(series_key(entry.series)),
                                 number_cell(bin.promised), figure_cell(&right, Unit::kShare),
                                 number_cell(bin.hits)});
    }
  }
  chart.spec =
      lines_spec(chart.legend, {.x = "promised", .x_title = "match probability", .y_title = "right"});
  return chart;
}

Table answers_calibration_table(const std::string& dataset, const std::vector<AnswersEntry>& entries) {
  Table table;
  table.name = fmt::format("answers-probabilities-{}", dataset);
  table.caption = fmt::format(
      "{}: match probabilities; absent: queries for things that are not there, at 10% of false alarms",
      dataset);
  table.columns = {text_column("model"),
                   number_column("expected calibration error", "ece"),
                   figure_column("right first hits at 0.5 or above", "first_right_above_half"),
                   figure_column("absent, and told", "absent_named"),
                   figure_column("absent, with weak matches alone", "absent_weak"),
                   figure_column("there, with weak matches alone", "present_weak"),
                   text_column("no probabilities", "reason")};
  for (const AnswersEntry& entry : entries) {
    const AnswersFigures& figures = *entry.figures;
    const auto share = [](const Figure& figure) { return figure_cell(&figure, Unit::kShare); };
    table.rows.push_back({text_cell(entry.series.name), number_cell(figures.ece),
                          share(figures.first_right_above_half), share(figures.absent_named),
                          share(figures.absent_weak), share(figures.present_weak),
                          text_cell(figures.reason)});
  }
  return table;
}

Table answers_cuts_table(const std::string& dataset, const std::vector<AnswersEntry>& entries) {
  Table table;
  table.name = fmt::format("answers-cuts-{}", dataset);
  table.caption =
      fmt::format("{}: hits at or above a cut; recall: of the right hits among the first ten", dataset);
  table.columns = {text_column("model"), number_column("cut"), number_column("hits"),
                   figure_column("precision"), figure_column("recall")};
  for (const AnswersEntry& entry : entries) {
    for (const AnswersFigures::Cut& cut : entry.figures->cuts) {
      const Figure recall{.value = cut.recall};
      table.rows.push_back({text_cell(entry.series.name), number_cell(cut.cut), number_cell(cut.hits),
                            figure_cell(&cut.precision, Unit::kShare), figure_cell(&recall, Unit::kShare)});
    }
  }
  return table;
}

}  // namespace

std::string answers_section(const ReportData& data, PageBuilder& page) {
  const auto part = [&](const LoadedRun& run, const AnswersMetrics& metrics, const std::string& dataset) {
    std::vector<AnswersEntry> entries;
    for (const AnswersResult& result : metrics.results) {
      if (result.dataset != dataset || !result.unsupported.empty()) continue;
      entries.push_back({data.series_of(run, result.model), &result.figures});
    }
    if (entries.empty()) return std::string();
    std::string own = page.table(orders_table(dataset, entries));
    const Chart chart = reliability_chart(dataset, entries);
    if (!chart.data.rows.empty()) own += "<div class=\"panels\">\n" + page.chart(chart) + "</div>\n";
    own += page.table(answers_calibration_table(dataset, entries));
    return own + page.table(answers_cuts_table(dataset, entries));
  };
  const std::string html = dataset_parts<AnswersMetrics>(data, part);
  if (html.empty()) return {};
  return "<section id=\"answers\"><h2>Answers</h2>\n<p class=\"soft\">Each dataset as a collection with some of its captions, "
         "asked by its other captions, by words of them, and for things that are not there.</p>\n" +
         html + "</section>\n";
}

}  // namespace saccade::lab
