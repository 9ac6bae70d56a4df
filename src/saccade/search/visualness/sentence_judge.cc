#include "saccade/search/visualness/sentence_judge.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "saccade/model/visualness.h"
#include "saccade/search/visualness/lexicon.h"

namespace saccade {
namespace {

constexpr size_t kBatch = 64;

template <typename Score>
void judge_by_words(SentenceJudge& judge, Score score) {
  judge.scores = [score](std::span<const std::string> texts, int64_t&) -> Result<std::vector<double>> {
    std::vector<double> scores;
    for (const std::string& text : texts) {
      SACCADE_ASSIGN(scores.emplace_back(), score(text));
    }
    return scores;
  };
}

Result<SentenceJudge> judge_by_lists(const JudgeOptions& options) {
  SentenceJudge judge;
  judge.threshold_given = options.threshold.has_value();
  if (!options.lexicon.empty()) {
    SACCADE_ASSIGN(Lexicon read, read_lexicon(options.lexicon).in("--lexicon"));
    judge.method = "lexicon";
    judge.name = read.what;
    judge.threshold = options.threshold.value_or(kLexiconThreshold);
    auto lexicon = std::make_shared<const Lexicon>(std::move(read));
    judge_by_words(judge, [lexicon](const std::string& text) -> Result<double> {
      SACCADE_ASSIGN(const std::vector<std::string> words, unique_words(text));
      return mean_rating(*lexicon, words);
    });
    return judge;
  }
  const bool everyday = options.objects.empty();
  judge.method = everyday ? "everyday_words" : "objects";
  judge.name = everyday ? "the program's everyday words" : options.objects.string();
  judge.threshold = options.threshold.value_or(kObjectsThreshold);
  SACCADE_ASSIGN(ObjectList read,
                 everyday ? everyday_objects() : read_object_list(options.objects).in("--objects"));
  auto list = std::make_shared<const ObjectList>(std::move(read));
  judge_by_words(judge, [list](const std::string& text) { return object_share(*list, text); });
  return judge;
}

}  // namespace

Result<SentenceJudge> sentence_judge(const JudgeOptions& options, const ProgressCallback& progress,
                                     const std::stop_token& stop) {
  if (!options.lexicon.empty() || !options.objects.empty()) return judge_by_lists(options);
  const LoadedEncoder& loaded = options.other != nullptr ? *options.other : *options.own;
  SACCADE_ASSIGN(const auto kept, read_kept_visualness(loaded.id.path, loaded.encoder->info().fingerprint));
  SentenceJudge judge;
  judge.threshold_given = options.threshold.has_value();
  judge.name = loaded.id.name;
  std::vector<float> null_row;
  if (loaded.encoder->text_classifier() != nullptr) {
    judge.method = "classifier";
    judge.threshold = options.threshold.value_or(kVisualProbability);
  } else if (kept) {
    judge.method = "checkpoint";
    judge.threshold = options.threshold.value_or(kept->threshold);
    null_row = kept->null_row;
  } else if (options.other == nullptr) {
    return judge_by_lists(options);
  } else if (options.threshold) {
    judge.method = "null_image";
    judge.threshold = *options.threshold;
    SACCADE_ASSIGN(null_row, null_picture_row(*loaded.encoder, NullPicture()));
  } else {
    return fail(
        ErrorCode::kUsage,
        "--visualness {}: not trained to tell what a text pictures: `saccade train visualness` makes a checkpoint "
        "that is; with --threshold it is taken as it is",
        loaded.id.name);
  }
  judge.scores = [encoder = loaded.encoder.get(), null_row = std::move(null_row), progress, stop](
                     std::span<const std::string> texts, int64_t& cut) {
    return visualness_of(*encoder, null_row, texts, cut, progress, stop);
  };
  return judge;
}

Result<std::vector<double>> visualness_of(EncoderBackend& encoder, std::span<const float> null_row,
                                          std::span<const std::string> texts, int64_t& cut,
                                          const ProgressCallback& progress, const std::stop_token& stop) {
  if (encoder.tokenizer() == nullptr) {
    return fail(ErrorCode::kUnsupported, "the checkpoint has no tokenizer files, so it reads no texts");
  }
  std::vector<double> scores;
  scores.reserve(texts.size());
  for (size_t first = 0; first < texts.size(); first += kBatch) {
    if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "asked to stop");
    std::vector<TokenizedText> batch;
    for (const std::string& text : texts.subspan(first, std::min(texts.size() - first, kBatch))) {
      batch.push_back(encoder.tokenizer()->encode(text, encoder.info().context));
      if (batch.back().dropped > 0) ++cut;
    }
    std::vector<double> of_batch;
    if (TextClassifier* classifier = encoder.text_classifier(); classifier != nullptr) {
      SACCADE_ASSIGN(of_batch, visual_probabilities(*classifier, batch));
    } else {
      SACCADE_ASSIGN(const Matrix<float> rows, encoder.encode_texts(batch));
      of_batch = visualness_scores(null_row, rows.view());
    }
    scores.insert(scores.end(), of_batch.begin(), of_batch.end());
    if (progress) progress({"judging sentences", std::ssize(scores), std::ssize(texts), ""});
  }
  return scores;
}

}  // namespace saccade
