// Retrieval metrics from ranks, as the literature reports them, each under a name of its own.
//
//   r@k        share of queries with a right answer among the first k: what papers on CLIP call recall
//   recall@k   share of a query's right answers among the first k, averaged: what trec_eval calls recall
//   mrr        1 / rank of the first right answer, averaged (trec_eval's recip_rank)
//   ndcg@10    sum of 1 / log2(1 + rank) over right answers up to rank 10, over its maximum
//   map        for each right answer the share of right answers down to its rank, averaged over them and then
//              over queries: mean average precision over the whole ranking (trec_eval's map)
//   mean_rank, median_rank  of the first right answer; a median of an even number is the middle two's mean
//
// A query without a right answer in the gallery is excluded and counted separately.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lab/eval/figures/ranking.h"
#include "lab/eval/figures/relevance.h"
#include "lab/eval/figures/sample.h"
#include "lab/eval/run/record_fields.h"

namespace saccade::lab {

inline constexpr std::array<int64_t, 3> kRecallDepths = {1, 5, 10};

// Returns the figures' names in their order: r<k> for all k, recall<k> for all k, mrr, ndcg10, map, mean_rank;
// then median_rank.
std::vector<std::string> retrieval_names(std::span<const int64_t> ks);

// Computes the figures of one query from the ranks of its right answers, ascending and not empty. There is
// one for each of retrieval_names except the median.
void query_figures(std::span<const double> ranks, std::span<const int64_t> ks, std::span<double> out);

// Returns the sample of all queries with a right answer. owner[q] is the cluster (image) of query q, of
// `clusters`.
ClusteredSample retrieval_sample(const QueryRanks& ranks, std::span<const int64_t> ks,
                                 std::span<const int64_t> owner, int64_t clusters);

// Returns the figures of chance, a ranking drawn at random: expected values for each of retrieval_names
// except the median.
std::vector<double> chance_figures(const Relevance& relevance, Direction direction,
                                   std::span<const int64_t> ks);

// Number of queries without a right answer, and of those with a wrong answer that ties with a right one.
struct QueryCounts {
  int64_t queries = 0;  // number with a right answer, over which figures are averaged
  int64_t without_answer = 0;
  int64_t tied = 0;
  int64_t several_right = 0;  // with more than one right answer
  static void fields(auto& self, auto& field) {
    SACCADE_FIELDS(queries, without_answer, tied, several_right);
  }
};
QueryCounts count_queries(const QueryRanks& ranks);

// Figures of both directions, with r@k and recall@k for kRecallDepths.
struct DirectionOutcome {
  QueryCounts counts;
  QueryRanks ranks;
  Estimates estimates;  // resampled by image: outcomes of two models on one task can be paired
  std::vector<Figure> figures;
};
struct RetrievalOutcome {
  DirectionOutcome text_to_image;
  DirectionOutcome image_to_text;
  [[nodiscard]] DirectionOutcome& of(Direction direction) {
    return direction == Direction::kTextToImage ? text_to_image : image_to_text;
  }
  [[nodiscard]] const DirectionOutcome& of(Direction direction) const {
    return direction == Direction::kTextToImage ? text_to_image : image_to_text;
  }
};

// Evaluates one direction, as evaluate_retrieval does. kCancelled if bootstrap.stop requests it while resampling.
Result<DirectionOutcome> evaluate_direction(const PairScores& scores, const Relevance& relevance,
                                            Direction direction, std::span<const int64_t> image_of_text,
                                            const TieBreak& ties, const BootstrapOptions& bootstrap,
                                            ThreadPool& pool);
// Returns the image of each query, which is the cluster of the bootstrap. A text without a right image counts nowhere; it gets
// image 0. `image_of_text` may be empty: then a text's image is its first right one.
std::vector<int64_t> owners(const Relevance& relevance, std::span<const int64_t> image_of_text,
                            Direction direction);
// Returns the figures of ranks that are known already. owner[q]: the cluster (image) of query q, of `clusters`.
DirectionOutcome outcome_of_ranks(QueryRanks ranks, std::span<const int64_t> owner, int64_t clusters,
                                  const BootstrapOptions& bootstrap, ThreadPool& pool);

// Evaluates retrieval in both directions. scores: of the relevance's texts and images. The bootstrap's clusters
// are the images; image_of_text: that of each text, or empty: its first right one. Errors: those of
// rank_right_answers, and kCancelled as above. Cost: all scores twice, once per direction, and the bootstrap.
Result<RetrievalOutcome> evaluate_retrieval(const PairScores& scores, const Relevance& relevance,
                                            std::span<const int64_t> image_of_text, const TieBreak& ties,
                                            const BootstrapOptions& bootstrap, ThreadPool& pool);

}  // namespace saccade::lab
