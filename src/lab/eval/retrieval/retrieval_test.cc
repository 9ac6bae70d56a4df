#include "lab/eval/retrieval/retrieval.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/eval/retrieval/retrieval_figures.h"

namespace saccade::lab {
namespace {

using testing::ElementsAre;

constexpr std::array<int64_t, 3> kDepths = {1, 5, 10};

TEST(RetrievalFigures, ByHand) {
  EXPECT_THAT(retrieval_names(kDepths), ElementsAre("r1", "r5", "r10", "recall1", "recall5", "recall10",
                                                    "mrr", "ndcg10", "map", "mean_rank", "median_rank"));
  std::vector<double> out(10);
  // Three right answers at ranks 2, 5 and 12.
  query_figures(std::vector<double>{2, 5, 12}, kDepths, out);
  const double gains = 1 / std::log2(3.0) + 1 / std::log2(6.0);
  const double ideal = 1 + 1 / std::log2(3.0) + 0.5;
  EXPECT_THAT(out, ElementsAre(0, 1, 1, 0, testing::DoubleEq(2.0 / 3), testing::DoubleEq(2.0 / 3), 0.5,
                               testing::DoubleEq(gains / ideal),
                               testing::DoubleEq((1.0 / 2 + 2.0 / 5 + 3.0 / 12) / 3), 2));
  // One right answer, halfway between ranks 1 and 2.
  query_figures(std::vector<double>{1.5}, kDepths, out);
  EXPECT_THAT(out, ElementsAre(0, 1, 1, 0, 1, 1, testing::DoubleEq(2.0 / 3),
                               testing::DoubleEq(1 / std::log2(2.5)), testing::DoubleEq(2.0 / 3), 1.5));
  // A perfect ranking of twelve has an nDCG of 1 and a recall@10 of 10/12.
  std::vector<double> twelve(12);
  std::iota(twelve.begin(), twelve.end(), 1.0);
  query_figures(twelve, kDepths, out);
  EXPECT_THAT(out, ElementsAre(1, 1, 1, testing::DoubleEq(1.0 / 12), testing::DoubleEq(5.0 / 12),
                               testing::DoubleEq(10.0 / 12), 1, testing::DoubleEq(1), 1, 1));
}

// Scores of any size that nobody stores. It remembers the largest block that was asked for.
class CountedScores : public PairScores {
 public:
  CountedScores(int64_t texts, int64_t images) : texts_(texts), images_(images) {}
  [[nodiscard]] int64_t texts() const override { return texts_; }
  [[nodiscard]] int64_t images() const override { return images_; }
  void score(int64_t first_text, int64_t text_count, int64_t first_image, int64_t image_count, float* out,
             int64_t text_stride, int64_t image_stride) const override {
    int64_t known = most_;
    const int64_t asked = text_count * image_count;
    while (asked > known && !most_.compare_exchange_weak(known, asked)) {
    }
    for (int64_t t = 0; t < text_count; ++t) {
      for (int64_t i = 0; i < image_count; ++i)
        out[t * text_stride + i * image_stride] = (first_text + t) % images_ == first_image + i ? 1.0F : 0.0F;
    }
  }
  [[nodiscard]] int64_t most() const { return most_; }

