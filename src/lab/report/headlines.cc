#include "lab/report/headlines.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include <fmt/format.h>

#include "lab/eval/figures/holm.h"
#include "lab/report/table.h"

namespace saccade::lab {
namespace {

constexpr double kPRounding = 1e-9;

// A study's headline figure: where a result of the run's metrics has it.
struct HeadlineFigure {
  std::string_view study;
  std::string_view name;
  std::vector<std::string> path;  // from a result
  Unit unit = Unit::kShare;
  bool quality = true;
};

std::vector<HeadlineFigure> all_headlines() {
  return {{"retrieval", "R@1, text \xE2\x86\x92 image", {"t2i", "r1"}},
          {"retrieval", "R@1, image \xE2\x86\x92 text", {"i2t", "r1"}},
          {"winoground", "group score", {"scores", "group"}},
          {"composed", "R@10, composed", {"figures", "r10"}},
          {"visualness", "F1, visualness", {"f1"}},
          {"length", "effective length, text \xE2\x86\x92 image", {"t2i", "effective"}, Unit::kNumber},
          {"speed", "images/s", {"images_per_s"}, Unit::kNumber, false}};
}

const Json& at_path(const Json& result, const std::vector<std::string>& path) {
  const Json* found = &result;
  for (const std::string& key : path) found = &json_member(*found, key);
  return *found;
}

// Results of a part of the dataset, such as one kind of change, are no headline.
bool is_whole(const Json& result) {
  const std::string of = json_text(result, "of");
  return json_text(result, "kind").empty() && (of.empty() || of == "all");
}

// The effective length of a curve that is not above chance is that of noise.
bool is_noise(const Json& result, const HeadlineFigure& figure) {
  if (figure.study != "length") return false;
  const Json& above = json_member(json_member(result, figure.path.front()), "above_chance");
  return above.is_boolean() && !above.get<bool>();
}

Series headline_series(const ReportData& data, const LoadedRun& run, const Json& result) {
  Series series = data.series_of(run, json_text(result, "model"));
  const std::string method = json_text(result, "method");
  if (run.run->info.kind == "composed" && !method.empty()) {
    series.name = fmt::format("{}, {}", method, series.name);
  }
  return series;
}

bool has_checkpoint(const LoadedRun& run, const std::string& model) {
  return std::ranges::any_of(run.run->info.checkpoints,
                             [&](const RunCheckpoint& checkpoint) { return checkpoint.name == model; });
}

void rank_models(HeadlineColumn& column) {
  for (Headline& one : column.models) {
    double better = 0;
    double equal = 0;
    for (const Headline& other : column.models) {
      better += other.value > one.value ? 1 : 0;
      equal += other.value == one.value ? 1 : 0;
    }
    one.rank = better + (equal + 1) / 2;
    one.best = better == 0;
  }
}

// Returns the p-value of the paired difference of two models' figures, if the run has compared them.
double paired_p(const Headline& a, const Headline& b, const std::string& dataset,
                const std::vector<std::string>& path) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  if (a.run != b.run) return none;
  const Json& comparisons = json_member(a.run->run->metrics, "comparisons");
  if (!comparisons.is_array()) return none;
  for (const Json& comparison : comparisons) {
    const std::string first = json_text(comparison, "a");
    const std::string second = json_text(comparison, "b");
    const bool these = (first == a.model && second == b.model) || (first == b.model && second == a.model);
    if (!these || json_text(comparison, "dataset") != dataset || !is_whole(comparison)) continue;
    return json_number(at_path(comparison, path), "p_value");
  }
  return none;
}

void mark_ties(HeadlineColumn& column, const HeadlineFigure& figure) {
  const auto best = std::ranges::find_if(column.models, &Headline::best);
  if (best == column.models.end()) return;
  std::vector<double> p_values;
  for (const Headline& one : column.models) {
    const bool compares = figure.study != "composed" && !one.best;
    p_values.push_back(compares ? paired_p(*best, one, column.dataset, figure.path)
                                : std::numeric_limits<double>::quiet_NaN());
  }
  const std::vector<double> adjusted = holm_adjusted(p_values);
  for (size_t i = 0; i < column.models.size(); ++i) {
    Headline& one = column.models[i];
    if (one.best) continue;
    const double level = 1 - best->run->run->info.confidence;
    one.tied = std::isfinite(adjusted[i]) ? adjusted[i] > level + kPRounding : one.high >= best->low;
  }
}

}  // namespace

std::string comparability(const RunInfo& info, const std::string& dataset) {
  std::string hash;
  for (const RunDataset& each : info.datasets) {
    if (each.name == dataset) hash = each.sha256 + each.pictures_sha256;
  }
  Json protocol = info.protocol;
  if (protocol.is_object()) protocol.erase("words");
  return fmt::format("{}\n{}\n{}\n{}\n{}", info.kind, dataset, hash, dump_json(protocol), info.confidence);
}

std::vector<HeadlineColumn> headlines(const ReportData& data) {
  std::vector<HeadlineColumn> columns;
  for (const HeadlineFigure& figure : all_headlines()) {
    std::vector<HeadlineColumn> own;
    std::vector<std::string> keys;
    for (const LoadedRun& run : data.runs) {
      const Json& results = json_member(run.run->metrics, "results");
      if (run.run->info.kind != figure.study || !results.is_array()) continue;
      for (const Json& result : results) {
        const std::string model = json_text(result, "model");
        const double value = json_number(at_path(result, figure.path), "value");
        if (!has_checkpoint(run, model) || !is_whole(result) || is_noise(result, figure) ||
            !std::isfinite(value))
          continue;
        const std::string dataset = json_text(result, "dataset");
        const std::string key = comparability(run.run->info, dataset);
        const auto found = std::ranges::find(keys, key);
        const auto at = static_cast<size_t>(found - keys.begin());
        if (found == keys.end()) {
          keys.push_back(key);
          std::string path;
          for (const std::string& part : figure.path) path += "_" + part;
          own.push_back({dataset, std::string(figure.name), dataset + path, figure.unit, figure.quality, {}});
        }
        Headline one;
        one.series = headline_series(data, run, result);
        one.value = value;
        one.low = json_number(at_path(result, figure.path), "low");
        one.high = json_number(at_path(result, figure.path), "high");
        one.run = &run;
        one.model = model;
        const bool again = std::ranges::any_of(
            own[at].models, [&](const Headline& other) { return other.series.name == one.series.name; });
        if (!again) own[at].models.push_back(std::move(one));
      }
    }
    for (HeadlineColumn& column : own) {
      rank_models(column);
      mark_ties(column, figure);
      columns.push_back(std::move(column));
    }
  }
  return columns;
}

}  // namespace saccade::lab
