// Quality of generated images. Each stands for the target of an edit query (lab/data/generated.h), and is
// searched for in the query's gallery. The same table holds two baselines that need no engine: the reference
// alone, and the sum of the embeddings of reference and text.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "lab/data/generated.h"
#include "lab/eval/composed/composed_figures.h"
#include "lab/eval/composed/composed_task.h"
#include "lab/eval/edits/edits_metrics.h"
#include "lab/eval/evaluation.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"

namespace saccade::lab {

struct EditsOptions {
  std::filesystem::path generated;  // a folder of `saccade generate edits`, or its list
  ComposedProtocol protocol;        // kEach and kBothOrders are refused: an image belongs to a query
  TiePolicy ties = TiePolicy::kPessimistic;
};

class EditsStudy : public Study {
 public:
  // Borrows both arguments.
  EditsStudy(const EditsOptions& options, const EvaluationOptions& evaluation)
      : options_(options), evaluation_(evaluation) {}

  [[nodiscard]] std::string_view kind() const override { return EditsMetrics::kKind; }
  [[nodiscard]] Json protocol() const override;
  // Adds the dataset. Returns kUsage for a second one, and if no query has both a generated image and a
  // target.
  Status add_dataset(const NamedDataset& dataset) override;
  [[nodiscard]] std::vector<ImageRef> pictures(size_t dataset) const override;
  Result<SettledTask> settle(size_t dataset, std::span<const int64_t> unreadable) override;
  Status measure(const EncodedContext& context) override;
  [[nodiscard]] Result<Json> metrics(std::span<const RunDataset> datasets) const override;

  // Quality by query, for the last checkpoint measured.
  [[nodiscard]] const std::map<std::string, GeneratedQuality>& quality() const { return quality_; }

 private:
  struct Outcome {
    std::string model;
    std::string method;
    CutTexts cut;
    std::vector<ComposedGroup> groups;
  };
  Status add_likeness(const EncodedContext& context, MatrixView<const float> pictures,
                      MatrixView<const float> generated, std::span<const double> generated_rank,
                      std::span<const double> sum_rank);

  const EditsOptions& options_;
  const EvaluationOptions& evaluation_;
  Dataset dataset_;                  // its queries that have an image and a target
  std::vector<ImageRef> generated_;  // [items of dataset_]
  PseudoTargets counts_;
  Json engine_;
  std::optional<ComposedTask> task_;
  std::vector<Outcome> outcomes_;
  std::vector<EditsLikeness> likeness_;  // without the dataset's name
  std::map<std::string, GeneratedQuality> quality_;
};

// Evaluates the folder's images on one dataset. With `note`, quality.jsonl is written into the folder; this
// requires exactly one checkpoint (kUsage).
Result<Evaluation> evaluate_edits(const EditsOptions& edits, bool note, const EvaluationOptions& options,
                                  const CheckpointSource& checkpoints, ThreadPool& pool);

}  // namespace saccade::lab
