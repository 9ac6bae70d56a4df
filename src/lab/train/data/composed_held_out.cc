#include "lab/train/data/composed_held_out.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "lab/eval/composed/composed_figures.h"
#include "lab/eval/run/record_fields.h"

namespace saccade::lab {

namespace {

constexpr const char* kFashionIqMetric = "mean_r10_r50";

// Returns "selection" of Fashion-IQ's groups; null if the galleries are too small for it.
Json fashion_iq_selection(std::span<const ComposedGroup> groups) {
  // All queries, then each category if there are several, then the mean over those.
  const ComposedGroup& group = groups.back().of == "mean of kinds" ? groups.back() : groups.front();
  for (const Figure& figure : group.figures) {
    if (figure.name != kFashionIqMetric || !std::isfinite(figure.value)) continue;
    return {{"metric", kFashionIqMetric},
            {"categories", std::max<int64_t>(1, std::ssize(groups) - 2)},
            {"value", figure.value}};
  }
  return {};
}

// Returns the mean of a set's recalls.
Result<double> mean_recall(const Json& set) {
  const auto figures = set.find("figures");
  if (figures == set.end() || !figures->is_object()) return fail(ErrorCode::kBadData, "without \"figures\"");
  double recalls = 0;
  double counted = 0;
  for (const char* name : {"r1", "r5", "r10"}) {
    const auto figure = figures->find(name);
    if (figure == figures->end() || !figure->is_object() || !figure->contains("value")) {
      return fail(ErrorCode::kBadData, "without \"{}\"", name);
    }
    if (figure->at("value").is_null()) continue;
    SACCADE_ASSIGN(const auto value, json_field<double>(*figure, "value"));
    recalls += value;
    counted += 1;
  }
  if (counted == 0) return fail(ErrorCode::kBadData, "without a recall");
  return recalls / counted;
}

// Pictures: embeddings, one per image or several.
template <typename Pictures>
Result<Json> ranked_held_out_json(const std::string& name, const ComposedTask& task,
                                  MatrixView<const float> asked, const Pictures& pictures,
                                  const BootstrapOptions& bootstrap, ThreadPool& pool) {
  SACCADE_ASSIGN(const std::vector<ComposedAnswer> answers,
                 rank_composed(task, asked, pictures, TiePolicy::kPessimistic, 1, pool));
  const std::vector<ComposedGroup> groups = composed_groups(task, answers, bootstrap, pool);
  if (groups.empty()) return fail(ErrorCode::kBadData, "{}: no query with a target", name);
  Json line = record_json(groups.front());
  line.erase("of");
  line["name"] = name;
  if (task.layout == "fashion_iq") {
    if (Json selection = fashion_iq_selection(groups); !selection.is_null()) {
      line["selection"] = std::move(selection);
    }
  }
  return line;
}

}  // namespace

Result<Json> composed_held_out_json(const std::string& name, const ComposedTask& task,
                                    MatrixView<const float> asked, MatrixView<const float> pictures,
                                    const BootstrapOptions& bootstrap, ThreadPool& pool) {
  return ranked_held_out_json(name, task, asked, pictures, bootstrap, pool);
}

Result<Json> composed_held_out_json(const std::string& name, const ComposedTask& task,
                                    MatrixView<const float> asked, const EmbeddedRows& pictures,
                                    const BootstrapOptions& bootstrap, ThreadPool& pool) {
  return ranked_held_out_json(name, task, asked, pictures, bootstrap, pool);
}

Result<std::optional<double>> composed_headline(const Json& held_out) {
  if (!held_out.is_array()) return fail(ErrorCode::kBadData, "not an array");
  const bool by_category =
      std::ranges::all_of(held_out, [](const Json& set) { return set.contains("selection"); });
  double sum = 0;
  double weight = 0;
  for (const Json& set : held_out) {
    SACCADE_ASSIGN(auto own, json_field<double>(set, "queries"));
    double value = 0;
    if (const auto selection = set.find("selection"); selection != set.end()) {
      SACCADE_ASSIGN(value, json_field<double>(*selection, "value"));
      if (by_category) {
        SACCADE_ASSIGN(own, json_field<double>(*selection, "categories"));
      }
    } else {
      SACCADE_ASSIGN(value, mean_recall(set));
    }
    sum += own * value;
    weight += own;
  }
  if (weight == 0) return std::nullopt;
  return sum / weight;
}

}  // namespace saccade::lab
