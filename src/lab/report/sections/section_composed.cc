// Composed search: one table of figures per dataset, with a line for each checkpoint and method.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "lab/report/page_builder.h"
#include "lab/report/run_sections.h"
#include "lab/report/table.h"
#include "saccade/pages/html.h"

namespace saccade::lab {
namespace {

// Columns of each table, grouped as in `eval composed`.
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
  const std::string method = json_text(result, "method");
  const Json& weight = json_member(result, "weight");
  if (weight.is_number()) return fmt::format("{} {:.2g}", method, weight.get<double>());
  const Json& tau = json_member(result, "tau");
  if (tau.is_number()) return fmt::format("{}, tau {:.2g}", method, tau.get<double>());
  return method;
}

// A method as a series: in the order of the run, checkpoint by checkpoint.
struct MethodSeries {
  std::vector<Series> all;
  const Series& of(const std::string& name) {
    for (const Series& series : all) {
      if (series.name == name) return series;
    }
    all.push_back({name, all.size()});
    return all.back();
  }
};

std::string name_of(const ReportData& data, const LoadedRun& run, const Json& of, bool several) {
  const std::string method = json_text(of, "method");
  if (!several) return method;
  return fmt::format("{}, {}", method, data.series_of(run, json_text(of, "model")).name);
}

// Charts of the recall of composers at several thresholds, and of the share of text tokens that they match
// there.
std::string tau_charts(const ReportData& data, const LoadedRun& run, const std::string& dataset,
                       PageBuilder& page) {
  const Json& curves = json_member(run.run->metrics, "tau_curves");
  if (!curves.is_array()) return {};
  MethodSeries methods;
  Chart recall;
  recall.title = dataset + ": recall against tau";
  recall.words =
      "Share of queries with a target among the first ten, by the cosine from which a token of the picture and one "
      "of the text become one.";
  recall.data.name = "composed-tau-" + dataset;
  recall.data.columns = {text_column("composer", "name"), text_column("colour", "series"),
                         number_column("tau", "tau"),     figure_column("r10", "value"),
                         figure_column("r1", "r1"),       number_column("tokens matched", "matched")};
  Chart matched;
  matched.title = dataset + ": matched tokens against tau";
  matched.words = "Share of the texts' tokens that meet one of the reference's, start and end among them.";
  matched.table = false;
  matched.data.name = "composed-matched-" + dataset;
  matched.data.columns = {text_column("composer", "name"), text_column("colour", "series"),
                          number_column("tau", "tau"), number_column("tokens matched", "value")};
  const bool several = run.run->info.checkpoints.size() > 1;
  for (const Json& each : curves) {
    if (json_text(each, "dataset") != dataset) continue;
    const std::string name = name_of(data, run, each, several);
    const std::string key = series_key(methods.of(name));
    const Json& figures = json_member(each, "figures");
    const double tau = json_number(each, "tau");
    recall.data.rows.push_back({text_cell(name), text_cell(key), number_cell(tau),
                                figure_cell(json_member(figures, "r10"), Unit::kShare),
                                figure_cell(json_member(figures, "r1"), Unit::kShare),
                                number_cell(json_number(each, "matched"), Unit::kShare)});
    matched.data.rows.push_back({text_cell(name), text_cell(key), number_cell(tau),
                                 number_cell(json_number(each, "matched"), Unit::kShare)});
  }
  if (recall.data.rows.empty()) return {};
  recall.legend = matched.legend = methods.all;
  recall.spec = lines_spec(methods.all, {.x = "tau", .x_title = "tau", .y_title = "r@10"});
  matched.spec =
      lines_spec(methods.all, {.x = "tau", .x_title = "tau", .y_title = "tokens matched", .bands = false});
  return "<div class=\"panels\">\n" + page.chart(recall) + page.chart(matched) + "</div>\n";
}

// Chart of the similarity of reference and text tokens, one checkpoint beside the other: before and after
// they were trained for it.
std::string similarity_chart(const ReportData& data, const LoadedRun& run, const std::string& dataset,
                             PageBuilder& page) {
  const Json& all = json_member(run.run->metrics, "token_similarities");
  if (!all.is_array()) return {};
  Chart chart;
  chart.title = dataset + ": cosines of tokens";
  chart.words = "Each token of a reference with each of its text's.";
  chart.data.name = "composed-tokens-" + dataset;
  chart.data.columns = {text_column("model", "name"), text_column("colour", "series"),
                        text_column("cosine from", "bin"), number_column("pairs", "pairs"),
                        number_column("share", "share")};
  // Outer bins that are empty for all checkpoints are left out.
  double first = INFINITY;
  double last = -INFINITY;
  for (const Json& each : all) {
    if (json_text(each, "dataset") != dataset) continue;
    const Json& counts = json_member(each, "counts");
    for (size_t i = 0; counts.is_array() && i < counts.size(); ++i) {
      if (!counts[i].is_number() || counts[i].get<double>() <= 0) continue;
      first = std::min(first, static_cast<double>(i));
      last = std::max(last, static_cast<double>(i));
    }
  }
  std::vector<std::string> bins;
  for (const Json& each : all) {
    if (json_text(each, "dataset") != dataset) continue;
    const Json& counts = json_member(each, "counts");
    const double low = json_number(each, "low");
    const double width = json_number(each, "width");
    const double pairs = json_number(each, "pairs");
    if (!counts.is_array() || !(width > 0) || !(pairs > 0)) continue;
    const Series series = data.series_of(run, json_text(each, "model"));
    chart.legend.push_back(series);
    chart.words +=
        fmt::format(" {}: mean {}.", series.name, number_text(json_number(each, "mean"), Unit::kNumber));
    const bool fresh = bins.empty();
    for (size_t i = 0; i < counts.size(); ++i) {
      if (static_cast<double>(i) < first || static_cast<double>(i) > last) continue;
      const std::string bin = fmt::format("{:.2f}", low + static_cast<double>(i) * width);
      if (fresh) bins.push_back(bin);
      const double count = counts[i].is_number() ? counts[i].get<double>() : 0;
      chart.data.rows.push_back({text_cell(series.name), text_cell(series_key(series)), text_cell(bin),
                                 number_cell(count), number_cell(count / pairs, Unit::kShare)});
    }
  }
  if (chart.data.rows.empty()) return {};
  chart.spec = bars_spec(bins, chart.legend, "cosine", "share of pairs");
  return page.chart(chart);
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
      table.columns.push_back(figure_column(name, name));
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
      row.push_back(figure_cell(json_member(json_member(result, "figures"), name), Unit::kShare));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace

Result<std::string> composed_section(const ReportData& data, const RunPageOptions& options, PageBuilder& page,
                                     ThreadPool& pool, const ProgressCallback& progress,
                                     const std::stop_token& stop) {
  std::string html;
  for (const LoadedRun& run : data.runs) {
    if (run.run->info.kind != "composed" || !json_member(run.run->metrics, "results").is_array()) continue;
    for (const RunDataset& dataset : run.run->info.datasets) {
      std::string tables;
      for (const Figures& figures : all_figures()) {
        const Table table = figures_table(data, run, dataset.name, figures);
        if (!table.rows.empty()) tables += page.table(table);
      }
      tables += tau_charts(data, run, dataset.name, page);
      tables += similarity_chart(data, run, dataset.name, page);
      if (!tables.empty()) html += fmt::format("<h3>{}</h3>\n{}", escape_html(dataset.name), tables);
    }
  }
  if (html.empty()) return std::string();
  SACCADE_ASSIGN(const std::string examples, composed_examples(data, options, pool, progress, stop));
  return "<section id=\"composed\"><h2>Composed search</h2>\n<p class=\"soft\">A picture and a change in words are one query; "
         "the picture that is meant is to come first.</p>\n" +
         html + examples + "</section>\n";
}

}  // namespace saccade::lab
