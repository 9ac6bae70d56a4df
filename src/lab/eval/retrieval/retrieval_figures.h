// A whole evaluation of retrieval: ranks in both directions, figures with intervals, and their run entries.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lab/eval/figures/ranking.h"
#include "lab/eval/figures/sample.h"
#include "lab/eval/retrieval/retrieval.h"
#include "lab/eval/retrieval/retrieval_metrics.h"
#include "lab/eval/retrieval/retrieval_task.h"
#include "lab/eval/rows/pair_scores.h"
#include "lab/eval/run/run.h"
#include "saccade/core/error.h"
#include "saccade/core/threads.h"

namespace saccade::lab {

// Number of answers that a run keeps of each query.
inline constexpr int64_t kTopAnswers = 5;

// Returns the tie policy with the task's data for it. Returns kBadData for kTrec over duplicate ids.
Result<TieBreak> tie_break(TiePolicy policy, const RetrievalTask& task);

// Evaluates retrieval. scores: [task's texts, task's pictures]. With RetrievalTask::first_queries, only the first captions are
// queries of text to image.
Result<RetrievalOutcome> evaluate_retrieval(const PairScores& scores, const RetrievalTask& task,
                                            const TieBreak& ties, const BootstrapOptions& bootstrap,
                                            ThreadPool& pool);

// Evaluates the symmetric protocol on the same scores: the task must have first captions.
Result<RetrievalOutcome> evaluate_symmetric(const PairScores& scores, const RetrievalTask& task,
                                            TiePolicy ties, const BootstrapOptions& bootstrap,
                                            ThreadPool& pool);
// Returns the symmetric protocol's figures and what the standard one gains over it.
Result<SymmetricRetrieval> symmetric_retrieval(const RetrievalOutcome& standard,
                                               const RetrievalOutcome& symmetric, double confidence);

// Blanks the r@k and recall@k of a gallery with fewer than k answers, which would be 1 for any model.
void blank_beyond(int64_t gallery, std::vector<Figure>& figures);
void blank_beyond(int64_t gallery, std::vector<Difference>& differences);

// Returns the first `depth` answers to every query: higher scores first, ties by number. Right ones are
// marked. Cost: all scores once.
std::vector<std::vector<RunAnswer>> top_answers(const PairScores& scores, const Relevance& relevance,
                                                Direction direction, int64_t depth, ThreadPool& pool);

// Returns the results of a model and of chance, as runs hold them. Figures that would be 1 for any model are blank.
RetrievalResult retrieval_result(const std::string& dataset, const std::string& model,
                                 const RetrievalTask& task, const RetrievalOutcome& outcome);
// Returns the difference of R@1, image to text minus text to image, paired by image.
Result<Difference> retrieval_gap(const RetrievalOutcome& outcome, double confidence);
RetrievalResult chance_result(const std::string& dataset, const RetrievalTask& task);
// Returns the differences a - b. Returns kMismatch if they are not of one task and bootstrap.
Result<RetrievalComparison> compare_retrieval(const std::string& dataset, const std::string& a_name,
                                              const RetrievalOutcome& a, const std::string& b_name,
                                              const RetrievalOutcome& b, double confidence);

// Adds one line per query to the run's ranks.
Status add_ranks(RunWriter& run, const std::string& dataset, const std::string& model,
                 const PairScores& scores, const RetrievalTask& task, const RetrievalOutcome& outcome,
                 ThreadPool& pool);

}  // namespace saccade::lab