 private:
  int64_t texts_;
  int64_t images_;
  mutable std::atomic<int64_t> most_ = 0;
};

TEST(RetrievalFigures, LargeTasksHoldAFewRowsOfScores) {
  constexpr int64_t kTexts = 70'000;
  constexpr int64_t kImages = 300;
  std::vector<int64_t> text_image;
  for (int64_t t = 0; t < kTexts; ++t) text_image.push_back(t % kImages);
  const auto relevance = Relevance::from_text_image(text_image, kImages);
  ASSERT_TRUE(relevance) << relevance.error().message;
  const CountedScores scores(kTexts, kImages);
  ThreadPool pool(2);
  const auto outcome = evaluate_retrieval(scores, *relevance, {}, {}, {.resamples = 20}, pool);
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(outcome->text_to_image.figures.front().value, 1);
  EXPECT_EQ(outcome->image_to_text.figures.front().value, 1);
  EXPECT_LE(scores.most(), int64_t{1} << 22);  // 16 MiB a thread
  // Intervals take a row of figures for each resample, whatever the number of queries.
  EXPECT_EQ(outcome->text_to_image.estimates.resampled.rows(), 20);
  EXPECT_EQ(outcome->text_to_image.estimates.resampled.columns(), 11);
  EXPECT_EQ(outcome->text_to_image.estimates.left_out.rows(), kImages);
  std::stop_source stop;
  stop.request_stop();
  const auto stopped = evaluate_direction(scores, *relevance, Direction::kTextToImage, {}, {},
                                          {.resamples = 20, .stop = stop.get_token()}, pool);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::kCancelled);
  for (const Direction direction : kBothDirections) {
    const CountedScores again(kTexts, kImages);
    const auto top = top_answers(again, *relevance, direction, kTopAnswers, pool);
    ASSERT_EQ(std::ssize(top), relevance->queries(direction));
    EXPECT_TRUE(top.back().front().right);
    EXPECT_LE(again.most(), int64_t{1} << 22);
  }
}

// Sorts the whole matrix, the way evaluation scripts do it: argsort, slice, any.
TEST(RetrievalFigures, MatchTheFullMatrix) {
  std::mt19937 random(5);
  ThreadPool pool(2);
  for (int round = 0; round < 300; ++round) {
    const int64_t images = 2 + static_cast<int64_t>(random() % 20);
    const int64_t texts = images * (1 + static_cast<int64_t>(random() % 4));
    std::vector<float> values(static_cast<size_t>(texts * images));
    std::iota(values.begin(), values.end(), 0.0F);  // no ties: a sort has one outcome
    std::ranges::shuffle(values, random);
    Matrix<float> scores(texts, images);
    std::ranges::copy(values, scores.data());
    std::vector<int64_t> text_image;
    for (int64_t t = 0; t < texts; ++t)
      text_image.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(images)));
    const auto relevance = Relevance::from_text_image(text_image, images);
    const auto source = given_scores({DType::kF32, {texts, images}, std::as_bytes(scores.values())});
    for (const Direction direction : {Direction::kTextToImage, Direction::kImageToText}) {
      const auto ranks = rank_right_answers(**source, *relevance, direction, {}, pool);
      ASSERT_TRUE(ranks);
      std::vector<int64_t> owner;
      for (int64_t q = 0; q < ranks->queries(); ++q) owner.push_back(q);
      const ClusteredSample sample = retrieval_sample(*ranks, kDepths, owner, ranks->queries());
      const Estimates estimates = estimate(sample, {.resamples = 0}, pool);

      std::vector<double> sums(10);
      std::vector<double> first_ranks;
      for (int64_t q = 0; q < relevance->queries(direction); ++q) {
        const bool to_image = direction == Direction::kTextToImage;
        std::vector<int64_t> order(static_cast<size_t>(relevance->gallery(direction)));
        std::iota(order.begin(), order.end(), 0);
        const auto score = [&](int64_t g) { return to_image ? scores(q, g) : scores(g, q); };
        std::ranges::sort(order, [&](int64_t a, int64_t b) { return score(a) > score(b); });
        const auto belongs = [&](int64_t g) {
          return to_image ? text_image[static_cast<size_t>(q)] == g : text_image[static_cast<size_t>(g)] == q;
        };
        const double right = static_cast<double>(std::ranges::count_if(order, belongs));
        if (right == 0) continue;
        size_t first = 0;
        while (!belongs(order[first])) ++first;
        first_ranks.push_back(static_cast<double>(first) + 1);
        double gains = 0, ideal = 0, precisions = 0;
        for (size_t k = 0; k < 3; ++k) {
          const auto depth = std::min<size_t>(order.size(), static_cast<size_t>(kDepths[k]));
          const auto within =
              std::count_if(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(depth), belongs);
          sums[k] += within > 0 ? 1 : 0;
          sums[3 + k] += static_cast<double>(within) / right;
        }
        for (size_t place = 0; place < std::min<size_t>(order.size(), 10); ++place) {
          gains += belongs(order[place]) ? 1 / std::log2(static_cast<double>(place) + 2) : 0;
          ideal += static_cast<double>(place) < right ? 1 / std::log2(static_cast<double>(place) + 2) : 0;
        }
        sums[6] += 1 / first_ranks.back();
        sums[7] += gains / ideal;
        for (size_t place = 0; place < order.size(); ++place) {
          if (!belongs(order[place])) continue;
          const auto seen = static_cast<std::ptrdiff_t>(place) + 1;
          precisions += static_cast<double>(std::count_if(order.begin(), order.begin() + seen, belongs)) /
                        static_cast<double>(seen);
        }
        sums[8] += precisions / right;
        sums[9] += first_ranks.back();
      }
      const auto count = static_cast<double>(first_ranks.size());
      ASSERT_EQ(sample.queries(), static_cast<int64_t>(first_ranks.size()));
      for (size_t f = 0; f < sums.size(); ++f)
        EXPECT_NEAR(estimates.value[f], sums[f] / count, 1e-12) << estimates.names[f];
      std::ranges::sort(first_ranks);
      EXPECT_EQ(estimates.value[10],
                (first_ranks[(first_ranks.size() - 1) / 2] + first_ranks[first_ranks.size() / 2]) / 2);
    }
  }
}

