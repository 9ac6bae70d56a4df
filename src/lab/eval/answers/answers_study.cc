#include "lab/eval/answers/answers_study.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <unistd.h>

#include <fmt/format.h>

#include "lab/eval/run/record_fields.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;

// A folder for the collection, removed at the end.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::error_code error;
    std::string name = (fs::temp_directory_path(error) / "saccade-answers-XXXXXX").string();
    if (!error && mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

}  // namespace

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

Status AnswersStudy::add_dataset(const NamedDataset& dataset) {
  SACCADE_ASSIGN(const CaptionedImages* images, dataset.dataset.need<CaptionedImages>());
  const bool captions = std::ranges::any_of(images->items, [](const DatasetItem& item) {
    return std::ranges::any_of(item.captions, [](const std::string& text) { return !text.empty(); });
  });
  if (!captions)
    return fail(ErrorCode::kUsage, "{}: no captions: nothing says which hits are right", dataset.name);
  datasets_.push_back({.items = images->items});
  return {};
}

std::vector<ImageRef> AnswersStudy::pictures(size_t dataset) const {
  return image_list(datasets_[dataset].items);
}

Result<SettledTask> AnswersStudy::settle(size_t dataset, std::span<const int64_t> unreadable) {
  Asked& one = datasets_[dataset];
  SettledTask settled;
  for (int64_t i = 0; i < std::ssize(one.items); ++i) {
    if (!std::ranges::binary_search(unreadable, i)) settled.pictures.push_back(i);
  }
  if (settled.pictures.empty()) return fail(ErrorCode::kBadData, "no picture can be read");
  one.task = answers_task(one.items, settled.pictures, answers_);
  if (one.task.present == 0)
    return fail(ErrorCode::kUsage, "no queries: every caption is too common, or has no words");
  settled.texts = std::ssize(one.task.queries);
  settled.clusters = one.task.clusters;
  settled.cluster = "group";
  return settled;
}

Status AnswersStudy::measure(const EncodedContext& context) {
  Asked& one = datasets_[context.dataset];
  AnswersResult result = {.dataset = {}, .model = context.model.name};
  if (context.pictures.late) {
    result.unsupported = "late interaction has no match probabilities, and its answers are not measured";
  } else {
    const ScratchFolder scratch;
    if (scratch.path().empty()) return fail(ErrorCode::kIo, "no temporary folder can be made");
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

Result<Json> AnswersStudy::metrics(std::span<const RunDataset> datasets) const {
  AnswersMetrics metrics;
  for (size_t d = 0; d < datasets_.size(); ++d) {
    for (AnswersResult result : datasets_[d].results) {
      result.dataset = datasets[d].name;
      metrics.results.push_back(std::move(result));
    }
  }
  return record_json(metrics);
}

}  // namespace saccade::lab
