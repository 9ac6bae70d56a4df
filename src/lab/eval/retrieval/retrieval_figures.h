// A whole evaluation of retrieval: ranks both ways, figures with intervals, and what a run keeps of it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/core/threads.h"
#include "lab/eval/figures/ranking.h"
#include "lab/eval/figures/sample.h"
#include "lab/eval/retrieval/retrieval.h"
#include "lab/eval/retrieval/retrieval_task.h"
#include "lab/eval/rows/pair_scores.h"
#include "lab/eval/run/run.h"

namespace saccade::lab {

inline constexpr std::array<int64_t, 3> kRecallDepths = {1, 5, 10};
// Answers a run keeps of each query.
inline constexpr int64_t kTopAnswers = 5;

struct DirectionOutcome {
  QueryCounts counts;
  QueryRanks ranks;
  Estimates estimates;  // resampled by picture: outcomes of two models on one task can be paired
  std::vector<Figure> figures;
};
struct RetrievalOutcome {
  DirectionOutcome text_to_image;
  DirectionOutcome image_to_text;
  [[nodiscard]] const DirectionOutcome& of(Direction direction) const {
    return direction == Direction::kTextToImage ? text_to_image : image_to_text;
  }
};

// The tie policy with what it needs of the task; kBadData for kTrec over ids that are there twice.
Result<TieBreak> tie_break(TiePolicy policy, const RetrievalTask& task);

// scores: [task's texts, task's pictures]. Errors as rank_right_answers. Cost: all scores twice, once a
// direction, and the bootstrap.
Result<RetrievalOutcome> evaluate_retrieval(const PairScores& scores, const RetrievalTask& task,
                                            const TieBreak& ties, const BootstrapOptions& bootstrap,
                                            ThreadPool& pool);

// The first `depth` answers to every query: higher scores first, equal ones by number. Right ones are marked.
// Cost: all scores once.
std::vector<std::vector<RunAnswer>> top_answers(const PairScores& scores, const Relevance& relevance,
                                                Direction direction, int64_t depth, ThreadPool& pool);

// An entry of metrics.json's "results" (docs/runs.md), and the one of guessing.
Json retrieval_result_json(const std::string& dataset, const std::string& model, const RetrievalTask& task,
                           const RetrievalOutcome& outcome);
Json chance_result_json(const std::string& dataset, const RetrievalTask& task);
// An entry of "comparisons": a - b. kMismatch where they are not of one task and bootstrap.
Result<Json> comparison_json(const std::string& dataset, const std::string& a_name, const RetrievalOutcome& a,
                             const std::string& b_name, const RetrievalOutcome& b, double confidence);

// Adds a line a query to the run's ranks.
Status add_ranks(RunWriter& run, const std::string& dataset, const std::string& model,
                 const PairScores& scores, const RetrievalTask& task, const RetrievalOutcome& outcome,
                 ThreadPool& pool);

}  // namespace saccade::lab
