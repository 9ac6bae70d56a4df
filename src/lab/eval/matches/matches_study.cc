#include "lab/eval/matches/matches_study.h"

#include <numeric>

#include <fmt/format.h>

#include "lab/eval/run/record_fields.h"
#include "saccade/core/rows.h"

namespace saccade::lab {
Json MatchStudy::protocol() const {
  std::string words = fmt::format(
      "Classes (an image's group, or itself) are split into halves. Likelihoods are learned from {} queries: words "
      "and parts of the captions of one half, and everyday words; right is what has all words of the query in its "
      "captions. The other half is asked: each image's first caption, and each image itself, at most {}; right "
      "is its class and what has all words of its first caption. Each is asked of all images, and with all that "
      "is right taken away. The first {} hits count. Intervals: {} resamples of the classes.",
      match_.texts, kMostAsked, kJudgedHits, options_.bootstrap.resamples);
  words += fmt::format(" {}", picture_words(options_.embed));
  Json json = {{"description", std::move(words)},
               {"texts", match_.texts},
               {"halves_seed", match_.seed},
               {"leave_out", options_.leave_out}};
  json.update(picture_fields(options_.embed));
  return json;
}

Result<SettledTask> MatchStudy::settle(size_t dataset, std::span<const int64_t> unreadable) {
  Asked& one = datasets_[dataset];
  SACCADE_ASSIGN(SettledTask settled, readable(one, unreadable));
  one.task = match_task(one.items, settled.pictures, match_.seed);
  settled.texts = match_.texts + std::ssize(asked_texts(one.task).texts);
  settled.clusters =
      one.task.classes - std::accumulate(one.task.learned.begin(), one.task.learned.end(), int64_t{0});
  return settled;
}

Result<MatchFigures> MatchStudy::measure_texts(const EncodedContext& context, const MatchTask& task,
                                               const Matrix<float>& rows) const {
  const MatchQueries learned = learned_texts(task, match_.texts);
  const MatchQueries asked = asked_texts(task);
  std::vector<std::string_view> texts(learned.texts.begin(), learned.texts.end());
  texts.insert(texts.end(), asked.texts.begin(), asked.texts.end());
  SACCADE_ASSIGN(const EmbeddedTexts embedded, embed_study_texts(context, texts));
  const Matrix<float> all = mean_rows(embedded.rows);
  std::vector<int64_t> numbers(texts.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  const auto split = static_cast<std::ptrdiff_t>(learned.texts.size());
  return measure_matches(rows.view(), learned,
                         select_rows(all.view(), std::span(numbers).first(learned.texts.size())), asked,
                         select_rows(all.view(), std::span(numbers).subspan(static_cast<size_t>(split))),
                         double{context.encoder.info().logit_scale}, options_.bootstrap, context.pool);
}

Result<MatchFigures> MatchStudy::measure_pictures(const EncodedContext& context, const MatchTask& task,
                                                  const Matrix<float>& rows) const {
  const MatchQueries learned = learned_pictures(task);
  const MatchQueries asked = asked_pictures(task);
  return measure_matches(rows.view(), learned, select_rows(rows.view(), learned.itself), asked,
                         select_rows(rows.view(), asked.itself), double{context.encoder.info().logit_scale},
                         options_.bootstrap, context.pool);
}

Status MatchStudy::measure(const EncodedContext& context) {
  Asked& one = datasets_[context.dataset];
  MatchesResult result = {.dataset = {}, .model = context.model.name, .classes = one.task.classes};
  if (context.pictures.late) {
    result.unsupported =
        "scores of late interaction are not calibrated: they grow with the number of the text's tokens";
  } else {
    const Matrix<float> rows = mean_rows(context.pictures);
    SACCADE_ASSIGN(result.texts, measure_texts(context, one.task, rows));
    SACCADE_ASSIGN(result.pictures, measure_pictures(context, one.task, rows));
  }
  one.results.push_back(std::move(result));
  return {};
}

}  // namespace saccade::lab
