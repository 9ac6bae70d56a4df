#include "lab/train/data/composed_held_out.h"

#include <utility>
#include <vector>

#include "lab/eval/composed/composed_figures.h"
#include "lab/eval/run/record_fields.h"

namespace saccade::lab {

Result<Json> composed_held_out_json(const std::string& name, const ComposedTask& task,
                                    MatrixView<const float> asked, MatrixView<const float> pictures,
                                    const BootstrapOptions& bootstrap, ThreadPool& pool) {
  SACCADE_ASSIGN(const std::vector<ComposedAnswer> answers,
                 rank_composed(task, asked, pictures, TiePolicy::kPessimistic, 1, pool));
  const std::vector<ComposedGroup> groups = composed_groups(task, answers, bootstrap, pool);
  if (groups.empty()) return fail(ErrorCode::kBadData, "{}: no query with a target", name);
  Json line = record_json(groups.front());
  line.erase("of");
  line["name"] = name;
  return line;
}

Result<std::optional<double>> composed_headline(const Json& held_out) {
  if (!held_out.is_array()) return fail(ErrorCode::kBadData, "not an array");
  double sum = 0;
  double weight = 0;
  for (const Json& set : held_out) {
    SACCADE_ASSIGN(const auto queries, json_field<double>(set, "queries"));
    const auto figures = set.find("figures");
    if (figures == set.end() || !figures->is_object())
      return fail(ErrorCode::kBadData, "without \"figures\"");
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
    sum += queries * recalls / counted;
    weight += queries;
  }
  if (weight == 0) return std::nullopt;
  return sum / weight;
}

}  // namespace saccade::lab
