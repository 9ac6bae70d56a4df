// Study of composed search on datasets of edit queries. It compares all methods that compose one embedding
// from an image and a text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lab/eval/composed/composed_figures.h"
#include "lab/eval/composed/composed_task.h"
#include "lab/eval/evaluation.h"
#include "lab/eval/rows/given.h"
#include "saccade/core/enum_names.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/model/composers/compose_embeddings.h"
#include "saccade/model/composers/composer.h"

namespace saccade::lab {

// Method that composes a query's embedding. The first four have no weight to choose. kRawSum adds the
// embeddings before normalization (RawRows), as BGE-VL's published CLIP checkpoints do.
enum class ComposeBy { kReference, kText, kSum, kRawSum, kWeightedSum, kSlerp, kDirection };
std::span<const EnumName<ComposeBy>> enum_names(ComposeBy);

// A training of composers, or one of its ablations: the same options, trained with several seeds.
struct ComposedVariant {
  std::string name = {};
  std::string changed = {};  // as ComposedAblation::changed
  std::vector<uint64_t> seeds = {};
  std::vector<std::filesystem::path> composers = {};  // folders, one for each seed

  // Returns the name of the composer of a seed.
  [[nodiscard]] std::string name_of(size_t seed) const;
};

struct ComposedOptions {
  ComposedProtocol protocol = {};
  TiePolicy ties = TiePolicy::kPessimistic;
  std::vector<ComposeBy> methods = {};  // empty: all that have something of their own to say
  std::optional<double> weight = {};    // of weighted-sum, slerp and direction; default: compose.h's
  // Folders of trained composers. Each is measured on the checkpoint that it names, which is added to the
  // requested checkpoints.
  std::vector<std::filesystem::path> composers = {};
  // Trainings to compare, the full one first. Their composers are measured beside `composers`, under the
  // trainings' names.
  std::vector<ComposedVariant> variants = {};
  // Thresholds to measure for composers that have one ("tau" among their options). The reported one is the
  // composer's own, or the best on the `choose_on` dataset if one is given.
  std::vector<double> taus = {};
  // Number of queries, drawn with the seed, whose token similarities are measured (token_similarities); 0
  // disables this.
  int64_t token_queries = 0;
  std::filesystem::path generated =
      {};  // images made for the queries (lab/data/generated.h), for a report to show; empty: none
  // Dataset (as parse_dataset_source takes it) on which each checkpoint's weights are chosen by r10. Empty
  // for none.
  std::string choose_on = {};
  std::filesystem::path server_files = {};  // folder for the submission files; empty: none are written
};

// A composer to measure, under a unique name.
struct MeasuredComposer {
  std::string name;
  std::filesystem::path folder;
  std::unique_ptr<Composer> composer;
  BackendOptions options;  // options of its encoder
};
// Opens the composers of the options' variants, and then the others, which are named by their folders. Returns kBadData and
// kUnsupported as Composer::open.
Result<std::vector<MeasuredComposer>> open_composers(const ComposedOptions& composed,
                                                     const BackendOptions& options);

class ComposedStudy : public Study {
 public:
  // Borrows all arguments. If `given`, embeddings come from files, and queries are asked in their original
  // wording alone.
  ComposedStudy(const ComposedOptions& options, const EvaluationOptions& evaluation,
                std::span<const MeasuredComposer> composers = {}, bool given = false)
      : options_(options), evaluation_(evaluation), composers_(composers), given_(given) {}

  [[nodiscard]] std::string_view kind() const override { return ComposedMetrics::kKind; }
  [[nodiscard]] Json protocol() const override;
  // Adds a dataset. Returns kUsage for a dataset of another kind, for one that is used both to choose weights
  // and to measure, and for one without targets if no server files are written.
  Status add_dataset(const NamedDataset& dataset) override;
  [[nodiscard]] std::vector<ImageRef> pictures(size_t dataset) const override;
  Result<SettledTask> settle(size_t dataset, std::span<const int64_t> unreadable) override;
  Status measure(const EncodedContext& context) override;
  // Measures the embeddings of a file: "query_embeds" [queries, dim] and "gallery_embeds" [pictures, dim], in
  // the dataset's order.
  Status measure_file(const StudyContext& context, const std::filesystem::path& path, Similarity similarity);
  [[nodiscard]] Result<Json> metrics(std::span<const RunDataset> datasets) const override;

