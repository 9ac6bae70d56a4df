// Classifier of visual sentences. It uses a checkpoint trained for the task, any encoder with a threshold
// given by the user, or lists of words (docs/illustrate.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/model/checkpoints/locate.h"
#include "saccade/model/encoder_backend.h"
#include "saccade/progress.h"

namespace saccade {

// Thresholds on the share of a sentence's words that name objects, and on their mean rating. They give the
// best F1 on texts of other sources than those they were then measured on (docs/illustrate.md).
inline constexpr double kObjectsThreshold = 0.15;
inline constexpr double kLexiconThreshold = 0.42;

struct JudgeOptions {
  const LoadedEncoder* own = nullptr;  // the collection's
  // Asked for by the user, in place of `own`; one of the three below at most.
  const LoadedEncoder* other = nullptr;
  std::filesystem::path lexicon;  // ratings of words
  std::filesystem::path objects;  // names of things
  std::optional<double> threshold;
};

// Scores and threshold; a sentence above it pictures something.
struct SentenceJudge {
  std::string method;  // "checkpoint", "classifier", "null_image", "lexicon", "objects", "everyday_words"
  std::string name;    // the checkpoint's or the list's, for people
  double threshold = 0;
  bool threshold_given = false;
  // A score each; adds to `cut` the texts that are longer than the encoder reads.
  std::function<Result<std::vector<double>>(std::span<const std::string> texts, int64_t& cut)> scores;
};

// Creates the judge. It uses the lists or the encoder in the options, else the collection's own encoder if
// that was trained for visualness, else the program's everyday words. Encoders are borrowed by the result.
// kUsage for another encoder that was not trained for it, without a threshold; errors of reading the lists.
Result<SentenceJudge> sentence_judge(const JudgeOptions& options, const ProgressCallback& progress,
                                     const std::stop_token& stop);

// Returns S = 1 - <I_null, T> of each text (model/visualness.h); `null_row` has the encoder's width. A text
// classifier returns the probability of its visual class. kUnsupported for encoders that read no texts,
// kCancelled. Encodes 64 texts at a time. The number of truncated texts is added to `cut`.
Result<std::vector<double>> visualness_of(EncoderBackend& encoder, std::span<const float> null_row,
                                          std::span<const std::string> texts, int64_t& cut,
                                          const ProgressCallback& progress = {},
                                          const std::stop_token& stop = {});

}  // namespace saccade
