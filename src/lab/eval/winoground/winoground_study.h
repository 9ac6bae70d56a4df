// The study of composition (winoground.h), on the framework of lab/eval/evaluation.h: whether models
// distinguish captions of the same words by their images.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lab/eval/evaluation.h"
#include "lab/eval/winoground/winoground.h"
#include "saccade/core/error.h"

namespace saccade::lab {

class CompositionStudy : public Study {
 public:
  // Borrows `options`. `given`: the scores were computed elsewhere.
  explicit CompositionStudy(const EvaluationOptions& options, bool given = false)
      : options_(options), given_(given) {}

  [[nodiscard]] std::string_view kind() const override { return CompositionMetrics::kKind; }
  [[nodiscard]] Json protocol() const override;
  Status add_dataset(const NamedDataset& dataset) override;
  [[nodiscard]] std::vector<ImageRef> pictures(size_t dataset) const override;
  Result<SettledTask> settle(size_t dataset, std::span<const int64_t> unreadable) override;
  Status measure(const EncodedContext& context) override;
  // Measures scores of all the dataset's items, from a file (read_composition_scores).
  Status measure_file(const StudyContext& context, const std::filesystem::path& path);
  [[nodiscard]] Result<Json> metrics(std::span<const RunDataset> datasets) const override;

 private:
  struct Judged {
    CompositionTask whole;  // before images were left out
    std::optional<CompositionTask> task = {};
    RunItems items = {};
    std::vector<std::pair<std::string, CompositionOutcome>> outcomes = {};  // by model
  };
  Status add_outcome(const StudyContext& context, std::span<const CompositionScores> scores);

  const EvaluationOptions& options_;
  bool given_;
  std::vector<Judged> datasets_;
};

// Evaluates other programs' files. Returns kUsage if `options` does not name exactly one dataset; the errors
// of read_composition_scores and of evaluate_given.
Result<Evaluation> evaluate_given_compositions(std::span<const std::filesystem::path> files,
                                               const EvaluationOptions& options, ThreadPool& pool);

}  // namespace saccade::lab
