// Reranking in retrieval: the first answers of one model in the order of a second one, by the number of answers that it judges.
//
// The second model scores a text and an image by its matching head where it has one (BLIP-2: logit plus contrastive similarity,
// its published recipe with 128 candidates), else by MaxSim or cosine. Answers that it does not judge keep their place behind
// those that it does. Ties count against the model.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lab/eval/figures/ranking.h"
#include "lab/eval/retrieval/retrieval.h"
#include "lab/eval/retrieval/retrieval_metrics.h"
#include "lab/eval/retrieval/retrieval_task.h"
#include "lab/eval/rows/embed.h"
#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/model/encoder_backend.h"

namespace saccade::lab {

inline constexpr int64_t kRerankDepth = 128;

// The second model, borrowed.
struct RerankChoice {
  EncoderBackend* encoder = nullptr;  // nullptr: no reranking
  std::string name;
  std::string fingerprint;
  int64_t depth = kRerankDepth;
  LateScoring late = {};  // form of MaxSim, if it scores by that
};
// Returns "match", "maxsim" or "cosine": how the encoder scores pairs.
std::string_view rerank_method(EncoderBackend& encoder);

// Candidates of a query in the order of the first model, and their scores by the second.
struct JudgedAnswers {
  std::vector<int64_t> answers;
  std::vector<float> scores;
};

// Returns the ranks of right answers once the first `depth` candidates of each query are ordered by their new scores. `first`:
// ranks by the first model, ties against it. `judged`: one per query.
QueryRanks reranked(const QueryRanks& first, std::span<const JudgedAnswers> judged,
                    const Relevance& relevance, Direction direction, int64_t depth);

// Returns the depths of the curve: 2, 5, 10, 20, 50, ... below `last`, and `last`.
std::vector<int64_t> rerank_depths(int64_t last);

// Refuses with kUsage what reranking cannot measure: ties that are not counted against the models, queries of first captions
// only (RetrievalTask::first_queries), and encoders without images or a tokenizer. Call it before anything is encoded.
Status check_rerank(const RerankChoice& choice, TiePolicy ties, bool first_queries);

// Judges the candidates of all queries of both directions, and measures every depth. `scores` and `outcome` are the first
// model's. The choice has passed check_rerank. Errors: those of decoding and encoding; kCancelled. Cost: with a matching
// head one pass over each pair of a query and a candidate, else the encoding of all images and texts (from the cache).
Result<RerankResult> evaluate_rerank(const RerankChoice& choice, const PairScores& scores,
                                     const RetrievalTask& task, const RetrievalOutcome& outcome,
                                     const EmbedOptions& embed, const BootstrapOptions& bootstrap,
                                     ThreadPool& pool);

}  // namespace saccade::lab
