#include "lab/eval/retrieval/retrieval.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

namespace saccade::lab {
namespace {

double gain(double rank) {
  return 1 / std::log2(1 + rank);
}

// Returns the ideal DCG: the largest sum of gains of `right` right answers up to the depth.
double ideal_gain(int64_t right) {
  double sum = 0;
  for (int64_t rank = 1; rank <= std::min(right, kNdcgDepth); ++rank) sum += gain(static_cast<double>(rank));
  return sum;
}

// Returns the expected figures of a query with `right` right answers among `gallery`.
std::vector<double> chance_of(int64_t right, int64_t gallery, std::span<const int64_t> ks) {
  const auto n = static_cast<double>(gallery);
  const auto p = static_cast<double>(right);
  std::vector<double> figures;
  for (const int64_t k : ks) {
    double miss = 1;  // probability that none of k draws without replacement is right
    for (int64_t i = 0; i < std::min(k, gallery) && miss > 0; ++i) {
      miss *= std::max(0.0, (n - p - static_cast<double>(i)) / (n - static_cast<double>(i)));
    }
    figures.push_back(1 - miss);
  }
  for (const int64_t k : ks) figures.push_back(static_cast<double>(std::min(k, gallery)) / n);
  double reciprocal = 0;
  double later = 1;  // probability that the first right answer has this rank or a later one
  for (int64_t rank = 1; rank <= gallery - right + 1; ++rank) {
    const double here = p / (n - static_cast<double>(rank - 1));
    reciprocal += later * here / static_cast<double>(rank);
    later *= 1 - here;
  }
  figures.push_back(reciprocal);
  figures.push_back(p / n * ideal_gain(std::min(gallery, kNdcgDepth)) / ideal_gain(right));
  figures.push_back((n + 1) / (p + 1));
  return figures;
}

// Returns the image of each query, which is the cluster of the bootstrap. A text without a right image counts
// nowhere; it gets image 0.
std::vector<int64_t> owners(const Relevance& relevance, std::span<const int64_t> image_of_text,
                            Direction direction) {
  if (direction == Direction::kTextToImage && !image_of_text.empty()) {
    return {image_of_text.begin(), image_of_text.end()};
  }
  std::vector<int64_t> own(static_cast<size_t>(relevance.queries(direction)));
  for (int64_t q = 0; q < std::ssize(own); ++q) {
    const auto right = relevance.right(direction, q);
    own[static_cast<size_t>(q)] = direction == Direction::kImageToText ? q
                                  : right.empty()                      ? 0
                                                                       : right.front();
  }
  return own;
}

}  // namespace

std::vector<std::string> retrieval_names(std::span<const int64_t> ks) {
  std::vector<std::string> names;
  for (const int64_t k : ks) names.push_back(fmt::format("r{}", k));
  for (const int64_t k : ks) names.push_back(fmt::format("recall{}", k));
  names.insert(names.end(), {"mrr", "ndcg10", "mean_rank", "median_rank"});
  return names;
}

void query_figures(std::span<const double> ranks, std::span<const int64_t> ks, std::span<double> out) {
  const auto right = static_cast<int64_t>(ranks.size());
  size_t next = 0;
  for (const int64_t k : ks) out[next++] = ranks.front() <= static_cast<double>(k) ? 1 : 0;
  for (const int64_t k : ks) {
    const auto within = std::ranges::upper_bound(ranks, static_cast<double>(k)) - ranks.begin();
    out[next++] = static_cast<double>(within) / static_cast<double>(right);
  }
  out[next++] = 1 / ranks.front();
  double gains = 0;
  for (const double rank : ranks) gains += rank <= static_cast<double>(kNdcgDepth) ? gain(rank) : 0;
  out[next++] = gains / ideal_gain(right);
  out[next++] = ranks.front();
}

ClusteredSample retrieval_sample(const QueryRanks& ranks, std::span<const int64_t> ks,
                                 std::span<const int64_t> owner, int64_t clusters) {
  ClusteredSample sample;
  sample.mean_names = retrieval_names(ks);
  sample.median_names = {sample.mean_names.back()};
  sample.mean_names.pop_back();
  const auto columns = static_cast<int64_t>(sample.mean_names.size());
  sample.median_columns = {columns - 1};  // the column of mean_rank
  sample.clusters = clusters;
  sample.values = Matrix<double>(count_queries(ranks).queries, columns);
  int64_t next = 0;
  for (int64_t q = 0; q < ranks.queries(); ++q) {
    if (ranks.of(q).empty()) continue;
    query_figures(ranks.of(q), ks, sample.values.row(next++));
    sample.cluster.push_back(owner[static_cast<size_t>(q)]);
  }
  return sample;
}

std::vector<double> chance_figures(const Relevance& relevance, Direction direction,
                                   std::span<const int64_t> ks) {
  std::map<int64_t, int64_t> sizes;  // right answers -> queries
  for (int64_t q = 0; q < relevance.queries(direction); ++q) {
    ++sizes[static_cast<int64_t>(relevance.right(direction, q).size())];
  }
  sizes.erase(0);
  std::vector<double> sums(retrieval_names(ks).size() - 1);
  int64_t queries = 0;
  for (const auto& [right, count] : sizes) {
    const std::vector<double> figures = chance_of(right, relevance.gallery(direction), ks);
    for (size_t f = 0; f < sums.size(); ++f) sums[f] += static_cast<double>(count) * figures[f];
    queries += count;
  }
  for (double& sum : sums) sum = queries == 0 ? Figure::kNone : sum / static_cast<double>(queries);
  return sums;
}

QueryCounts count_queries(const QueryRanks& ranks) {
  QueryCounts counts;
  for (int64_t q = 0; q < ranks.queries(); ++q) {
    const size_t right = ranks.of(q).size();
    (right == 0 ? counts.without_answer : counts.queries) += 1;
    counts.several_right += right > 1 ? 1 : 0;
    counts.tied += ranks.tied[static_cast<size_t>(q)];
  }
  return counts;
}

DirectionOutcome outcome_of_ranks(QueryRanks ranks, std::span<const int64_t> owner, int64_t clusters,
                                  const BootstrapOptions& bootstrap, ThreadPool& pool) {
  DirectionOutcome one;
  one.ranks = std::move(ranks);
  one.counts = count_queries(one.ranks);
  const ClusteredSample sample = retrieval_sample(one.ranks, kRecallDepths, owner, clusters);
  one.estimates = estimate(sample, bootstrap, pool);
  one.figures = figures_of(one.estimates, bootstrap.confidence);
  return one;
}

Result<DirectionOutcome> evaluate_direction(const PairScores& scores, const Relevance& relevance,
                                            Direction direction, std::span<const int64_t> image_of_text,
                                            const TieBreak& ties, const BootstrapOptions& bootstrap,
                                            ThreadPool& pool) {
  SACCADE_ASSIGN(QueryRanks ranks, rank_right_answers(scores, relevance, direction, ties, pool));
  return outcome_of_ranks(std::move(ranks), owners(relevance, image_of_text, direction), relevance.images(),
                          bootstrap, pool);
}

Result<RetrievalOutcome> evaluate_retrieval(const PairScores& scores, const Relevance& relevance,
                                            std::span<const int64_t> image_of_text, const TieBreak& ties,
                                            const BootstrapOptions& bootstrap, ThreadPool& pool) {
  RetrievalOutcome outcome;
  for (const Direction direction : kBothDirections) {
    SACCADE_ASSIGN(outcome.of(direction),
                   evaluate_direction(scores, relevance, direction, image_of_text, ties, bootstrap, pool));
  }
  return outcome;
}

}  // namespace saccade::lab
