#include "lab/eval/winoground/winoground_study.h"

#include <fmt/format.h>

namespace saccade::lab {

Json CompositionStudy::protocol() const {
  std::string words = fmt::format(
      "An item's text score: each image scores higher with its own caption than with the other; its "
      "image score: each caption scores higher with its own image than with the other; its group score: "
      "both. Items of one image have the text score alone. A tie is wrong. Intervals: {} resamples of "
      "the items, those that share images together.",
      options_.bootstrap.resamples);
  words += fmt::format(" {}", given_ ? "Computed elsewhere: scores." : picture_words(options_.embed));
  Json json = {{"description", std::move(words)},
               {"comparison", "strict"},
               {"leave_out", options_.leave_out},
               {"score_by", given_ ? "scores" : "encoder"}};
  if (!given_) json.update(picture_fields(options_.embed));
  return json;
}

Status CompositionStudy::add_dataset(const NamedDataset& dataset) {
  SACCADE_ASSIGN(CompositionTask whole, composition_task(dataset.dataset));
  datasets_.push_back({.whole = std::move(whole)});
  return {};
}

std::vector<ImageRef> CompositionStudy::pictures(size_t dataset) const {
  return datasets_[dataset].whole.pictures;
}

Result<SettledTask> CompositionStudy::settle(size_t dataset, std::span<const int64_t> unreadable) {
  Judged& one = datasets_[dataset];
  SACCADE_ASSIGN(one.task, without_pictures(one.whole, unreadable));
  one.items.compositions = one.task->items;
  const auto items = std::ssize(one.task->items);
  return SettledTask{.pictures = one.task->source,
                     .texts = 2 * items,
                     .compositions = items,
                     .excluded = one.task->excluded,
                     .items = &one.items,
                     .clusters = composition_clusters(*one.task),
                     .cluster = "image group"};
}

Status CompositionStudy::measure(const EncodedContext& context) {
  const CompositionTask& task = *datasets_[context.dataset].task;
  std::vector<std::string_view> captions;
  for (const CompositionItem& item : task.items) {
    captions.insert(captions.end(), item.captions.begin(), item.captions.end());
  }
  SACCADE_ASSIGN(const EmbeddedTexts texts, embed_study_texts(context, captions));
  SACCADE_ASSIGN(const auto table, scores_of(texts.rows, context.pictures));
  std::vector<CompositionScores> scores(task.items.size());
  for (size_t i = 0; i < scores.size(); ++i) {
    for (size_t c = 0; c < 2; ++c) {
      for (size_t p = 0; p < (task.two_pictures ? 2U : 1U); ++p) {
        table->score(static_cast<int64_t>(2 * i + c), 1, task.picture_of[i][p], 1, &scores[i][c][p], 1, 1);
      }
    }
  }
  return add_outcome(context, scores);
}

Status CompositionStudy::measure_file(const StudyContext& context, const std::filesystem::path& path) {
  SACCADE_ASSIGN(const auto scores, read_composition_scores(path, *datasets_[context.dataset].task));
  return add_outcome(context, scores).in(path.string());
}

Status CompositionStudy::add_outcome(const StudyContext& context, std::span<const CompositionScores> scores) {
  Judged& one = datasets_[context.dataset];
  SACCADE_ASSIGN(CompositionOutcome outcome,
                 evaluate_compositions(*one.task, scores, options_.bootstrap, context.pool));
  if (context.run != nullptr) {
    SACCADE_TRY(
        add_pairs(*context.run, context.described.name, context.model.name, *one.task, scores, outcome));
  }
  one.outcomes.emplace_back(context.model.name, std::move(outcome));
  return {};
}

Result<Json> CompositionStudy::metrics(std::span<const RunDataset> datasets) const {
  CompositionMetrics metrics;
  for (size_t d = 0; d < datasets_.size(); ++d) {
    const Judged& one = datasets_[d];
    const std::string& name = datasets[d].name;
    add_chance(name, *one.task, one.outcomes.front().second, metrics);
    for (const auto& [model, outcome] : one.outcomes) add_results(name, model, outcome, metrics);
    for (size_t a = 0; a < one.outcomes.size(); ++a) {
      for (size_t b = a + 1; b < one.outcomes.size(); ++b) {
        SACCADE_TRY(add_comparisons(name, one.outcomes[a].first, one.outcomes[a].second,
                                    one.outcomes[b].first, one.outcomes[b].second,
                                    options_.bootstrap.confidence, metrics));
      }
    }
  }
  return record_json(metrics);
}

Result<Evaluation> evaluate_given_compositions(std::span<const std::filesystem::path> files,
                                               const EvaluationOptions& options, ThreadPool& pool) {
  SACCADE_ASSIGN(const std::vector<NamedDataset> datasets, read_datasets(options.datasets));
  CompositionStudy study(options, true);
  for (const NamedDataset& named : datasets) SACCADE_TRY(study.add_dataset(named));
  if (datasets.size() != 1) {
    return fail(ErrorCode::kUsage, "--scores files belong to one --dataset, {} are given", datasets.size());
  }
  SACCADE_ASSIGN(
      std::vector<GivenModel> models,
      given_models(files, [&study](const StudyContext& context, const std::filesystem::path& file) {
        return study.measure_file(context, file);
      }));
  const RunDataset described = describe_dataset(datasets.front());
  return evaluate_given(study, std::span(&described, 1), std::move(models), options, pool);
}

}  // namespace saccade::lab
