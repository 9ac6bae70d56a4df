#include "lab/eval/answers/answers_study.h"

#include <fmt/format.h>

#include "lab/eval/run/record_fields.h"
#include "saccade/core/files/temporary_folder.h"

namespace saccade::lab {

Json AnswersStudy::protocol() const {
  std::string words = fmt::format(
      "Each dataset becomes a collection in which the first {} of each image's captions are indexed. Queries are the "
      "other captions, and phrases of one, two and three words of captions longer than that; at most {} of each "
      "number of words, and at most {} of an adjective and the noun behind it. Right are the images that have all words of the query in any of their captions; function words and inflection do not count. Queries "
      "come from {} half of the classes. {} queries more ask for everyday things that no caption names. The first {} "
      "hits count, near-duplicates not grouped. Intervals: {} resamples of the classes.",
      answers_.indexed, answers_.each, answers_.attributed, answers_.fitted ? "the fitted" : "the held-out",
      kAbsentQueries, kAnswerDepth, options_.bootstrap.resamples);
  words += fmt::format(" {}", picture_words(options_.embed));
  Json json = {{"description", std::move(words)},
               {"indexed", answers_.indexed},
               {"each", answers_.each},
               {"attributed", answers_.attributed},
               {"half", answers_.fitted ? "fitted" : "held-out"},
               {"leave_out", options_.leave_out}};
  json.update(picture_fields(options_.embed));
  return json;
}

Result<SettledTask> AnswersStudy::settle(size_t dataset, std::span<const int64_t> unreadable) {
  Asked& one = datasets_[dataset];
  SACCADE_ASSIGN(SettledTask settled, readable(one, unreadable));
  one.task = answers_task(one.items, settled.pictures, answers_);
  if (one.task.present == 0)
    return fail(ErrorCode::kUsage, "no queries: every caption is too common, or has no words");
  settled.texts = std::ssize(one.task.queries);
  settled.clusters = one.task.clusters;
  return settled;
}

Status AnswersStudy::measure(const EncodedContext& context) {
  Asked& one = datasets_[context.dataset];
  AnswersResult result = {.dataset = {}, .model = context.model.name};
  if (context.pictures.late) {
    result.unsupported = "late interaction has no match probabilities, and its answers are not measured";
  } else {
    SACCADE_ASSIGN(const TemporaryFolder scratch, TemporaryFolder::make());
    const Matrix<float> rows = mean_rows(context.pictures);
    SACCADE_ASSIGN(MeasuredAnswers measured,
                   measure_answers(one.task, rows.view(), context.encoder, scratch.path() / "collection",
                                   options_.bootstrap, context.pool));
    result.figures = std::move(measured.figures);
    for (AnswerRecord& record : measured.records) {
      if (context.run == nullptr) break;
      record.dataset = context.described.name;
      record.model = context.model.name;
      SACCADE_TRY(context.run->add_line("answers.jsonl", record_json(record)));
    }
  }
  one.results.push_back(std::move(result));
  return {};
}

}  // namespace saccade::lab