TEST(RetrievalFigures, QueriesWithoutAnAnswerAreCountedApart) {
  QueryRanks ranks;
  ranks.gallery = 4;
  ranks.begin = {0, 2, 2, 3};
  ranks.ranks = {1, 3, 4};
  ranks.tied = {0, 0, 1};
  const QueryCounts counts = count_queries(ranks);
  EXPECT_EQ(counts.queries, 2);
  EXPECT_EQ(counts.without_answer, 1);
  EXPECT_EQ(counts.tied, 1);
  EXPECT_EQ(counts.several_right, 1);
  const std::vector<int64_t> owner = {5, 6, 7};
  const ClusteredSample sample = retrieval_sample(ranks, kDepths, owner, 8);
  EXPECT_EQ(sample.queries(), 2);
  EXPECT_THAT(sample.cluster, ElementsAre(5, 7));
}

// Draws rankings at random, many times.
TEST(Chance, IsWhatGuessingGets) {
  std::vector<std::pair<int64_t, int64_t>> pairs = {{0, 0}, {0, 3}, {0, 4}, {1, 1}, {3, 2}, {3, 11}};
  const auto relevance = Relevance::from_pairs(4, 12, pairs);
  const std::vector<double> chance = chance_figures(*relevance, Direction::kTextToImage, kDepths);
  std::mt19937 random(3);
  Matrix<float> scores(4, 12);
  std::vector<double> sums(10);
  ThreadPool pool(1);
  constexpr int kRounds = 20'000;
  for (int round = 0; round < kRounds; ++round) {
    for (int64_t t = 0; t < 4; ++t) {
      std::iota(scores.row(t).begin(), scores.row(t).end(), 0.0F);
      std::ranges::shuffle(scores.row(t), random);
    }
    const auto source = given_scores({DType::kF32, {4, 12}, std::as_bytes(scores.values())});
    const auto ranks = rank_right_answers(**source, *relevance, Direction::kTextToImage, {}, pool);
    std::vector<double> one(10);
    for (const int64_t q : {0, 1, 3}) {
      query_figures(ranks->of(q), kDepths, one);
      for (size_t f = 0; f < sums.size(); ++f) sums[f] += one[f] / 3;
    }
  }
  for (size_t f = 0; f < sums.size(); ++f) {
    EXPECT_NEAR(sums[f] / kRounds, chance[f], 0.01 * std::max(1.0, chance[f])) << retrieval_names(kDepths)[f];
  }
  // COCO: one image among 5,000.
  const auto coco = Relevance::from_text_image(std::vector<int64_t>{17}, 5000);
  const auto guess = chance_figures(*coco, Direction::kTextToImage, kDepths);
  EXPECT_NEAR(guess[0], 1.0 / 5000, 1e-15);
  EXPECT_NEAR(guess[2], 10.0 / 5000, 1e-12);
  double harmonic = 0;  // with one right answer the precision is 1 / rank
  for (int rank = 1; rank <= 5000; ++rank) harmonic += 1.0 / rank;
  EXPECT_NEAR(guess[8], harmonic / 5000, 1e-12);
  EXPECT_NEAR(guess[9], 2500.5, 1e-9);
  // A gallery of right answers alone leaves nothing to chance.
  const auto all_right = Relevance::from_pairs(1, 2, {{0, 0}, {0, 1}});
  ASSERT_TRUE(all_right.has_value());
  EXPECT_DOUBLE_EQ(chance_figures(*all_right, Direction::kTextToImage, kDepths)[8], 1);
  const auto single = Relevance::from_pairs(1, 1, {{0, 0}});
  ASSERT_TRUE(single.has_value());
  EXPECT_DOUBLE_EQ(chance_figures(*single, Direction::kTextToImage, kDepths)[8], 1);
}

}  // namespace
}  // namespace saccade::lab
