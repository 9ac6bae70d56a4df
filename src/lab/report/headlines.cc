#include "lab/report/headlines.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <type_traits>

#include <fmt/format.h>

#include "lab/eval/figures/holm.h"
#include "lab/eval/run/record_fields.h"
#include "lab/report/table.h"

namespace saccade::lab {
namespace {

// A model's figure on a whole dataset, not on a part of it such as one kind of change.
struct HeadlineValue {
  std::string dataset;
  std::string model;
  std::string method;  // of composed search
  Figure figure;
};
// Two models on a dataset, in either order.
struct HeadlinePair {
  std::string_view dataset;
  std::string_view a;
  std::string_view b;
};

// A study's headline figure.
struct HeadlineFigure {
  std::string_view name;
  std::string_view key;  // behind the dataset's name
  std::vector<HeadlineValue> (*values)(const RunMetrics& run) = nullptr;
  // The p-value of the paired difference, NaN if the run has not compared the two. nullptr: no run compares.
  double (*p_value)(const RunMetrics& run, const HeadlinePair& pair) = nullptr;
  Unit unit = Unit::kShare;
  bool quality = true;
};

// Returns the values in a run of that kind. `figure` of a result is nullopt where it has none, or is of a part.
template <typename Metrics, typename Get>
std::vector<HeadlineValue> values_in(const RunMetrics& run, const Get& figure) {
  std::vector<HeadlineValue> values;
  const auto* metrics = std::get_if<Metrics>(&run);
  if (metrics == nullptr) return values;
  for (const auto& result : metrics->results) {
    const std::optional<Figure> found = figure(result);
    if (!found) continue;
    HeadlineValue& value = values.emplace_back();
    value.dataset = result.dataset;
    value.model = result.model;
    if constexpr (std::is_same_v<Metrics, ComposedMetrics>) value.method = result.method;
    value.figure = *found;
  }
  return values;
}

// `difference` of a comparison is nullptr where it has none, or is of a part.
template <typename Metrics, typename Get>
double p_value_in(const RunMetrics& run, const HeadlinePair& pair, const Get& difference) {
  if (const auto* metrics = std::get_if<Metrics>(&run)) {
    for (const auto& comparison : metrics->comparisons) {
      const bool these = (comparison.a == pair.a && comparison.b == pair.b) ||
                         (comparison.a == pair.b && comparison.b == pair.a);
      if (!these || comparison.dataset != pair.dataset) continue;
      if (const Difference* found = difference(comparison)) return found->p_value;
    }
  }
  return Figure::kNone;
}

std::optional<Figure> copy_of(const Figure* figure) {
  return figure == nullptr ? std::nullopt : std::optional(*figure);
}

template <Direction kDirection>
std::vector<HeadlineValue> hits_at_1(const RunMetrics& run) {
  return values_in<RetrievalMetrics>(run, [](const RetrievalResult& result) {
    return copy_of(find_named(result.directions.of(kDirection).figures, "r1"));
  });
}
template <Direction kDirection>
double hits_p_value(const RunMetrics& run, const HeadlinePair& pair) {
  return p_value_in<RetrievalMetrics>(run, pair, [](const RetrievalComparison& comparison) {
    return find_named(comparison.directions.of(kDirection), "r1");
  });
}

// Returns the group score, or the text score of items of one image, which have no other.
template <typename Scores>
auto composition_score(const Scores& scores, bool group) {
  const auto* found = find_named(scores, "group");
  if (!group) found = found == nullptr ? find_named(scores, "text") : nullptr;
  return found;
}
template <bool kGroup>
std::vector<HeadlineValue> composition_scores(const RunMetrics& run) {
  return values_in<CompositionMetrics>(run, [](const CompositionResult& result) {
    return result.kind.value_or("").empty() ? copy_of(composition_score(result.scores, kGroup))
                                            : std::nullopt;
  });
}
template <bool kGroup>
double composition_p_value(const RunMetrics& run, const HeadlinePair& pair) {
  return p_value_in<CompositionMetrics>(run, pair, [](const CompositionComparison& comparison) {
    return comparison.kind.value_or("").empty() ? composition_score(comparison.scores, kGroup) : nullptr;
  });
}

std::vector<HeadlineValue> composed_hits(const RunMetrics& run) {
  return values_in<ComposedMetrics>(run, [](const ComposedResult& result) {
    return result.group.of == "all" ? copy_of(find_named(result.group.figures, "r10")) : std::nullopt;
  });
}

std::vector<HeadlineValue> visualness_f1(const RunMetrics& run) {
  return values_in<VisualnessMetrics>(
      run, [](const VisualnessResult& result) { return std::optional(result.f1()); });
}
double visualness_p_value(const RunMetrics& run, const HeadlinePair& pair) {
  return p_value_in<VisualnessMetrics>(run, pair, [](const VisualnessComparison& comparison) {
    return find_named(comparison.scores, BinaryFigures::kNames.front());
  });
}

// The effective length of a curve that is not above chance is that of noise.
std::vector<HeadlineValue> effective_lengths(const RunMetrics& run) {
  return values_in<LengthMetrics>(run, [](const LengthResult& result) -> std::optional<Figure> {
    const LengthCurveRecord& curve = result.curves.t2i;
    if (!curve.above_chance || !curve.effective.value) return std::nullopt;
    const auto number = [](const std::optional<int64_t>& n) {
      return n ? static_cast<double>(*n) : Figure::kNone;
    };
    return Figure{.value = number(curve.effective.value),
                  .low = number(curve.effective.low),
                  .high = number(curve.effective.high)};
  });
}

std::vector<HeadlineValue> image_speeds(const RunMetrics& run) {
  return values_in<SpeedMetrics>(run, [](const SpeedRecord& result) -> std::optional<Figure> {
    if (!result.images_per_s) return std::nullopt;
    const Spread& spread = *result.images_per_s;
    return Figure{.value = spread.value, .low = spread.low, .high = spread.high};
  });
}

std::vector<HeadlineValue> answers_ndcg(const RunMetrics& run) {
  return values_in<AnswersMetrics>(run, [](const AnswersResult& result) -> std::optional<Figure> {
    const auto& orders = result.figures.orders;
    const auto shown = std::ranges::find_if(orders, [](const AnswersFigures::Order& order) {
      return order.ordering == Ordering::kDefault && order.group == QueryGroup::kAll;
    });
    if (shown == orders.end()) return std::nullopt;
    return shown->ndcg;
  });
}

std::vector<HeadlineFigure> all_headlines() {
  constexpr Direction kT2i = Direction::kTextToImage;
  constexpr Direction kI2t = Direction::kImageToText;
  return {{"R@1, text \xE2\x86\x92 image", "t2i_r1", hits_at_1<kT2i>, hits_p_value<kT2i>},
          {"R@1, image \xE2\x86\x92 text", "i2t_r1", hits_at_1<kI2t>, hits_p_value<kI2t>},
          {"group score", "scores_group", composition_scores<true>, composition_p_value<true>},
          {"text score", "scores_text", composition_scores<false>, composition_p_value<false>},
          {"R@10, composed", "figures_r10", composed_hits},
          {"nDCG@10, answers", "ndcg", answers_ndcg},
          {"F1, visualness", "f1", visualness_f1, visualness_p_value},
          {"effective length, text \xE2\x86\x92 image", "t2i_effective", effective_lengths, nullptr,
           Unit::kNumber},
          {"images/s", "images_per_s", image_speeds, nullptr, Unit::kNumber, false}};
}

Series headline_series(const ReportData& data, const LoadedRun& run, const HeadlineValue& value) {
  Series series = data.series_of(run, value.model);
  if (!value.method.empty()) series.name = fmt::format("{}, {}", value.method, series.name);
  return series;
}

void rank_models(HeadlineColumn& column) {
  for (Headline& one : column.models) {
    double better = 0;
    double equal = 0;
    for (const Headline& other : column.models) {
      better += other.figure.value > one.figure.value ? 1 : 0;
      equal += other.figure.value == one.figure.value ? 1 : 0;
    }
    one.rank = better + (equal + 1) / 2;
    one.best = better == 0;
  }
}

void mark_ties(HeadlineColumn& column, const HeadlineFigure& figure) {
  const auto best = std::ranges::find_if(column.models, &Headline::best);
  if (best == column.models.end()) return;
  std::vector<double> p_values;
  for (const Headline& one : column.models) {
    const bool compares = figure.p_value != nullptr && !one.best && one.run == best->run;
    p_values.push_back(compares ? figure.p_value(one.run->metrics, {column.dataset, best->model, one.model})
                                : Figure::kNone);
  }
  const std::vector<double> adjusted = holm_adjusted(p_values);
  for (size_t i = 0; i < column.models.size(); ++i) {
    Headline& one = column.models[i];
    if (one.best) continue;
    const double confidence = best->run->run->info.confidence;
    one.tied = std::isfinite(adjusted[i]) ? !is_significant(adjusted[i], confidence)
                                          : one.figure.shown_high() >= best->figure.shown_low();
  }
}

}  // namespace

std::string comparability(const RunInfo& info, const std::string& dataset) {
  std::string hash;
  for (const RunDataset& each : info.datasets) {
    if (each.name == dataset) hash = each.sha256 + each.images_sha256;
  }
  Json protocol = info.protocol;
  if (protocol.is_object()) protocol.erase("description");
  return fmt::format("{}\n{}\n{}\n{}\n{}", info.kind, dataset, hash, dump_json(protocol), info.confidence);
}

std::vector<HeadlineColumn> headlines(const ReportData& data) {
  std::vector<HeadlineColumn> columns;
  for (const HeadlineFigure& figure : all_headlines()) {
    std::vector<HeadlineColumn> own;
    std::vector<std::string> keys;
    for (const LoadedRun& run : data.runs) {
      for (const HeadlineValue& value : figure.values(run.metrics)) {
        if (!run.has_checkpoint(value.model) || !std::isfinite(value.figure.value)) continue;
        const std::string key = comparability(run.run->info, value.dataset);
        const auto found = std::ranges::find(keys, key);
        const auto at = static_cast<size_t>(found - keys.begin());
        if (found == keys.end()) {
          keys.push_back(key);
          own.push_back({value.dataset,
                         std::string(figure.name),
                         fmt::format("{}_{}", value.dataset, figure.key),
                         figure.unit,
                         figure.quality,
                         {}});
        }
        Headline one;
        one.series = headline_series(data, run, value);
        one.figure = value.figure;
        one.run = &run;
        one.model = value.model;
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
