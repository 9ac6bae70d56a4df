// Composed search on datasets of edit queries: every way of making one row of a picture and a text, in one table.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/core/words.h"
#include "saccade/eval/composed/composed_figures.h"
#include "saccade/eval/composed/composed_task.h"
#include "saccade/eval/evaluation.h"
#include "saccade/eval/rows/given.h"
#include "saccade/model/compose.h"

namespace saccade {

// How a query's row is made. The first four have nothing to choose. kRawSum adds the rows before they are brought to length
// 1 (RawRows), as BGE-VL's published CLIP checkpoints do.
enum class ComposeBy { kReference, kText, kSum, kRawSum, kWeightedSum, kSlerp, kDirection };
std::span<const EnumWord<ComposeBy>> enum_words(ComposeBy);

struct ComposedOptions {
  ComposedProtocol protocol;
  TiePolicy ties = TiePolicy::kPessimistic;
  std::vector<ComposeBy> methods;  // empty: all that have something of their own to say
  std::optional<double> weight;    // of weighted-sum, slerp and direction; none: compose.h's defaults
  // A dataset (as parse_dataset_source takes it) on which each checkpoint's weights are chosen, by r10; empty: none.
  std::string choose_on;
  std::filesystem::path server_files;  // a folder to write them into; empty: none
};

class ComposedStudy : public Study {
 public:
  // Both are borrowed. `given`: rows come from files, and queries are asked in their own wording alone.
  ComposedStudy(const ComposedOptions& options, const EvaluationOptions& evaluation, bool given = false)
      : options_(options), evaluation_(evaluation), given_(given) {}

  [[nodiscard]] std::string_view kind() const override { return "composed"; }
  [[nodiscard]] Json protocol() const override;
  // kUsage for datasets of another sort, for one that weights are chosen on and that is measured too, and for one without
  // targets where no server files are written.
  Status add_dataset(const NamedDataset& dataset) override;
  [[nodiscard]] std::vector<ImageRef> pictures(size_t dataset) const override;
  Result<SettledTask> settle(size_t dataset, std::span<const int64_t> unreadable) override;
  Status measure(const EncodedContext& context) override;
  // The same for rows of a file: "query_embeds" [queries, dim], "gallery_embeds" [pictures, dim], in the dataset's order.
  Status measure_file(const StudyContext& context, const std::filesystem::path& path, Similarity similarity);
  [[nodiscard]] Result<Json> metrics(std::span<const RunDataset> datasets) const override;

 private:
  struct Outcome {
    std::string model;
    std::string method;
    std::optional<double> weight;
    std::string weight_from;
    CutTexts cut;
    std::vector<ComposedGroup> groups;
  };
  struct Measured {
    Dataset dataset;
    std::optional<ComposedTask> task;
    std::vector<Outcome> outcomes;
  };
  // What a query's row is made of: [asked, dim] each; `was` of direction; the raw ones, of raw-sum, are empty where the
  // encoder has none.
  struct Parts {
    Matrix<float> pictures;
    Matrix<float> texts;
    Matrix<float> was;
    Matrix<float> raw_pictures;
    Matrix<float> raw_texts;
  };
  struct Chosen {
    std::string model;
    ComposeBy method = ComposeBy::kSum;
    double weight = 0;
    double r10 = 0;
  };

  [[nodiscard]] bool chooses(size_t dataset) const { return !options_.choose_on.empty() && dataset == 0; }
  [[nodiscard]] std::vector<ComposeBy> methods() const;
  [[nodiscard]] std::pair<double, std::string> weight_of(ComposeBy method, const std::string& model) const;
  Result<Parts> encode_parts(const EncodedContext& context, const ComposedTask& task, CutTexts& cut) const;
  // Fills the raw rows, where they are asked for and there are such.
  Status encode_raw_parts(const EncodedContext& context, const ComposedTask& task, Parts& parts) const;
  [[nodiscard]] static Result<Matrix<float>> query_rows(ComposeBy method, double weight, const Parts& parts,
                                                        ThreadPool& pool);
  Status choose(const StudyContext& context, const ComposedTask& task, const Parts& parts,
                MatrixView<const float> pictures, ComposeBy method);
  Status add_outcome(const StudyContext& context, MatrixView<const float> asked,
                     MatrixView<const float> pictures, Outcome outcome);
  [[nodiscard]] Status write_server_files(const StudyContext& context, const ComposedTask& task,
                                          std::span<const ComposedAnswer> answers,
                                          const std::string& method) const;

  const ComposedOptions& options_;
  const EvaluationOptions& evaluation_;
  const bool given_;
  std::vector<Measured> datasets_;
  std::string chosen_on_;  // the dataset's name
  std::vector<Chosen> chosen_;
};

// evaluate() with the dataset that weights are chosen on in front of the others.
Result<Evaluation> evaluate_composed(const ComposedOptions& composed, EvaluationOptions options,
                                     const CheckpointSource& checkpoints, ThreadPool& pool);

// Files of rows in place of checkpoints; each stands for one. kUsage for other than one dataset, for choosing weights, and
// where each text is asked alone; kMismatch where a file has other counts than the dataset.
Result<Evaluation> evaluate_given_composed(std::span<const std::filesystem::path> files,
                                           Similarity similarity, const ComposedOptions& composed,
                                           const EvaluationOptions& options, ThreadPool& pool);

}  // namespace saccade
