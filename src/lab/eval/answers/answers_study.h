// The study of whole answers (answers.h), on the framework of lab/eval/evaluation.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lab/eval/answers/answers.h"
#include "lab/eval/evaluation.h"
#include "saccade/core/error.h"

namespace saccade::lab {

class AnswersStudy : public Study {
 public:
  // Borrows `options`.
  AnswersStudy(const EvaluationOptions& options, AnswersOptions answers)
      : options_(options), answers_(answers) {}

  [[nodiscard]] std::string_view kind() const override { return AnswersMetrics::kKind; }
  [[nodiscard]] Json protocol() const override;
  // Adds a dataset. Returns kUsage for tests of composition, and for a dataset without captions.
  Status add_dataset(const NamedDataset& dataset) override;
  [[nodiscard]] std::vector<ImageRef> pictures(size_t dataset) const override;
  Result<SettledTask> settle(size_t dataset, std::span<const int64_t> unreadable) override;
  Status measure(const EncodedContext& context) override;
  [[nodiscard]] Result<Json> metrics(std::span<const RunDataset> datasets) const override;

 private:
  struct Asked {
    std::vector<DatasetItem> items;
    AnswersTask task = {};
    std::vector<AnswersResult> results = {};  // without the dataset's name
  };

  const EvaluationOptions& options_;
  AnswersOptions answers_;
  std::vector<Asked> datasets_;
};

}  // namespace saccade::lab
