// Retrieval figures from ranks: what the literature reports, each under a name of its own.
//
//   r@k        share of queries with a right answer among the first k: what papers on CLIP call recall
//   recall@k   share of a query's right answers among the first k, averaged: what trec_eval calls recall
//   mrr        1 / rank of the first right answer, averaged (trec_eval's recip_rank)
//   ndcg@10    sum of 1 / log2(1 + rank) over right answers up to rank 10, over the most there could be
//   mean_rank, median_rank  of the first right answer; a median of an even number is the middle two's mean
//
// A query without a right answer in the gallery is no query: it is counted apart.
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

// The figures' names in their order: r<k> for all k, recall<k>
// for all k, mrr, ndcg10, mean_rank; then median_rank.
std::vector<std::string> retrieval_names(std::span<const int64_t> ks);

// Figures of one query from the ranks of its right answers, ascending and not empty: one for each of
// retrieval_names but the median.
void query_figures(std::span<const double> ranks, std::span<const int64_t> ks, std::span<double> out);

// All queries with a right answer. owner[q] is the cluster (image) of query q, of `clusters`.
ClusteredSample retrieval_sample(const QueryRanks& ranks, std::span<const int64_t> ks,
                                 std::span<const int64_t> owner, int64_t clusters);

// What guessing gets, a ranking drawn at random: expected values for each of retrieval_names but the median.
std::vector<double> chance_figures(const Relevance& relevance, Direction direction,
                                   std::span<const int64_t> ks);

// How many queries have no right answer, and how many a wrong answer with exactly a right one's score.
struct QueryCounts {
  int64_t queries = 0;  // with a right answer: what figures are averaged over
  int64_t without_answer = 0;
  int64_t tied = 0;
  int64_t several_right = 0;  // with more than one right answer
};
QueryCounts count_queries(const QueryRanks& ranks);

}  // namespace saccade::lab
