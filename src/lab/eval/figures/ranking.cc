#include "lab/eval/figures/ranking.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <numeric>

namespace saccade::lab {
namespace {

constexpr int64_t kBlockScores = int64_t{1} << 22;
constexpr int64_t kMaxBlockQueries = 64;
// From this many distinct scores of right answers on, they are found by bisection instead of one by one.
constexpr size_t kManyScores = 32;

struct Counts {
  int64_t above = 0;
  int64_t equal = 0;
};

// Counts, for each of `thresholds` (descending, distinct), the `scores` above it and equal to it.
void count_scores(std::span<const float> scores, std::span<const float> thresholds,
                  std::vector<Counts>& counts) {
  counts.assign(thresholds.size(), {});
  if (thresholds.size() < kManyScores) {
    for (size_t t = 0; t < thresholds.size(); ++t) {
      const float threshold = thresholds[t];
      int64_t above = 0;
      int64_t equal = 0;
      // Works in blocks that 32-bit counters hold, which compilers turn into wide compares.
      for (size_t begin = 0; begin < scores.size(); begin += 1U << 16) {
        const size_t end = std::min(scores.size(), begin + (1U << 16));
        int32_t block_above = 0;
        int32_t block_equal = 0;
        for (size_t i = begin; i < end; ++i) {
          block_above += scores[i] > threshold ? 1 : 0;
          block_equal += scores[i] == threshold ? 1 : 0;
        }
        above += block_above;
        equal += block_equal;
      }
      counts[t] = {above, equal};
    }
    return;
  }
  // counts[t].above first holds the number of scores between threshold t and the one before it.
  for (const float score : scores) {
    const auto at = static_cast<size_t>(std::ranges::lower_bound(thresholds, score, std::greater<>()) -
                                        thresholds.begin());
    if (at == thresholds.size()) continue;
    if (thresholds[at] == score) {
      ++counts[at].equal;
    } else {
      ++counts[at].above;
    }
  }
  for (size_t t = 1; t < counts.size(); ++t) counts[t].above += counts[t - 1].above + counts[t - 1].equal;
}

// Ranks one query after the other, keeping its working memory.
class Ranker {
 public:
  Ranker(TiePolicy policy, std::span<const int64_t> order) : policy_(policy), order_(order) {}

  // Ranks the right answers. scores: the query's row, without NaN. Writes one rank per right answer,
  // ascending. Returns true if one is tied.
  bool rank(std::span<const float> scores, std::span<const int64_t> right, double* ranks) {
    right_scores_.clear();
    for (const int64_t g : right) right_scores_.push_back(scores[static_cast<size_t>(g)]);
    std::ranges::sort(right_scores_, std::greater<>());
    thresholds_ = right_scores_;
    thresholds_.erase(std::unique(thresholds_.begin(), thresholds_.end()), thresholds_.end());
    count_scores(scores, thresholds_, counts_);
    bool tied = false;
    size_t next = 0;
    for (size_t t = 0; t < thresholds_.size(); ++t) {
      const size_t first = next;
      while (next < right_scores_.size() && right_scores_[next] == thresholds_[t]) ++next;
      const auto same_right = static_cast<int64_t>(next - first);
      const int64_t same_wrong = counts_[t].equal - same_right;
      tied = tied || same_wrong > 0;
      place(scores, right, thresholds_[t], counts_[t].above, same_right, same_wrong, ranks + first);
    }
    return tied;
  }

 private:
  [[nodiscard]] int64_t key(int64_t g) const {
    return policy_ == TiePolicy::kTrec ? order_[static_cast<size_t>(g)] : g;
  }

  // Computes the ranks of the right answers with the score `score`.
  void place(std::span<const float> scores, std::span<const int64_t> right, float score, int64_t above,
             int64_t same_right, int64_t same_wrong, double* ranks) {
    const bool by_key = policy_ == TiePolicy::kIndex || policy_ == TiePolicy::kTrec;
    if (!by_key || same_wrong == 0) {
      double before = static_cast<double>(above);
      if (policy_ == TiePolicy::kPessimistic) before += static_cast<double>(same_wrong);
      if (policy_ == TiePolicy::kMean) before += static_cast<double>(same_wrong) / 2;
      for (int64_t i = 0; i < same_right; ++i) ranks[i] = before + static_cast<double>(i + 1);
      return;
    }
    keys_.clear();
    for (size_t g = 0; g < scores.size(); ++g) {
      if (scores[g] == score) keys_.push_back(key(static_cast<int64_t>(g)));
    }
    std::ranges::sort(keys_);
    for (const int64_t g : right) {
      if (scores[static_cast<size_t>(g)] != score) continue;
      const auto place = std::ranges::lower_bound(keys_, key(g)) - keys_.begin();
      *ranks++ = static_cast<double>(above + place + 1);
    }
    std::sort(ranks - same_right, ranks);
  }

