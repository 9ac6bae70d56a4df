// JSON of composed-search results as stored in runs: docs/runs.md.
#include <utility>

#include "lab/eval/composed/composed_study.h"

namespace saccade::lab {

Result<Json> ComposedStudy::metrics(std::span<const RunDataset> datasets) const {
  Json results = Json::array();
  Json comparisons = Json::array();
  Json chosen = Json::array();
  for (const Chosen& one : chosen_) {
    chosen.push_back({{"dataset", chosen_on_},
                      {"model", one.model},
                      {"method", one.method},
                      {"weight", one.weight},
                      {"r10", one.r10}});
  }
  for (size_t d = 0; d < datasets_.size(); ++d) {
    const std::vector<Outcome>& outcomes = datasets_[d].outcomes;
    const std::string& name = datasets[d].name;
    for (const Outcome& outcome : outcomes) {
      for (const ComposedGroup& group : outcome.groups) {
        if (group.queries == 0) continue;
        Json json = {{"dataset", name},
                     {"model", outcome.model},
                     {"method", outcome.method},
                     {"weight", outcome.weight ? Json(*outcome.weight) : Json()},
                     {"weight_from", outcome.weight_from.empty() ? Json() : Json(outcome.weight_from)},
                     {"composer",
                      outcome.composer != nullptr ? Json(outcome.composer->composer->config().kind) : Json()},
                     {"tau", outcome.tau ? Json(*outcome.tau) : Json()},
                     {"tokens_matched", outcome.matched ? Json(*outcome.matched) : Json()},
                     {"texts_cut", outcome.cut.texts},
                     {"tokens_dropped", outcome.cut.tokens},
                     {"reference_ranked", !datasets_[d].task->remove_reference},
                     {"recall", enum_name(datasets_[d].task->recall_first ? RecallTarget::kFirst
                                                                          : RecallTarget::kAny)}};
        json.update(composed_group_json(group));
        results.push_back(std::move(json));
      }
    }
    for (size_t a = 0; a < outcomes.size(); ++a) {
      for (size_t b = a + 1; b < outcomes.size(); ++b) {
        for (size_t g = 0; g < outcomes[a].groups.size(); ++g) {
          const ComposedGroup& group = outcomes[a].groups[g];
          if (group.queries == 0 || group.of == "kind") continue;
          SACCADE_ASSIGN(Json figures, composed_difference_json(group, outcomes[b].groups[g],
                                                                evaluation_.bootstrap.confidence));
          const auto side = [](const Outcome& one) {
            return Json{{"model", one.model}, {"method", one.method}};
          };
          comparisons.push_back({{"dataset", name},
                                 {"of", group.of},
                                 {"a", side(outcomes[a])},
                                 {"b", side(outcomes[b])},
                                 {"figures", std::move(figures)}});
        }
      }
    }
  }
  Json curves = Json::array();
  Json similarities = Json::array();
  for (size_t d = 0; d < datasets_.size(); ++d) {
    for (const auto& [from, to] :
         {std::pair{&datasets_[d].curves, &curves}, std::pair{&datasets_[d].similarities, &similarities}}) {
      for (Json each : *from) {
        each["dataset"] = datasets[d].name;
        to->push_back(std::move(each));
      }
    }
  }
  return Json{{"results", std::move(results)},
              {"chosen", std::move(chosen)},
              {"tau_curves", std::move(curves)},
              {"token_similarities", std::move(similarities)},
              {"comparisons", std::move(comparisons)}};
}

}  // namespace saccade::lab
