// The study of match probabilities (matches.h), on the framework of lab/eval/evaluation.h. It tests whether
// the displayed probabilities are calibrated, and whether "nothing matches" is said if there is no match.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lab/eval/evaluation.h"
#include "lab/eval/matches/matches.h"
#include "saccade/core/error.h"

namespace saccade::lab {

struct MatchOptions {
  int64_t texts = 1024;  // learned from: caption's words and parts, and everyday words
  uint64_t seed = 0;     // seed of the split into halves
};

class MatchStudy : public Study {
 public:
  // Borrows `options`.
  MatchStudy(const EvaluationOptions& options, MatchOptions match) : options_(options), match_(match) {}

  [[nodiscard]] std::string_view kind() const override { return MatchesMetrics::kKind; }
  [[nodiscard]] Json protocol() const override;
  // Adds a dataset. Returns kUsage for tests of composition, and for a dataset without captions.
  Status add_dataset(const NamedDataset& dataset) override;
  [[nodiscard]] std::vector<ImageRef> pictures(size_t dataset) const override;
  Result<SettledTask> settle(size_t dataset, std::span<const int64_t> unreadable) override;
  Status measure(const EncodedContext& context) override;
  [[nodiscard]] Result<Json> metrics(std::span<const RunDataset> datasets) const override;

 private:
  struct Judged {
    std::vector<DatasetItem> items;
    MatchTask task = {};
    std::vector<MatchesResult> results = {};  // without the dataset's name
  };
  Result<MatchFigures> measure_texts(const EncodedContext& context, const MatchTask& task,
                                     const Matrix<float>& rows) const;
  Result<MatchFigures> measure_pictures(const EncodedContext& context, const MatchTask& task,
                                        const Matrix<float>& rows) const;

  const EvaluationOptions& options_;
  MatchOptions match_;
  std::vector<Judged> datasets_;
};

}  // namespace saccade::lab
