// The study of whole answers (answers.h), on the framework of lab/eval/evaluation.h.
#pragma once

#include <span>

#include "lab/eval/answers/answers.h"
#include "lab/eval/captioned_study.h"
#include "saccade/core/error.h"

namespace saccade::lab {

class AnswersStudy : public CaptionedStudy<AnswersTask, AnswersMetrics> {
 public:
  // Borrows `options`.
  AnswersStudy(const EvaluationOptions& options, AnswersOptions answers)
      : CaptionedStudy(options), answers_(answers) {}

  [[nodiscard]] Json protocol() const override;
  Result<SettledTask> settle(size_t dataset, std::span<const int64_t> unreadable) override;
  Status measure(const EncodedContext& context) override;

 private:
  AnswersOptions answers_;
};

}  // namespace saccade::lab
