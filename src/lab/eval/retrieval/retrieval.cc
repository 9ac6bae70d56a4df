#include "lab/eval/retrieval/retrieval.h"

#include <map>

#include <fmt/format.h>

#include "lab/eval/retrieval/retrieval_metric.h"

namespace saccade::lab {
namespace {

// Calls call(metric, k) for every figure of a query in its order; k is 0 for a metric without depths.
template <typename Call>
void for_each_figure(std::span<const int64_t> ks, const Call& call) {
  for (const RetrievalMetric& metric : retrieval_metrics()) {
    if (metric.each_depth) {
      for (const int64_t k : ks) call(metric, k);
    } else {
      call(metric, int64_t{0});
    }
  }
}

}  // namespace

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

std::vector<std::string> retrieval_names(std::span<const int64_t> ks) {
  std::vector<std::string> names;
  for_each_figure(ks, [&](const RetrievalMetric& metric, int64_t k) {
    names.push_back(metric.each_depth ? fmt::format("{}{}", metric.name, k) : std::string(metric.name));
  });
  names.emplace_back("median_rank");
  return names;
}

void query_figures(std::span<const double> ranks, std::span<const int64_t> ks, std::span<double> out) {
  size_t next = 0;
  for_each_figure(ks,
                  [&](const RetrievalMetric& metric, int64_t k) { out[next++] = metric.figure(ranks, k); });
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
    size_t next = 0;
    for_each_figure(ks, [&, right = right, count = count](const RetrievalMetric& metric, int64_t k) {
      sums[next++] += static_cast<double>(count) * metric.chance(right, relevance.gallery(direction), k);
    });
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
  DirectionOutcome outcome = outcome_of_ranks(std::move(ranks), owners(relevance, image_of_text, direction),
                                              relevance.images(), bootstrap, pool);
  if (bootstrap.stop.stop_requested()) return fail(ErrorCode::kCancelled, "asked to stop while resampling");
  return outcome;
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
