// Speed: throughputs, latencies and stages; and accuracy against speed if retrieval was measured too.
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "lab/report/run_sections.h"
#include "lab/report/sections/speed_chart.h"

namespace saccade::lab {
namespace {

struct Measured {
  const LoadedRun* run = nullptr;
  const SpeedRecord* result = nullptr;
  Series series;
};

std::vector<Measured> measured_speeds(const ReportData& data) {
  std::vector<Measured> all;
  for (const LoadedRun& run : data.runs) {
    const auto* metrics = std::get_if<SpeedMetrics>(&run.metrics);
    if (metrics == nullptr) continue;
    for (const SpeedRecord& result : metrics->results) {
      all.push_back({&run, &result, data.series_of(run, result.model)});
    }
  }
  return all;
}

Table throughput_table(const std::vector<Measured>& all) {
  Table table;
  table.name = "speed";
  table.caption = "Items a second, medians over passes with the slowest and the fastest; memory at its peak";
  table.columns = {text_column("model"),
                   text_column("precision"),
                   text_column("dataset"),
                   number_column("batch"),
                   figure_column("images/s", "images_per_s"),
                   figure_column("texts/s", "texts_per_s"),
                   figure_column("queries/s", "queries_per_s"),
                   number_column("memory, MiB", "peak_mib"),
                   number_column("to load, s", "load_s"),
                   text_column("machine"),
                   text_column("run")};
  for (const Measured& each : all) {
    const SpeedRecord& result = *each.result;
    const RunMachine& machine = each.run->run->info.machine;
    const double peak = static_cast<double>(result.peak_bytes) / (1U << 20U);
    table.rows.push_back({text_cell(each.series.name), text_cell(result.precision), text_cell(result.dataset),
                          number_cell(result.batch), spread_cell(result.images_per_s),
                          spread_cell(result.texts_per_s), spread_cell(result.queries_per_s),
                          number_cell(std::round(peak)), number_cell(result.load_s),
                          text_cell(fmt::format("{}, {} threads", machine.processor, machine.threads)),
                          text_cell(each.run->name)});
  }
  return table;
}

Table latency_table(const std::vector<Measured>& all) {
  Table table;
  table.name = "latency";
  table.caption = "One query at a time, milliseconds";
  table.columns = {text_column("model"), text_column("query"), number_column("p50"),    number_column("p95"),
                   number_column("p99"), number_column("max"), number_column("samples")};
  for (const Measured& each : all) {
    for (const auto& [kind, latency] :
         {std::pair("text", &each.result->text_latency), {"image", &each.result->image_latency}}) {
      if (!*latency) continue;
      const Latency& one = **latency;
      table.rows.push_back({text_cell(each.series.name), text_cell(kind), number_cell(one.p50),
                            number_cell(one.p95), number_cell(one.p99), number_cell(one.max),
                            number_cell(one.samples)});
    }
  }
  return table;
}

Table stages_table(const std::vector<Measured>& all) {
  Table table;
  table.name = "stages";
  table.caption = "Where an image's time goes, milliseconds";
  table.columns = {text_column("model"), number_column("read"), number_column("decode"),
                   number_column("preprocess"), number_column("encode")};
  for (const Measured& each : all) {
    if (!each.result->stages) continue;
    std::vector<Cell> row = {text_cell(each.series.name)};
    for (const std::string_view name : {"read", "decode", "preprocess", "encode"}) {
      const auto stage = std::ranges::find(*each.result->stages, name, &StageTimes::value_type::first);
      row.push_back(number_cell(stage == each.result->stages->end() ? std::nan("") : 1000 * stage->second));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

// Returns true if no measured model is both faster and more accurate.
bool on_frontier(const SpeedPoint& point, const std::vector<SpeedPoint>& all) {
  return std::ranges::none_of(all, [&](const SpeedPoint& other) {
    return other.x() >= point.x() && other.y() >= point.y() &&
           (other.x() > point.x() || other.y() > point.y());
  });
}

Chart pareto_chart(const std::string& dataset, const std::vector<SpeedPoint>& points) {
  Chart chart = speed_chart(points, {.column = "images/s", .x_title = "images a second"});
  chart.title = dataset + ": accuracy against speed";
  chart.words =
      "R@1 of text \xE2\x86\x92 image over images encoded a second, all stages in; dashed: the best there is "
      "at each speed.";
  chart.data.name = "pareto-" + dataset;
  return chart;
}

// Returns one chart for each dataset of each retrieval run that has models with a known speed. The first
// measurement of a model counts.
std::string pareto_html(const ReportData& data, const std::vector<Measured>& speeds, PageBuilder& page) {
  std::string html;
  for (const LoadedRun& run : data.runs) {
    const auto* metrics = std::get_if<RetrievalMetrics>(&run.metrics);
    if (metrics == nullptr) continue;
    for (const RunDataset& dataset : run.run->info.datasets) {
      std::vector<SpeedPoint> points;
      for (const RetrievalResult& result : metrics->results) {
        if (result.dataset != dataset.name || result.model == kChance) continue;
        const Series series = data.series_of(run, result.model);
        const auto speed = std::ranges::find_if(
            speeds, [&](const Measured& each) { return each.series.colour == series.colour; });
        if (speed == speeds.end()) continue;
        const SpeedPoint point{series, speed->result->images_per_s.value_or(Spread()),
                               find_named(result.directions.t2i.figures, "r1")};
        if (point.x() > 0 && std::isfinite(point.y())) points.push_back(point);
      }
      if (!points.empty()) html += page.chart(pareto_chart(dataset.name, points));
    }
  }
  return html;
}

}  // namespace

Cell spread_cell(const std::optional<Spread>& spread) {
  const Spread shown = spread.value_or(Spread());
  return figure_cell(shown.value, shown.low, shown.high, Unit::kNumber);
}

Chart speed_chart(const std::vector<SpeedPoint>& points, const SpeedAxes& axes) {
  Chart chart;
  chart.data.columns = {text_column("model", "name"), text_column("colour", "series"),
                        figure_column(std::string(axes.column), "x"), figure_column("R@1", "y"),
                        number_column("on the frontier", "frontier")};
  for (const SpeedPoint& point : points) {
    chart.legend.push_back(point.series);
    const double frontier = on_frontier(point, points) ? point.y() : std::numeric_limits<double>::quiet_NaN();
    chart.data.rows.push_back({text_cell(point.series.name), text_cell(series_key(point.series)),
                               spread_cell(point.speed), figure_cell(point.recall, Unit::kShare),
                               number_cell(frontier, Unit::kShare)});
  }
  chart.spec = pareto_spec(chart.legend, axes.x_title, axes.y_title);
  return chart;
}

std::string speed_section(const ReportData& data, PageBuilder& page) {
  const std::vector<Measured> all = measured_speeds(data);
  if (all.empty()) return {};
  std::string html =
      "<section id=\"speed\"><h2>Speed</h2>\n<p class=\"soft\">Stages run one after the other and add up to "
      "the whole. Figures of different machines do not compare.</p>\n";
  const std::string pareto = pareto_html(data, all, page);
  if (!pareto.empty()) html += "<div class=\"panels\">\n" + pareto + "</div>\n";
  html += page.table(throughput_table(all));
  for (const Table& table : {latency_table(all), stages_table(all)}) {
    if (!table.rows.empty()) html += page.table(table);
  }
  return html + "</section>\n";
}

}  // namespace saccade::lab