  TiePolicy policy_;
  std::span<const int64_t> order_;
  std::vector<float> right_scores_;
  std::vector<float> thresholds_;
  std::vector<Counts> counts_;
  std::vector<int64_t> keys_;
};

}  // namespace

std::span<const EnumName<TiePolicy>> enum_names(TiePolicy) {
  static constexpr std::array<EnumName<TiePolicy>, 5> kWords{
      {{TiePolicy::kPessimistic, "pessimistic", "of equal scores the wrong answers come first"},
       {TiePolicy::kOptimistic, "optimistic", "of equal scores the right answers come first"},
       {TiePolicy::kMean, "mean", "a right answer lies halfway among the wrong ones with its score"},
       {TiePolicy::kIndex, "index", "equal scores stay in the gallery's order"},
       {TiePolicy::kTrec, "trec", "equal scores are in descending order of ids, as trec_eval has them"}}};
  return kWords;
}

Result<std::vector<int64_t>> trec_order(std::span<const std::string> ids) {
  std::vector<int64_t> sorted(ids.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  const auto id = [&](int64_t i) -> const std::string& { return ids[static_cast<size_t>(i)]; };
  std::ranges::sort(sorted, [&](int64_t a, int64_t b) { return id(a) > id(b); });
  std::vector<int64_t> order(ids.size());
  for (size_t place = 0; place < sorted.size(); ++place) {
    if (place > 0 && id(sorted[place]) == id(sorted[place - 1])) {
      return fail(ErrorCode::kBadData, "the id \"{}\" is there twice", id(sorted[place]));
    }
    order[static_cast<size_t>(sorted[place])] = static_cast<int64_t>(place);
  }
  return order;
}

Result<QueryRanks> rank_right_answers(const PairScores& scores, const Relevance& relevance,
                                      Direction direction, const TieBreak& ties, ThreadPool& pool) {
  if (scores.texts() != relevance.texts() || scores.images() != relevance.images()) {
    return fail(ErrorCode::kMismatch, "scores of {} texts with {} images, relevance of {} with {}",
                scores.texts(), scores.images(), relevance.texts(), relevance.images());
  }
  const bool to_image = direction == Direction::kTextToImage;
  const int64_t queries = relevance.queries(direction);
  const int64_t gallery = relevance.gallery(direction);
  const std::vector<int64_t>& order = to_image ? ties.image_order : ties.text_order;
  if (ties.policy == TiePolicy::kTrec && static_cast<int64_t>(order.size()) != gallery) {
    return fail(ErrorCode::kUsage, "an order of {} document ids for a gallery of {}", order.size(), gallery);
  }
  QueryRanks result;
  result.gallery = gallery;
  for (int64_t q = 0; q < queries; ++q) {
    result.begin.push_back(result.begin.back() + static_cast<int64_t>(relevance.right(direction, q).size()));
  }
  result.ranks.resize(static_cast<size_t>(result.begin.back()));
  result.tied.resize(static_cast<size_t>(queries));
  if (gallery == 0) return result;

  const int64_t block = std::clamp<int64_t>(kBlockScores / gallery, 1, kMaxBlockQueries);
  std::atomic<int64_t> first_nan = -1;  // query * gallery + answer, the smallest there is
  pool.parallel_for(queries, block, [&](int64_t begin, int64_t end) {
    const int64_t count = end - begin;
    Matrix<float> rows(count, gallery);
    if (to_image) {
      scores.score(begin, count, 0, gallery, rows.data(), gallery, 1);
    } else {
      scores.score(0, gallery, begin, count, rows.data(), 1, gallery);
    }
    Ranker ranker(ties.policy, order);
    for (int64_t q = begin; q < end; ++q) {
      const std::span<const float> row = std::as_const(rows).row(q - begin);
      bool broken = false;
      for (const float score : row) broken |= score != score;
      if (broken) {
        const auto at = std::ranges::find_if(row, [](float score) { return score != score; }) - row.begin();
        const int64_t found = q * gallery + at;
        int64_t known = first_nan;
        while ((known < 0 || found < known) && !first_nan.compare_exchange_weak(known, found)) {
        }
        return;
      }
      const auto index = static_cast<size_t>(q);
      result.tied[index] =
          ranker.rank(row, relevance.right(direction, q), result.ranks.data() + result.begin[index]) ? 1 : 0;
    }
  });
  if (first_nan >= 0) {
    const int64_t query = first_nan / gallery;
    const int64_t answer = first_nan % gallery;
    return fail(ErrorCode::kBadData, "the score of text {} with image {} is not a number",
                to_image ? query : answer, to_image ? answer : query);
  }
  return result;
}

}  // namespace saccade::lab
