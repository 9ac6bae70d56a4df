// Retrieval metrics from ranks, as the literature reports them, each under a name of its own.
//
//   r@k        share of queries with a right answer among the first k: what papers on CLIP call recall
//   recall@k   share of a query's right answers among the first k, averaged: what trec_eval calls recall
//   mrr        1 / rank of the first right answer, averaged (trec_eval's recip_rank)
//   ndcg@10    sum of 1 / log2(1 + rank) over right answers up to rank 10, over its maximum
//   mean_rank, median_rank  of the first right answer; a median of an even number is the middle two's mean
//
// A query without a right answer in the gallery is excluded and counted separately.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lab/eval/figures/ranking.h"
#include "lab/eval/figures/relevance.h"
#include "lab/eval/figures/sample.h"

namespace saccade::lab {

inline constexpr int64_t kNdcgDepth = 10;

// Returns the figures' names in their order: r<k> for all k, recall<k> for all k, mrr, ndcg10, mean_rank;
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
};
QueryCounts count_queries(const QueryRanks& ranks);

}  // namespace saccade::lab
