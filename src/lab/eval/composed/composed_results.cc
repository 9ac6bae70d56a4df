// Results of composed search as runs hold them: docs/runs.md.
#include <utility>

#include "lab/eval/composed/composed_study.h"
#include "lab/eval/run/record_fields.h"

namespace saccade::lab {

Result<Json> ComposedStudy::metrics(std::span<const RunDataset> datasets) const {
  ComposedMetrics metrics;
  metrics.chosen = chosen_;
  for (size_t d = 0; d < datasets_.size(); ++d) {
    const Measured& measured = datasets_[d];
    const std::string& name = datasets[d].name;
    for (const Outcome& outcome : measured.outcomes) {
      for (const ComposedGroup& group : outcome.groups) {
        if (group.queries == 0) continue;
        metrics.results.push_back(
            {.dataset = name,
             .model = outcome.model,
             .method = outcome.method,
             .weight = outcome.weight,
             .weight_from = outcome.weight_from,
             .composer = outcome.composer != nullptr ? outcome.composer->composer->config().kind : "",
             .tau = outcome.tau,
             .tokens_matched = outcome.matched,
             .texts_cut = outcome.cut.texts,
             .tokens_dropped = outcome.cut.tokens,
             .reference_ranked = !measured.task->remove_reference,
             .recall = std::string(
                 enum_name(measured.task->recall_first ? RecallTarget::kFirst : RecallTarget::kAny)),
             .group = group});
      }
    }
    for (size_t a = 0; a < measured.outcomes.size(); ++a) {
      for (size_t b = a + 1; b < measured.outcomes.size(); ++b) {
        const Outcome& x = measured.outcomes[a];
        const Outcome& y = measured.outcomes[b];
        for (size_t g = 0; g < x.groups.size(); ++g) {
          const ComposedGroup& group = x.groups[g];
          if (group.queries == 0 || group.of == "kind") continue;
          SACCADE_ASSIGN(std::vector<Difference> figures,
                         composed_differences(group, y.groups[g], evaluation_.bootstrap.confidence));
          metrics.comparisons.push_back(
              {name, group.of, {x.model, x.method}, {y.model, y.method}, std::move(figures)});
        }
      }
    }
    for (TauPoint point : measured.curves) {
      point.dataset = name;
      metrics.tau_curves.push_back(std::move(point));
    }
    for (TokenSimilarities similarities : measured.similarities) {
      similarities.dataset = name;
      metrics.token_similarities.push_back(std::move(similarities));
    }
  }
  return record_json(metrics);
}

}  // namespace saccade::lab
