// The study of match probabilities (matches.h), on the framework of lab/eval/evaluation.h. It tests whether
// the displayed probabilities are calibrated, and whether "nothing matches" is said if there is no match.
#pragma once

#include <cstdint>
#include <span>

#include "lab/eval/captioned_study.h"
#include "lab/eval/matches/matches.h"
#include "saccade/core/error.h"

namespace saccade::lab {

struct MatchOptions {
  int64_t texts = 1024;  // learned from: caption's words and parts, and everyday words
  uint64_t seed = 0;     // seed of the split into halves
};

class MatchStudy : public CaptionedStudy<MatchTask, MatchesMetrics> {
 public:
  // Borrows `options`.
  MatchStudy(const EvaluationOptions& options, MatchOptions match) : CaptionedStudy(options), match_(match) {}

  [[nodiscard]] Json protocol() const override;
  Result<SettledTask> settle(size_t dataset, std::span<const int64_t> unreadable) override;
  Status measure(const EncodedContext& context) override;

 private:
  Result<MatchFigures> measure_texts(const EncodedContext& context, const MatchTask& task,
                                     const Matrix<float>& rows) const;
  Result<MatchFigures> measure_pictures(const EncodedContext& context, const MatchTask& task,
                                        const Matrix<float>& rows) const;

  MatchOptions match_;
};

}  // namespace saccade::lab
