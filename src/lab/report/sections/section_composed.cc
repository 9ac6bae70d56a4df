// Composed search: one table of figures per dataset, with a line for each checkpoint and method.
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "lab/eval/composed/composed_figures.h"
#include "lab/report/page_builder.h"
#include "lab/report/run_sections.h"
#include "lab/report/table.h"
#include "saccade/core/counts.h"

namespace saccade::lab {
namespace {

std::string method_of(const ComposedResult& result) {
  if (result.weight) return fmt::format("{} {:.2g}", result.method, *result.weight);
  if (result.tau) return fmt::format("{}, tau {:.2g}", result.method, *result.tau);
  return result.method;
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

std::string name_of(const ReportData& data, const LoadedRun& run, const TauPoint& of, bool several) {
  if (!several) return of.method;
  return fmt::format("{}, {}", of.method, data.series_of(run, of.model).name);
}

// Charts of the recall of composers at several thresholds, and of the share of text tokens that they match
// there.
std::string tau_charts(const ReportData& data, const LoadedRun& run, const std::string& dataset,
                       const std::vector<TauPoint>& curves, PageBuilder& page) {
  MethodSeries methods;
  Chart recall;
  recall.title = dataset + ": recall against tau";
  recall.words =
      "Share of queries with a target among the first ten, by the cosine from which a token of the image and one "
      "of the text become one.";
  recall.data.name = "composed-tau-" + dataset;
  recall.data.columns = {text_column("composer", "name"),
                         text_column("colour", "series"),
                         number_column("tau"),
                         figure_column("r10", "value"),
                         figure_column("r1"),
                         number_column("tokens matched", "matched")};
  Chart matched;
  matched.title = dataset + ": matched tokens against tau";
  matched.words = "Share of the texts' tokens that meet one of the reference's, start and end among them.";
  matched.table = false;
  matched.data.name = "composed-matched-" + dataset;
  matched.data.columns = {text_column("composer", "name"), text_column("colour", "series"),
                          number_column("tau"), number_column("tokens matched", "value")};
  const bool several = run.run->info.checkpoints.size() > 1;
  for (const TauPoint& each : curves) {
    if (each.dataset != dataset) continue;
    const std::string name = name_of(data, run, each, several);
    const std::string key = series_key(methods.of(name));
    const Cell share = number_cell(each.matched.value_or(Figure::kNone), Unit::kShare);
    recall.data.rows.push_back({text_cell(name), text_cell(key), number_cell(each.tau),
                                figure_cell(find_named(each.figures, "r10"), Unit::kShare),
                                figure_cell(find_named(each.figures, "r1"), Unit::kShare), share});
    matched.data.rows.push_back({text_cell(name), text_cell(key), number_cell(each.tau), share});
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
                             const std::vector<TokenSimilarities>& all, PageBuilder& page) {
  Chart chart;
  chart.title = dataset + ": cosines of tokens";
  chart.words = "Each token of a reference with each of its text's.";
  chart.data.name = "composed-tokens-" + dataset;
  chart.data.columns = {text_column("model", "name"), text_column("colour", "series"),
                        text_column("cosine from", "bin"), number_column("pairs"), number_column("share")};
  // Outer bins that are empty for all checkpoints are left out.
  size_t first = std::numeric_limits<size_t>::max();
  size_t last = 0;
  for (const TokenSimilarities& each : all) {
    if (each.dataset != dataset) continue;
    for (size_t i = 0; i < each.counts.size(); ++i) {
      if (each.counts[i] <= 0) continue;
      first = std::min(first, i);
      last = std::max(last, i);
    }
  }
  std::vector<std::string> bins;
  for (const TokenSimilarities& each : all) {
    if (each.dataset != dataset || each.pairs <= 0) continue;
    const Series series = data.series_of(run, each.model);
    chart.legend.push_back(series);
    chart.words += fmt::format(" {}: mean {}.", series.name, number_text(each.mean, Unit::kNumber));
    const bool fresh = bins.empty();
    for (size_t i = first; i < each.counts.size() && i <= last; ++i) {
      const std::string bin = fmt::format("{:.2f}", each.low + static_cast<double>(i) * each.width);
      if (fresh) bins.push_back(bin);
      const auto count = static_cast<double>(each.counts[i]);
      chart.data.rows.push_back({text_cell(series.name), text_cell(series_key(series)), text_cell(bin),
                                 number_cell(count),
                                 number_cell(count / static_cast<double>(each.pairs), Unit::kShare)});
    }
  }
  if (chart.data.rows.empty()) return {};
  chart.spec = bars_spec(bins, chart.legend, "cosine", "share of pairs");
  return page.chart(chart);
}

Table figures_table(const ReportData& data, const LoadedRun& run, const std::string& dataset,
                    const std::vector<ComposedResult>& results, const ComposedFigureSet& figures) {
  Table table;
  table.name = fmt::format("composed-{}-{}", dataset, figures.names.front());
  table.caption = fmt::format("{}: {}", dataset, figures.what);
  table.columns = {text_column("model"), text_column("method"), text_column("of"), number_column("queries")};
  std::vector<std::string> shown;
  for (const std::string& name : figures.names) {
    for (const ComposedResult& result : results) {
      if (result.dataset != dataset || find_named(result.group.figures, name) == nullptr) continue;
      shown.push_back(name);
      table.columns.push_back(figure_column(name));
      break;
    }
  }
  if (shown.empty()) return table;
  for (const ComposedResult& result : results) {
    if (result.dataset != dataset) continue;
    const ComposedFigures& group = result.group;
    std::vector<Cell> row = {text_cell(data.series_of(run, result.model).name), text_cell(method_of(result)),
                             text_cell(group.name.empty() ? group.of : group.name),
                             number_cell(group.queries)};
    for (const std::string& name : shown) {
      row.push_back(figure_cell(find_named(group.figures, name), Unit::kShare));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

// The full training and its ablations, with the differences to the full one.
Table ablations_table(const std::string& dataset, const std::vector<ComposedAblation>& ablations) {
  std::vector<std::string> names = composed_recalls().names;
  for (std::string& name : composed_headlines().names) names.push_back(std::move(name));
  std::vector<const ComposedAblation*> rows;
  for (const ComposedAblation& ablation : ablations) {
    if (ablation.dataset == dataset) rows.push_back(&ablation);
  }
  Table table;
  table.name = fmt::format("composed-ablations-{}", dataset);
  if (rows.empty()) return table;
  table.caption =
      fmt::format("{}: ablations, means over {}; differences are the ablation less the full training",
                  dataset, counted(std::ssize(rows.front()->seeds), "seed"));
  table.columns = {text_column("training"), text_column("changed"), text_column("of")};
  std::vector<std::string> shown;
  for (const std::string& name : names) {
    if (find_named(rows.front()->figures, name) == nullptr) continue;
    shown.push_back(name);
    table.columns.push_back(figure_column(name));
  }
  for (const std::string& name : shown) {
    table.columns.push_back(figure_column(name + " less full", name + "_difference"));
  }
  for (const ComposedAblation* ablation : rows) {
    std::vector<Cell> row = {text_cell(ablation->name), text_cell(ablation->changed),
                             text_cell(ablation->of)};
    for (const std::string& name : shown) {
      row.push_back(figure_cell(find_named(ablation->figures, name), Unit::kShare));
    }
    for (const std::string& name : shown) {
      row.push_back(figure_cell(find_named(ablation->differences, name), Unit::kShare));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace

Result<std::string> composed_section(const ReportData& data, const RunPageOptions& options, PageBuilder& page,
                                     ThreadPool& pool, const ProgressCallback& progress,
                                     const std::stop_token& stop) {
  const auto part = [&](const LoadedRun& run, const ComposedMetrics& metrics, const std::string& dataset) {
    std::string tables;
    const Table ablations = ablations_table(dataset, metrics.ablations);
    if (!ablations.rows.empty()) tables += page.table(ablations);
    for (const ComposedFigureSet& figures : composed_figure_sets()) {
      const Table table = figures_table(data, run, dataset, metrics.results, figures);
      if (!table.rows.empty()) tables += page.table(table);
    }
    tables += tau_charts(data, run, dataset, metrics.tau_curves, page);
    return tables + similarity_chart(data, run, dataset, metrics.token_similarities, page);
  };
  const std::string html = dataset_parts<ComposedMetrics>(data, part);
  if (html.empty()) return std::string();
  SACCADE_ASSIGN(const std::string examples, composed_examples(data, options, pool, progress, stop));
  return "<section id=\"composed\"><h2>Composed search</h2>\n<p class=\"soft\">An image and a change in words are one query; "
         "the image that is meant is to come first.</p>\n" +
         html + examples + "</section>\n";
}

}  // namespace saccade::lab
