// The study of text-image retrieval in both directions (lab/eval/evaluation.h).
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lab/eval/evaluation.h"
#include "lab/eval/figures/ranking.h"
#include "lab/eval/retrieval/retrieval_figures.h"
#include "lab/eval/retrieval/retrieval_protocols.h"
#include "lab/eval/retrieval/retrieval_rerank.h"
#include "lab/eval/retrieval/retrieval_task.h"
#include "lab/eval/rows/given.h"
#include "saccade/core/error.h"
#include "saccade/tokenizer.h"

namespace saccade::lab {

class RetrievalStudy : public Study {
 public:
  // Borrows `options`. `rank_by`: "encoder", or "embeddings" or "scores" for results computed elsewhere.
  RetrievalStudy(const RetrievalOptions& retrieval, const EvaluationOptions& options,
                 std::string rank_by = "encoder", Similarity similarity = Similarity::kCosine)
      : retrieval_(retrieval), options_(options), rank_by_(std::move(rank_by)), similarity_(similarity) {}

  // Reranks the answers of every model by a second one, borrowed.
  void rerank_by(RerankChoice choice) {
    rerank_ = std::move(choice);
    rerank_.late = retrieval_.late;
  }

  [[nodiscard]] std::string_view kind() const override { return RetrievalMetrics::kKind; }
  [[nodiscard]] Json protocol() const override;
  Status add_dataset(const NamedDataset& dataset) override;
  // Adds images and texts that are known without a dataset.
  void add_source(RetrievalSource source);
  [[nodiscard]] const RetrievalSource& source(size_t dataset) const { return datasets_[dataset].source; }
  [[nodiscard]] std::vector<ImageRef> pictures(size_t dataset) const override;
  Result<SettledTask> settle(size_t dataset, std::span<const int64_t> unreadable) override;
  Status measure(const EncodedContext& context) override;
  // Measures scores computed elsewhere, of all the dataset's texts and images.
  Status measure_scores(const StudyContext& context, const PairScores& all);
  [[nodiscard]] Result<Json> metrics(std::span<const RunDataset> datasets) const override;

 private:
  struct Ranked {
    RetrievalSource source;
    std::vector<DatasetItem> items = {};  // of the source's images, if queries are grouped by a field
    std::optional<RetrievalTask> task = {};
    TieBreak ties = {};
    std::vector<std::pair<std::string, RetrievalOutcome>> outcomes = {};  // by model
    std::vector<RetrievalResult> results = {};
  };
  Status rank(const StudyContext& context, const PairScores& scores, const CutTexts& cut,
              const Tokenizer* tokenizer);
  // Returns the groups of a dataset's text queries under the options. `tokenizer`: nullptr if nothing is encoded here.
  [[nodiscard]] Result<std::vector<QueryGroupFigures>> groups(const Ranked& one,
                                                              const RetrievalOutcome& outcome,
                                                              const Tokenizer* tokenizer,
                                                              ThreadPool& pool) const;

  RetrievalOptions retrieval_;
  const EvaluationOptions& options_;
  std::string rank_by_;
  Similarity similarity_;
  RerankChoice rerank_;
  std::vector<Ranked> datasets_;
};

// Evaluation of other programs' files (given.h), all over the same images and texts. These are the one
// dataset that `options` names, or the contents of the first file. Errors: kUsage for several datasets, and
// for options that need captions or ids without a dataset; those of GivenFile and evaluate_given.
struct GivenRetrieval {
  std::vector<std::filesystem::path> files;
  bool rows = true;  // embeddings; else scores
  Similarity similarity = Similarity::kCosine;
};
Result<Evaluation> evaluate_given_retrieval(const GivenRetrieval& given, const RetrievalOptions& retrieval,
                                            const EvaluationOptions& options, ThreadPool& pool);

}  // namespace saccade::lab