 private:
  struct Outcome {
    std::string model;
    std::string method;
    std::optional<double> weight;
    std::string weight_from;
    const MeasuredComposer* composer = nullptr;  // composer of the embeddings; nullptr: none
    std::optional<double> tau;
    std::optional<double> matched;  // share of the texts' tokens that met one of the reference's
    CutTexts cut;
    std::vector<ComposedGroup> groups;
  };
  struct Measured {
    Dataset dataset;
    std::optional<ComposedTask> task;
    RunItems items;  // the task's images, and behind them those that were generated
    std::vector<std::optional<size_t>> generated;  // [the task's queries]: number of the image in `items`
    std::vector<Outcome> outcomes;
    std::vector<TauPoint> curves;                 // without the dataset's name
    std::vector<TokenSimilarities> similarities;  // by checkpoint, without the dataset's name
  };
  // Parts of the query embeddings, [asked, dim] each. `was` is used by direction. The raw ones, for raw-sum,
  // are empty if the encoder has none.
  struct Parts {
    Matrix<float> pictures;
    Matrix<float> texts;
    Matrix<float> was;
    Matrix<float> raw_pictures;
    Matrix<float> raw_texts;
  };

  [[nodiscard]] bool chooses(size_t dataset) const { return !options_.choose_on.empty() && dataset == 0; }
  [[nodiscard]] std::vector<ComposeBy> methods() const;
  [[nodiscard]] std::pair<double, std::string> weight_of(ComposeBy method, const std::string& model) const;
  [[nodiscard]] const ComposedChoice* chosen_of(const std::string& model, std::string_view method) const;
  // Measures every composer of the context's encoder.
  Status measure_composers(const EncodedContext& context, const ComposedTask& task, const CutTexts& cut,
                           MatrixView<const float> pictures);
  Status measure_composer(const EncodedContext& context, const ComposedTask& task, const CutTexts& cut,
                          MatrixView<const float> pictures, const MeasuredComposer& measured);
  Status measure_similarities(const EncodedContext& context, const ComposedTask& task);
  Result<Parts> encode_parts(const EncodedContext& context, const ComposedTask& task, CutTexts& cut) const;
  // Fills the raw embeddings if they are requested and the encoder has them.
  Status encode_raw_parts(const EncodedContext& context, const ComposedTask& task, Parts& parts) const;
  [[nodiscard]] static Result<Matrix<float>> query_rows(ComposeBy method, double weight, const Parts& parts,
                                                        ThreadPool& pool);
  Status choose(const StudyContext& context, const ComposedTask& task, const Parts& parts,
                MatrixView<const float> pictures, ComposeBy method);
  // Ranks `pictures` for the rows `asked`, and adds the result. Pictures: a MatrixView or EmbeddedRows.
  template <typename Pictures>
  Status add_outcome(const StudyContext& context, MatrixView<const float> asked, const Pictures& pictures,
                     Outcome outcome);
  // Adds a dataset's figures of every variant, and their differences to those of the first and of the untrained methods.
  [[nodiscard]] Status compare_variants(const Measured& measured, const std::string& dataset,
                                        ComposedMetrics& metrics) const;
  [[nodiscard]] Status write_server_files(const StudyContext& context, const ComposedTask& task,
                                          std::span<const ComposedAnswer> answers,
                                          const std::string& method) const;

  const ComposedOptions& options_;
  const EvaluationOptions& evaluation_;
  std::span<const MeasuredComposer> composers_;
  const bool given_;
  std::vector<Measured> datasets_;
  std::string chosen_on_;  // the dataset's name
  std::vector<ComposedChoice> chosen_;
};

// Runs evaluate() with the dataset for choosing weights in front of the others, and the composers'
// checkpoints behind the requested ones. Returns kUsage if neither checkpoints nor composers are given.
Result<Evaluation> evaluate_composed(const ComposedOptions& composed, EvaluationOptions options,
                                     const BackendOptions& encoder, ThreadPool& pool);

// Evaluates files of embeddings in place of checkpoints. Errors: kUsage for other than one dataset, for
// choosing weights, and if each text is asked alone; kMismatch if a file has other counts than the dataset.
Result<Evaluation> evaluate_given_composed(std::span<const std::filesystem::path> files,
                                           Similarity similarity, const ComposedOptions& composed,
                                           const EvaluationOptions& options, ThreadPool& pool);

}  // namespace saccade::lab
