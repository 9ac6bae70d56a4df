// Effective token length: R@1 over the number of tokens kept, and where it stops rising.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "lab/report/run_sections.h"
#include "lab/report/verdicts.h"
#include "saccade/pages/html.h"

namespace saccade::lab {
namespace {

struct Entry {
  const LoadedRun* run = nullptr;
  const LengthResult* result = nullptr;
  Series series;
};

// Datasets of a domain, in the order of their appearance.
struct Domain {
  std::string name;
  std::vector<std::pair<std::string, std::vector<Entry>>> datasets;
};

std::vector<Domain> group_by_domain(const ReportData& data) {
  std::vector<Domain> domains;
  for (const LoadedRun& run : data.runs) {
    const auto* metrics = std::get_if<LengthMetrics>(&run.metrics);
    if (metrics == nullptr) continue;
    for (const LengthResult& result : metrics->results) {
      auto domain = std::ranges::find(domains, result.domain, &Domain::name);
      if (domain == domains.end()) domain = domains.insert(domain, Domain{result.domain, {}});
      auto place = std::ranges::find_if(domain->datasets,
                                        [&](const auto& each) { return each.first == result.dataset; });
      if (place == domain->datasets.end()) place = domain->datasets.insert(place, {result.dataset, {}});
      place->second.push_back({&run, &result, data.series_of(run, result.model)});
    }
  }
  return domains;
}

// Adds the rows of a curve. Returns the largest n.
int64_t add_curve(const LengthCurveRecord& curve, const Series& series, const std::string& name,
                  Table& data) {
  int64_t last = 0;
  for (const LengthPointRecord& point : curve.curve) {
    last = std::max(last, point.n);
    data.rows.push_back({text_cell(name), text_cell(series_key(series)), number_cell(point.n),
                         figure_cell(&point.r1, Unit::kShare)});
  }
  return last;
}

Table curve_table(std::string name) {
  Table table;
  table.name = std::move(name);
  table.columns = {text_column("series", "name"), text_column("colour", "series"),
                   number_column("tokens kept", "n"), figure_column("R@1", "value")};
  return table;
}

Chart curve_chart(const std::string& dataset, const std::vector<Entry>& entries, Direction direction) {
  Chart chart;
  chart.title = fmt::format("{}: {}", dataset, direction_words(direction));
  chart.data = curve_table(fmt::format("length-{}-{}", dataset, direction_name(direction)));
  LineAxes axes{.x = "n", .x_title = "tokens kept", .y_title = "R@1"};
  int64_t last = 0;
  for (const Entry& entry : entries) {
    const LengthCurveRecord& one = entry.result->curves.of(direction);
    last = std::max(last, add_curve(one, entry.series, entry.series.name, chart.data));
    chart.legend.push_back(entry.series);
    const std::optional<int64_t>& effective = one.effective.value;
    if (effective && one.above_chance) axes.marks.emplace_back(entry.series, *effective);
  }
  chart.words = fmt::format("R@1 of texts cut to their first n tokens, with its interval{}.",
                            axes.marks.empty() ? "" : "; dashed: the effective length");
  axes.x_log = last > 100;
  chart.spec = lines_spec(chart.legend, axes);
  return chart;
}

// Chart of the random subsets of images, as the study draws it: their mean, and the band from the smallest to
// the largest.
Chart subsets_chart(const std::string& dataset, const std::vector<Entry>& entries, Direction direction) {
  Chart chart;
  chart.title = fmt::format("{}, subsets of images: {}", dataset, direction_words(direction));
  chart.data = curve_table(fmt::format("subsets-{}-{}", dataset, direction_name(direction)));
  LineAxes axes{.x = "n", .x_title = "tokens kept", .y_title = "R@1"};
  size_t subsets = 0;
  int64_t items = 0;
  int64_t last = 0;
  for (const Entry& entry : entries) {
    bool drawn = false;
    for (const LengthPointRecord& point : entry.result->curves.of(direction).curve) {
      if (!point.subsets) continue;
      drawn = true;
      subsets = point.subsets->values.size();
      items = entry.result->subset_items;
      last = std::max(last, point.n);
      chart.data.rows.push_back(
          {text_cell(entry.series.name), text_cell(series_key(entry.series)), number_cell(point.n),
           figure_cell(point.subsets->mean, point.subsets->low, point.subsets->high, Unit::kShare)});
    }
    if (drawn) chart.legend.push_back(entry.series);
  }
  chart.words =
      fmt::format("R@1 in {} random subsets of {} images: the mean, and from the smallest to the largest.",
                  subsets, items);
  axes.x_log = last > 100;
  chart.spec = lines_spec(chart.legend, axes);
  return chart;
}

// Chart of lengths through the model's limit: texts cut there, whose R@1 stays as it is, and texts in chunks.
Chart limit_chart(const std::string& dataset, const Entry& entry, Direction direction) {
  Chart chart;
  chart.title =
      fmt::format("{}, {}, through the limit: {}", dataset, entry.series.name, direction_words(direction));
  chart.data =
      curve_table(fmt::format("limit-{}-{}-{}", dataset, entry.series.name, direction_name(direction)));
  LineAxes axes{.x = "n", .x_title = "tokens kept", .y_title = "R@1"};
  LengthCurveRecord cut = entry.result->curves.of(direction);
  if (cut.curve.empty()) return chart;
  const LengthPointRecord end = cut.curve.back();
  int64_t last = end.n;
  for (const ChunkingRecord& one : entry.result->chunking) {
    for (const LengthPointRecord& point : one.curves.of(direction).curve) last = std::max(last, point.n);
  }
  if (last > end.n) {
    cut.curve.push_back(end);
    cut.curve.back().n = last;
  }
  const auto add = [&](const LengthCurveRecord& curve, std::string name) {
    chart.legend.push_back(Series{std::move(name), chart.legend.size()});
    add_curve(curve, chart.legend.back(), chart.legend.back().name, chart.data);
  };
  add(cut, "cut at the limit");
  for (const ChunkingRecord& one : entry.result->chunking) {
    if (one.pooling != "mean" && one.pooling != "joined") continue;  // the table has the others
    LengthCurveRecord curve = one.curves.of(direction);
    curve.curve.insert(curve.curve.begin(), end);
    add(curve, fmt::format("chunks: {}", one.chunks));
  }
  chart.words = fmt::format("R@1 of the first n tokens, cut at the model's limit of {} or in chunks.", end.n);
  axes.x_log = last > 100;
  chart.spec = lines_spec(chart.legend, axes);
  return chart;
}

double number_of(const std::optional<int64_t>& length) {
  return length ? static_cast<double>(*length) : Figure::kNone;
}

// Returns "17 [12, 24]", in tokens; a dash without a length.
template <typename Effective>
Cell length_cell(const Effective* effective) {
  const Effective none = {};
  if (effective == nullptr) effective = &none;
  return figure_cell(number_of(effective->value), number_of(effective->low), number_of(effective->high),
                     Unit::kNumber);
}

Table lengths_table(const std::string& dataset, const std::vector<Entry>& entries) {
  Table table;
  table.name = "effective-length-" + dataset;
  table.caption =
      dataset + ": effective length, the fewest tokens whose R@1 reaches that share of the curve's best";
  table.columns = {text_column("model"),
                   text_column("direction"),
                   figure_column("effective length", "effective"),
                   number_column("of it the text's own", "own"),
                   number_column("share"),
                   number_column("room for", "limit"),
                   number_column("best R@1", "best"),
                   text_column("", "remark"),
                   figure_column("of subsets of images", "subsets")};
  for (const Entry& entry : entries) {
    for (const Direction direction : kBothDirections) {
      const LengthCurveRecord& one = entry.result->curves.of(direction);
      const EffectiveLengthRecord* effective = one.above_chance ? &one.effective : nullptr;
      double best = Figure::kNone;
      for (const LengthPointRecord& point : one.curve) best = std::fmax(best, point.r1.value);
      const bool end = effective != nullptr && effective->at_end;
      table.rows.push_back(
          {text_cell(entry.series.name), text_cell(direction_name(direction), direction_words(direction)),
           length_cell(effective),
           number_cell(effective == nullptr ? Figure::kNone : number_of(effective->tokens)),
           number_cell(effective == nullptr ? Figure::kNone : effective->share, Unit::kShare),
           number_cell(entry.result->limit), number_cell(best, Unit::kShare),
           effective == nullptr
               ? text_cell("chance", "no better than guessing: there is no effective length")
               : text_cell(end ? "at the end" : "", end ? "at the end: more might help" : ""),
           length_cell(effective != nullptr && effective->subsets ? &*effective->subsets : nullptr)});
    }
  }
  return table;
}

// Returns the matrix of models by datasets, each under its domain: the effective length in one direction. A model has a
// dash where it was not measured, or found no more than chance.
Table domains_table(const std::vector<Domain>& domains, Direction direction) {
  Table table;
  table.name = fmt::format("effective-length-by-domain-{}", direction_name(direction));
  table.caption = fmt::format("Effective length by domain, {}", direction_words(direction));
  table.columns = {text_column("model")};
  std::vector<std::string> models;
  for (const Domain& domain : domains) {
    for (const auto& [dataset, entries] : domain.datasets) {
      const std::string heading =
          domain.name.empty() ? dataset : fmt::format("{} ({})", domain.name, dataset);
      const std::string key = domain.name.empty() ? dataset : fmt::format("{}_{}", domain.name, dataset);
      table.columns.push_back(figure_column(heading, key));
      for (const Entry& entry : entries) {
        if (std::ranges::find(models, entry.series.name) == models.end()) models.push_back(entry.series.name);
      }
    }
  }
  for (const std::string& model : models) {
    std::vector<Cell>& row = table.rows.emplace_back();
    row.push_back(text_cell(model));
    for (const Domain& domain : domains) {
      for (const auto& [dataset, entries] : domain.datasets) {
        const auto found =
            std::ranges::find(entries, model, [](const Entry& each) { return each.series.name; });
        const LengthCurveRecord* curve =
            found == entries.end() ? nullptr : &found->result->curves.of(direction);
        row.push_back(length_cell(curve != nullptr && curve->above_chance ? &curve->effective : nullptr));
      }
    }
  }
  return table;
}

Table chunking_table(const std::string& dataset, const std::vector<Entry>& entries) {
  Table table;
  table.name = "chunking-" + dataset;
  table.caption =
      dataset + ": whole texts in chunks, pooled, against texts cut at the model's limit (R@1, paired)";
  table.columns = {text_column("model"), text_column("chunks"), text_column("pooling"),
                   text_column("direction"), figure_column("chunks \xE2\x88\x92 cut", "difference")};
  Verdicts verdicts;
  for (const Entry& entry : entries) {
    for (const ChunkingRecord& one : entry.result->chunking) {
      for (const Direction direction : kBothDirections) {
        const std::optional<ChunkDifference>& found = one.curves.of(direction).difference;
        const Difference* difference = found ? &*found : nullptr;
        table.rows.push_back({text_cell(entry.series.name), text_cell(one.chunks), text_cell(one.pooling),
                              text_cell(direction_name(direction), direction_words(direction)),
                              figure_cell(difference, Unit::kShare)});
        verdicts.add(difference, "chunks", "cut");
      }
    }
  }
  verdicts.finish(table, entries.front().run->run->info);
  return table;
}

// Chart of the plain curve and the controls, which separate a text's beginning from its content.
Chart controls_chart(const std::string& dataset, const Entry& entry, Direction direction) {
  Chart chart;
  chart.title = fmt::format("{}, {}: {}", dataset, entry.series.name, direction_words(direction));
  chart.data =
      curve_table(fmt::format("controls-{}-{}-{}", dataset, entry.series.name, direction_name(direction)));
  LineAxes axes{.x = "n", .x_title = "tokens kept", .y_title = "R@1"};
  int64_t last = 0;
  const auto add = [&](const std::optional<LengthCurvesRecord>& curves, const char* name, size_t colour) {
    if (!curves) return;
    chart.legend.push_back(Series{name, colour});
    last = std::max(last, add_curve(curves->of(direction), chart.legend.back(), name, chart.data));
  };
  add(entry.result->curves, "first tokens", 0);
  add(entry.result->sentences_permuted, "sentences in another order", 2);
  add(entry.result->last_tokens, "last tokens", 1);
  chart.words = "R@1 of texts cut to n tokens:";
  for (const Series& series : chart.legend) {
    chart.words += fmt::format("{} {}", series.name == chart.legend.front().name ? "" : ";", series.name);
  }
  chart.words += ".";
  axes.x_log = last > 100;
  chart.spec = lines_spec(chart.legend, axes);
  return chart;
}

Chart token_chart(const std::string& dataset, const Entry& entry) {
  Chart chart;
  const TokenLengths& tokens = entry.result->token_lengths;
  chart.title = fmt::format("{}: tokens of a text, {}", dataset, entry.series.name);
  chart.words = fmt::format("Median {}, 95% at most {}, the longest {}", tokens.lengths.median,
                            tokens.lengths.p95, tokens.lengths.max);
  if (tokens.limit) {
    chart.words += fmt::format("; {} are beyond the {} there is room for", tokens.beyond, *tokens.limit);
  }
  chart.words += ".";
  chart.legend = {entry.series};
  chart.data.name = fmt::format("tokens-{}-{}", dataset, entry.series.name);
  chart.data.columns = {text_column("model", "name"), text_column("colour", "series"),
                        text_column("tokens", "bin"), number_column("texts"), number_column("share")};
  const auto total = static_cast<double>(std::reduce(tokens.counts.begin(), tokens.counts.end()));
  std::vector<std::string> bins;
  for (size_t i = 0; i < tokens.counts.size() && total > 0; ++i) {
    const int64_t from = static_cast<int64_t>(i) * tokens.width;
    bins.push_back(tokens.width <= 1 ? fmt::format("{}", from)
                                     : fmt::format("{}\xE2\x80\x93{}", from, from + tokens.width - 1));
    const auto count = static_cast<double>(tokens.counts[i]);
    chart.data.rows.push_back({text_cell(entry.series.name), text_cell(series_key(entry.series)),
                               text_cell(bins.back()), number_cell(count),
                               number_cell(count / total, Unit::kShare)});
  }
  chart.spec = bars_spec(bins, chart.legend, "tokens", "share of texts");
  return chart;
}

std::string dataset_html(const std::string& dataset, const std::vector<Entry>& entries, PageBuilder& page) {
  std::string html = "<div class=\"panels\">\n";
  for (const Direction direction : kBothDirections)
    html += page.chart(curve_chart(dataset, entries, direction));
  for (const Direction direction : kBothDirections) {
    const Chart chart = subsets_chart(dataset, entries, direction);
    if (!chart.legend.empty()) html += page.chart(chart);
  }
  html += "</div>\n" + page.table(lengths_table(dataset, entries));
  const Table chunking = chunking_table(dataset, entries);
  if (!chunking.rows.empty()) html += page.table(chunking);
  std::string limits;
  std::string controls;
  std::string tokens;
  for (const Entry& entry : entries) {
    for (const Direction direction : kBothDirections) {
      if (!entry.result->chunking.empty()) limits += page.chart(limit_chart(dataset, entry, direction));
      const Chart chart = controls_chart(dataset, entry, direction);
      if (chart.legend.size() > 1) controls += page.chart(chart);
    }
    const Chart chart = token_chart(dataset, entry);
    if (!chart.data.rows.empty()) tokens += page.chart(chart);
  }
  if (!limits.empty()) {
    html += fmt::format(
        "<details><summary>{}: through the model's limit</summary><div class=\"panels\">\n{}</div></details>\n",
        escape_html(dataset), limits);
  }
  if (!controls.empty()) {
    html += fmt::format(
        "<details><summary>{}: beginning or content?</summary><div class=\"panels\">\n{}</div></details>\n",
        escape_html(dataset), controls);
  }
  if (!tokens.empty()) {
    html += fmt::format(
        "<details><summary>{}: how long the texts are</summary><div class=\"panels\">\n{}</div></details>\n",
        escape_html(dataset), tokens);
  }
  return html;
}

}  // namespace

std::string length_section(const ReportData& data, PageBuilder& page) {
  const std::vector<Domain> domains = group_by_domain(data);
  if (domains.empty()) return {};
  std::string html =
      "<section id=\"length\"><h2>Effective token length</h2>\n<p class=\"soft\">Texts are cut to their "
      "first n tokens, start and end token among them, and retrieval is measured at each n. A curve cannot "
      "rise beyond the texts' own ends: the effective length belongs to model and dataset together.</p>\n";
  const size_t datasets = std::transform_reduce(domains.begin(), domains.end(), size_t{0}, std::plus<>(),
                                                [](const Domain& each) { return each.datasets.size(); });
  if (datasets > 1) {
    for (const Direction direction : kBothDirections) html += page.table(domains_table(domains, direction));
  }
  for (const Domain& domain : domains) {
    if (!domain.name.empty()) html += fmt::format("<h3>{}</h3>\n", escape_html(domain.name));
    for (const auto& [dataset, entries] : domain.datasets) html += dataset_html(dataset, entries, page);
  }
  return html + "</section>\n";
}

}  // namespace saccade::lab
