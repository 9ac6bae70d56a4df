// Effective token length: R@1 over the number of tokens kept, and where it stops rising.
#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "lab/report/run_sections.h"
#include "lab/report/verdicts.h"
#include "saccade/pages/html.h"

namespace saccade::lab {
namespace {

struct Entry {
  const LoadedRun* run = nullptr;
  const Json* result = nullptr;
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
    const Json& results = json_member(run.run->metrics, "results");
    if (run.run->info.kind != "length" || !results.is_array()) continue;
    for (const Json& result : results) {
      const std::string name = json_text(result, "domain");
      auto domain = std::ranges::find(domains, name, &Domain::name);
      if (domain == domains.end()) domain = domains.insert(domain, Domain{name, {}});
      const std::string dataset = json_text(result, "dataset");
      auto place =
          std::ranges::find_if(domain->datasets, [&](const auto& each) { return each.first == dataset; });
      if (place == domain->datasets.end()) place = domain->datasets.insert(place, {dataset, {}});
      place->second.push_back({&run, &result, data.series_of(run, json_text(result, "model"))});
    }
  }
  return domains;
}

// Returns true if the curve is above chance; otherwise its effective length is that of noise. Older runs do
// not contain this field.
bool above_chance(const Json& curve) {
  const Json& above = json_member(curve, "above_chance");
  return !above.is_boolean() || above.get<bool>();
}

// Adds the rows of a curve: {"curve": [{"n", "r1": {...}}, ...]}. Returns the largest n.
double add_curve(const Json& direction, const Series& series, const std::string& name, Table& data) {
  double last = 0;
  const Json& curve = json_member(direction, "curve");
  if (!curve.is_array()) return last;
  for (const Json& point : curve) {
    const double n = json_number(point, "n");
    if (!std::isfinite(n)) continue;
    last = std::max(last, n);
    data.rows.push_back({text_cell(name), text_cell(series_key(series)), number_cell(n),
                         figure_cell(json_member(point, "r1"), Unit::kShare)});
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
  double last = 0;
  for (const Entry& entry : entries) {
    const Json& one = json_member(*entry.result, direction_name(direction));
    last = std::max(last, add_curve(one, entry.series, entry.series.name, chart.data));
    chart.legend.push_back(entry.series);
    const double effective = json_number(json_member(one, "effective"), "value");
    if (std::isfinite(effective) && above_chance(one)) axes.marks.emplace_back(entry.series, effective);
  }
  chart.words = fmt::format("R@1 of texts cut to their first n tokens, with its interval{}.",
                            axes.marks.empty() ? "" : "; dashed: the effective length");
  axes.x_log = last > 100;
  chart.spec = lines_spec(chart.legend, axes);
  return chart;
}

// Returns "17 [12, 24]", in tokens.
Cell length_cell(const Json& effective) {
  return figure_cell(effective, Unit::kNumber);
}

Table lengths_table(const std::string& dataset, const std::vector<Entry>& entries) {
  Table table;
  table.name = "effective-length-" + dataset;
  table.caption =
      dataset + ": effective length, the fewest tokens whose R@1 reaches that share of the curve's best";
  table.columns = {text_column("model", "model"),
                   text_column("direction", "direction"),
                   figure_column("effective length", "effective"),
                   number_column("of it the text's own", "own"),
                   number_column("share", "share"),
                   number_column("room for", "limit"),
                   number_column("best R@1", "best"),
                   text_column("", "remark"),
                   figure_column("of subsets of images", "subsets")};
  for (const Entry& entry : entries) {
    for (const Direction direction : kBothDirections) {
      const Json& one = json_member(*entry.result, direction_name(direction));
      const bool is_noise = !above_chance(one);
      const Json none;
      const Json& effective = is_noise ? none : json_member(one, "effective");
      double best = std::numeric_limits<double>::quiet_NaN();
      const Json& curve = json_member(one, "curve");
      if (curve.is_array()) {
        for (const Json& point : curve)
          best = std::fmax(best, json_number(json_member(point, "r1"), "value"));
      }
      const Json& at_end = json_member(effective, "at_end");
      const bool end = at_end.is_boolean() && at_end.get<bool>();
      table.rows.push_back(
          {text_cell(entry.series.name), text_cell(direction_name(direction), direction_words(direction)),
           length_cell(effective), number_cell(json_number(effective, "tokens")),
           number_cell(json_number(effective, "share"), Unit::kShare),
           number_cell(json_number(*entry.result, "limit")), number_cell(best, Unit::kShare),
           is_noise ? text_cell("chance", "no better than guessing: there is no effective length")
                    : text_cell(end ? "at the end" : "", end ? "at the end: more might help" : ""),
           length_cell(json_member(effective, "subsets"))});
    }
  }
  return table;
}

Table chunking_table(const std::string& dataset, const std::vector<Entry>& entries) {
  Table table;
  table.name = "chunking-" + dataset;
  table.caption =
      dataset + ": whole texts in chunks, pooled, against texts cut at the model's limit (R@1, paired)";
  table.columns = {text_column("model", "model"), text_column("chunks", "chunks"),
                   text_column("pooling", "pooling"), text_column("direction", "direction"),
                   figure_column("chunks \xE2\x88\x92 cut", "difference")};
  Verdicts verdicts;
  for (const Entry& entry : entries) {
    const Json& chunking = json_member(*entry.result, "chunking");
    if (!chunking.is_array()) continue;
    for (const Json& one : chunking) {
      for (const Direction direction : kBothDirections) {
        const Json& difference = json_member(json_member(one, direction_name(direction)), "difference");
        table.rows.push_back({text_cell(entry.series.name), text_cell(json_text(one, "chunks")),
                              text_cell(json_text(one, "pooling")),
                              text_cell(direction_name(direction), direction_words(direction)),
                              figure_cell(difference.is_object() ? difference : Json(), Unit::kShare)});
        verdicts.add(difference, "chunks", "cut");
      }
    }
  }
  verdicts.finish(table, entries.front().run->run->info.confidence);
  return table;
}

// Chart of the plain curve and the controls, which separate a text's beginning from its content.
Chart controls_chart(const std::string& dataset, const Entry& entry, Direction direction) {
  Chart chart;
  chart.title = fmt::format("{}, {}: {}", dataset, entry.series.name, direction_words(direction));
  chart.data =
      curve_table(fmt::format("controls-{}-{}-{}", dataset, entry.series.name, direction_name(direction)));
  const Json& controls = json_member(*entry.result, "controls");
  const std::string_view key = direction_name(direction);
  LineAxes axes{.x = "n", .x_title = "tokens kept", .y_title = "R@1"};
  double last = 0;
  const auto add = [&](const Json& curves, const char* name, size_t colour) {
    const Json& one = json_member(curves, key);
    if (!one.is_object()) return;
    chart.legend.push_back(Series{name, colour});
    last = std::max(last, add_curve(one, chart.legend.back(), name, chart.data));
  };
  add(*entry.result, "first tokens", 0);
  add(json_member(controls, "sentences_permuted"), "sentences in another order", 2);
  add(json_member(controls, "last_tokens"), "last tokens", 1);
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
  const Json& lengths = json_member(*entry.result, "token_lengths");
  const Json& histogram = json_member(lengths, "histogram");
  const Json& counts = json_member(histogram, "counts");
  const double width = json_number(histogram, "width");
  chart.title = fmt::format("{}: tokens of a text, {}", dataset, entry.series.name);
  const double limit = json_number(lengths, "limit");
  chart.words = fmt::format("Median {}, 95% at most {}, the longest {}",
                            number_text(json_number(lengths, "median"), Unit::kNumber),
                            number_text(json_number(lengths, "p95"), Unit::kNumber),
                            number_text(json_number(lengths, "max"), Unit::kNumber));
  if (std::isfinite(limit)) {
    chart.words += fmt::format("; {} are beyond the {} there is room for",
                               number_text(json_number(lengths, "beyond_limit"), Unit::kNumber),
                               number_text(limit, Unit::kNumber));
  }
  chart.words += ".";
  chart.legend = {entry.series};
  chart.data.name = fmt::format("tokens-{}-{}", dataset, entry.series.name);
  chart.data.columns = {text_column("model", "name"), text_column("colour", "series"),
                        text_column("tokens", "bin"), number_column("texts", "texts"),
                        number_column("share", "share")};
  if (!counts.is_array() || !(width >= 1)) return chart;
  double total = 0;
  for (const Json& count : counts) total += count.is_number() ? count.get<double>() : 0;
  std::vector<std::string> bins;
  for (size_t i = 0; i < counts.size() && total > 0; ++i) {
    const double from = static_cast<double>(i) * width;
    bins.push_back(width <= 1 ? fmt::format("{:.0f}", from)
                              : fmt::format("{:.0f}\xE2\x80\x93{:.0f}", from, from + width - 1));
    const double count = counts[i].is_number() ? counts[i].get<double>() : 0;
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
  html += "</div>\n" + page.table(lengths_table(dataset, entries));
  const Table chunking = chunking_table(dataset, entries);
  if (!chunking.rows.empty()) html += page.table(chunking);
  std::string controls;
  std::string tokens;
  for (const Entry& entry : entries) {
    for (const Direction direction : kBothDirections) {
      const Chart chart = controls_chart(dataset, entry, direction);
      if (chart.legend.size() > 1) controls += page.chart(chart);
    }
    const Chart chart = token_chart(dataset, entry);
    if (!chart.data.rows.empty()) tokens += page.chart(chart);
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
  for (const Domain& domain : domains) {
    if (!domain.name.empty()) html += fmt::format("<h3>{}</h3>\n", escape_html(domain.name));
    for (const auto& [dataset, entries] : domain.datasets) html += dataset_html(dataset, entries, page);
  }
  return html + "</section>\n";
}

}  // namespace saccade::lab
