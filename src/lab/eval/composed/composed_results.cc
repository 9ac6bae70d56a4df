// Results of composed search as runs hold them: docs/runs.md.
#include <algorithm>
#include <cmath>
#include <utility>

#include "lab/eval/composed/composed_study.h"
#include "lab/eval/run/record_fields.h"

namespace saccade::lab {
namespace {

// Blanks the differences of figures that are blank themselves, as those beyond the gallery.
void blank_unknown(const std::vector<Figure>& figures, std::vector<Difference>& differences) {
  for (Difference& difference : differences) {
    const Figure* figure = find_named(figures, difference.figure.name);
    if (figure != nullptr && !std::isnan(figure->value)) continue;
    difference = {.figure = {.name = difference.figure.name}, .blank = true};
  }
}

}  // namespace

Status ComposedStudy::compare_variants(const Measured& measured, const std::string& dataset,
                                       ComposedMetrics& metrics) const {
  std::vector<ComposedGroup> full;  // by group
  for (const ComposedVariant& variant : options_.variants) {
    ComposedAblation ablation;
    ablation.dataset = dataset;
    ablation.name = variant.name;
    ablation.changed = variant.changed;
    ablation.seeds = variant.seeds;
    std::vector<const Outcome*> trainings;
    for (size_t s = 0; s < variant.composers.size(); ++s) {
      ablation.methods.push_back(variant.name_of(s));
      const auto found = std::ranges::find_if(measured.outcomes, [&](const Outcome& outcome) {
        return outcome.composer != nullptr && outcome.composer->folder == variant.composers[s];
      });
      if (found == measured.outcomes.end()) {
        return fail(ErrorCode::kInternal, "{}: the composer {} was not measured", dataset,
                    ablation.methods.back());
      }
      trainings.push_back(&*found);
    }
    const bool first = full.empty();
    for (size_t g = 0; g < trainings.front()->groups.size(); ++g) {
      std::vector<const ComposedGroup*> groups;
      for (const Outcome* training : trainings) groups.push_back(&training->groups[g]);
      SACCADE_ASSIGN(ComposedGroup mean, mean_over_seeds(groups, evaluation_.bootstrap));
      if (mean.queries > 0 && mean.of != "kind") {
        ablation.of = mean.of;
        ablation.queries = mean.queries;
        ablation.figures = mean.figures;
        if (!first) {
          SACCADE_ASSIGN(ablation.differences,
                         composed_differences(mean, full[g], evaluation_.bootstrap.confidence));
          blank_unknown(mean.figures, ablation.differences);
        }
        ablation.untrained.clear();
        for (const Outcome& outcome : measured.outcomes) {
          if (outcome.composer != nullptr || outcome.model != trainings.front()->model) continue;
          SACCADE_ASSIGN(std::vector<Difference> less,
                         composed_differences(mean, outcome.groups[g], evaluation_.bootstrap.confidence));
          blank_unknown(mean.figures, less);
          ablation.untrained.push_back({outcome.method, std::move(less)});
        }
        metrics.ablations.push_back(ablation);
      }
      if (first) full.push_back(std::move(mean));
    }
  }
  return {};
}

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
    if (!measured.outcomes.empty()) SACCADE_TRY(compare_variants(measured, name, metrics));
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
