// Composed search on datasets of edit queries: every way of making one row of a
// picture and a text, in one table.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/core/enum_names.h"
#include "lab/eval/composed/composed_figures.h"
#include "lab/eval/composed/composed_task.h"
#include "lab/eval/evaluation.h"
#include "lab/eval/rows/given.h"
#include "saccade/model/composers/compose.h"
#include "saccade/model/composers/composer.h"

namespace saccade::lab {

// How a query's row is made. The first four have nothing to choose. kRawSum adds the rows before they are
// brought to length 1 (RawRows), as BGE-VL's published CLIP checkpoints do.
enum class ComposeBy { kReference, kText, kSum, kRawSum, kWeightedSum, kSlerp, kDirection };
std::span<const EnumName<ComposeBy>> enum_names(ComposeBy);

struct ComposedOptions {
  ComposedProtocol protocol = {};
  TiePolicy ties = TiePolicy::kPessimistic;
  std::vector<ComposeBy> methods = {};  // empty: all that have something of their own to say
  std::optional<double> weight = {};    // of weighted-sum, slerp and direction; none: compose.h's defaults
  // Folders of trained composers. Each is measured on the checkpoint that it
  // names, which joins those asked for.
  std::vector<std::filesystem::path> composers = {};
  // Thresholds at which composers that have one ("tau" among their options) are measured; the one that is
  // taken is the composer's own, or where there is a dataset to choose on the best there.
  std::vector<double> taus = {};
  // How alike the tokens are of this many queries, drawn by the seed (token_similarities); 0: not measured.
  int64_t token_queries = 0;
  std::filesystem::path generated =
      {};  // pictures made for the queries (lab/data/generated.h), for a report to show; empty: none
  // A dataset (as parse_dataset_source takes it) on which each checkpoint's weights
  // are chosen, by r10; empty: none.
  std::string choose_on = {};
  std::filesystem::path server_files = {};  // a folder to write them into; empty: none
};

// A composer that is measured, under a name that no other has.
struct MeasuredComposer {
  std::string name;
  std::filesystem::path folder;
  std::unique_ptr<Composer> composer;
  BackendOptions options;  // that it was opened with
};
// kBadData and kUnsupported as Composer::open; names are those of the folders.
Result<std::vector<MeasuredComposer>> open_composers(std::span<const std::filesystem::path> folders,
                                                     const BackendOptions& options);

class ComposedStudy : public Study {
 public:
  // All are borrowed. `given`: rows come from files, and queries are asked in their own wording alone.
  ComposedStudy(const ComposedOptions& options, const EvaluationOptions& evaluation,
                std::span<const MeasuredComposer> composers = {}, bool given = false)
      : options_(options), evaluation_(evaluation), composers_(composers), given_(given) {}

  [[nodiscard]] std::string_view kind() const override { return "composed"; }
  [[nodiscard]] Json protocol() const override;
  // kUsage for datasets of another sort, for one that weights are chosen on and that is measured too, and for
  // one without targets where no server files are written.
  Status add_dataset(const NamedDataset& dataset) override;
  [[nodiscard]] std::vector<ImageRef> pictures(size_t dataset) const override;
  Result<SettledTask> settle(size_t dataset, std::span<const int64_t> unreadable) override;
  Status measure(const EncodedContext& context) override;
  // The same for rows of a file: "query_embeds" [queries, dim], "gallery_embeds"
  // [pictures, dim], in the dataset's order.
  Status measure_file(const StudyContext& context, const std::filesystem::path& path, Similarity similarity);
  [[nodiscard]] Result<Json> metrics(std::span<const RunDataset> datasets) const override;

 private:
  struct Outcome {
    std::string model;
    std::string method;
    std::optional<double> weight;
    std::string weight_from;
    const MeasuredComposer* composer = nullptr;  // that made the rows; nullptr: none
    std::optional<double> tau;
    std::optional<double> matched;  // share of the texts' tokens that met one of the reference's
    CutTexts cut;
    std::vector<ComposedGroup> groups;
  };
  struct Measured {
    Dataset dataset;
    std::optional<ComposedTask> task;
    RunItems items;  // the task's pictures, and behind them those that were generated
    std::vector<std::optional<size_t>> generated;  // [the task's queries]: number of the picture in `items`
    std::vector<Outcome> outcomes;
    Json curves = Json::array();        // recall against tau
    Json similarities = Json::array();  // token_similarities, by checkpoint
  };
  // What a query's row is made of: [asked, dim] each; `was` of direction; the raw ones, of raw-sum, are
  // empty where the encoder has none.
  struct Parts {
    Matrix<float> pictures;
    Matrix<float> texts;
    Matrix<float> was;
    Matrix<float> raw_pictures;
    Matrix<float> raw_texts;
  };
  struct Chosen {
    std::string model;
    std::string method;
    double weight = 0;  // of a composer its tau
    double r10 = 0;
  };

  [[nodiscard]] bool chooses(size_t dataset) const { return !options_.choose_on.empty() && dataset == 0; }
  [[nodiscard]] std::vector<ComposeBy> methods() const;
  [[nodiscard]] std::pair<double, std::string> weight_of(ComposeBy method, const std::string& model) const;
  [[nodiscard]] const Chosen* chosen_of(const std::string& model, std::string_view method) const;
  // Every composer of the context's encoder.
  Status measure_composers(const EncodedContext& context, const ComposedTask& task, const CutTexts& cut,
                           MatrixView<const float> pictures);
  Status measure_composer(const EncodedContext& context, const ComposedTask& task, const CutTexts& cut,
                          MatrixView<const float> pictures, const MeasuredComposer& measured);
  Status measure_similarities(const EncodedContext& context, const ComposedTask& task);
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
  std::span<const MeasuredComposer> composers_;
  const bool given_;
  std::vector<Measured> datasets_;
  std::string chosen_on_;  // the dataset's name
  std::vector<Chosen> chosen_;
};

// evaluate() with the dataset that weights are chosen on in front of the others, and the checkpoints that
// composers name behind those asked for. kUsage for neither checkpoint nor composer.
Result<Evaluation> evaluate_composed(const ComposedOptions& composed, EvaluationOptions options,
                                     const BackendOptions& encoder, ThreadPool& pool);

// Files of rows in place of checkpoints; each stands for one. kUsage for other than one dataset, for choosing
// weights, and where each text is asked alone; kMismatch where a file has other counts than the dataset.
Result<Evaluation> evaluate_given_composed(std::span<const std::filesystem::path> files,
                                           Similarity similarity, const ComposedOptions& composed,
                                           const EvaluationOptions& options, ThreadPool& pool);

}  // namespace saccade::lab
