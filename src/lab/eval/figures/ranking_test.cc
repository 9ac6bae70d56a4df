#include "lab/eval/figures/ranking.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/half.h"

namespace saccade::lab {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr TiePolicy kPolicies[] = {TiePolicy::kPessimistic, TiePolicy::kOptimistic, TiePolicy::kMean,
                                   TiePolicy::kIndex, TiePolicy::kTrec};

Matrix<float> matrix(const std::vector<std::vector<float>>& rows) {
  Matrix<float> result(static_cast<int64_t>(rows.size()), static_cast<int64_t>(rows.front().size()));
  for (size_t r = 0; r < rows.size(); ++r)
    std::ranges::copy(rows[r], result.row(static_cast<int64_t>(r)).begin());
  return result;
}

TensorView tensor(const Matrix<float>& scores) {
  return {DType::kF32, {scores.rows(), scores.columns()}, std::as_bytes(scores.values())};
}

// Sorts the whole gallery by the policy and reads the right answers' places off.
std::vector<double> slow_ranks(const Matrix<float>& scores, const Relevance& relevance, Direction direction,
                               TiePolicy policy, const std::vector<std::string>& ids, int64_t query) {
  const bool to_image = direction == Direction::kTextToImage;
  const auto score = [&](int64_t g) { return to_image ? scores(query, g) : scores(g, query); };
  const auto right = relevance.right(direction, query);
  const auto is_right = [&](int64_t g) { return std::ranges::find(right, g) != right.end(); };
  const auto sorted_ranks = [&](auto before) {
    std::vector<int64_t> order(static_cast<size_t>(relevance.gallery(direction)));
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, [&](int64_t a, int64_t b) {
      return score(a) != score(b) ? score(a) > score(b) : before(a, b);
    });
    std::vector<double> ranks;
    for (size_t place = 0; place < order.size(); ++place) {
      if (is_right(order[place])) ranks.push_back(static_cast<double>(place) + 1);
    }
    return ranks;
  };
  const auto wrong_first = [&](int64_t a, int64_t b) { return !is_right(a) && is_right(b); };
  const auto right_first = [&](int64_t a, int64_t b) { return is_right(a) && !is_right(b); };
  switch (policy) {
    case TiePolicy::kPessimistic:
      return sorted_ranks(wrong_first);
    case TiePolicy::kOptimistic:
      return sorted_ranks(right_first);
    case TiePolicy::kIndex:
      return sorted_ranks(std::less<>());
    case TiePolicy::kTrec:
      return sorted_ranks([&](int64_t a, int64_t b) {
        return std::strcmp(ids[static_cast<size_t>(a)].c_str(), ids[static_cast<size_t>(b)].c_str()) > 0;
      });
    case TiePolicy::kMean:
      break;
  }
  std::vector<double> ranks = sorted_ranks(wrong_first);
  const std::vector<double> best = sorted_ranks(right_first);
  for (size_t i = 0; i < ranks.size(); ++i) ranks[i] = (ranks[i] + best[i]) / 2;
  return ranks;
}

std::vector<std::string> some_ids(int64_t count, std::mt19937& random) {
  std::vector<std::string> ids;
  for (int64_t i = 0; i < count; ++i) ids.push_back(std::to_string(random() % 50) + "-" + std::to_string(i));
  return ids;
}

TEST(Ranking, EveryPolicyMatchesSortingOnThousandsOfCases) {
  std::mt19937 random(1);
  ThreadPool pool(2);
  int64_t tied_queries = 0;
  int64_t checked = 0;
  for (int round = 0; round < 1500; ++round) {
    const int64_t texts = 1 + static_cast<int64_t>(random() % 25);
    const int64_t images = 1 + static_cast<int64_t>(random() % 25);
    const int64_t different = 1 + static_cast<int64_t>(random() % 30);  // few different scores: many ties
    Matrix<float> scores(texts, images);
    for (float& score : scores.values()) score = static_cast<float>(random() % different) - 3;
    std::vector<std::pair<int64_t, int64_t>> pairs;
    const int64_t count = static_cast<int64_t>(random() % static_cast<uint64_t>(2 * (texts + images)));
    for (int64_t i = 0; i < count; ++i) {
      pairs.emplace_back(random() % static_cast<uint64_t>(texts), random() % static_cast<uint64_t>(images));
    }
    const auto relevance = Relevance::from_pairs(texts, images, pairs);
    ASSERT_TRUE(relevance);
    const auto source = given_scores(tensor(scores));
    ASSERT_TRUE(source);
    const std::vector<std::string> text_ids = some_ids(texts, random);
    const std::vector<std::string> image_ids = some_ids(images, random);
    for (const TiePolicy policy : kPolicies) {
      const TieBreak ties{policy, *trec_order(text_ids), *trec_order(image_ids)};
      for (const Direction direction : {Direction::kTextToImage, Direction::kImageToText}) {
        const auto ranks = rank_right_answers(**source, *relevance, direction, ties, pool);
        ASSERT_TRUE(ranks);
        ASSERT_EQ(ranks->queries(), relevance->queries(direction));
        for (int64_t q = 0; q < ranks->queries(); ++q) {
          const auto slow = slow_ranks(scores, *relevance, direction, policy,
                                       direction == Direction::kTextToImage ? image_ids : text_ids, q);
          const std::vector<double> fast(ranks->of(q).begin(), ranks->of(q).end());
          ASSERT_EQ(fast, slow) << enum_name(policy) << " " << direction_name(direction);
          const auto best = slow_ranks(scores, *relevance, direction, TiePolicy::kOptimistic, image_ids, q);
          const auto worst = slow_ranks(scores, *relevance, direction, TiePolicy::kPessimistic, image_ids, q);
          ASSERT_EQ(ranks->tied[static_cast<size_t>(q)] != 0, best != worst);
          tied_queries += best != worst ? 1 : 0;
          ++checked;
        }
      }
    }
  }
  EXPECT_GT(checked, 100'000);
  EXPECT_GT(tied_queries, checked / 10);
}

// There are more right answers than are searched for one by one.
TEST(Ranking, ManyRightAnswersMatchSorting) {
  std::mt19937 random(2);
  ThreadPool pool(1);
  for (const int64_t different : {5, 50, 5000}) {
    Matrix<float> scores(3, 400);
    for (float& score : scores.values()) score = static_cast<float>(random() % different);
    std::vector<std::pair<int64_t, int64_t>> pairs;
    for (int64_t i = 0; i < 600; ++i) pairs.emplace_back(random() % 3, random() % 400);
    const auto relevance = Relevance::from_pairs(3, 400, pairs);
    const auto source = given_scores(tensor(scores));
    for (const TiePolicy policy : {TiePolicy::kPessimistic, TiePolicy::kMean, TiePolicy::kIndex}) {
      const auto ranks =
          rank_right_answers(**source, *relevance, Direction::kTextToImage, {.policy = policy}, pool);
      ASSERT_TRUE(ranks);
      for (int64_t q = 0; q < 3; ++q) {
        const auto slow = slow_ranks(scores, *relevance, Direction::kTextToImage, policy, {}, q);
        EXPECT_EQ(std::vector<double>(ranks->of(q).begin(), ranks->of(q).end()), slow);
      }
    }
  }
}

// Computed by hand: the scores are 5 4 4 4 3, answers 1 and 4 (of 0..4) are right, the ids are e d c b a.
TEST(Ranking, PoliciesByHand) {
  const Matrix<float> scores = matrix({{5, 4, 4, 4, 3}});
  const auto relevance = Relevance::from_pairs(1, 5, {{0, 1}, {0, 4}});
  const auto source = given_scores(tensor(scores));
  ThreadPool pool(1);
  const auto ranks = [&](TiePolicy policy, const std::vector<std::string>& ids) {
    const TieBreak ties{policy, {}, *trec_order(ids)};
    return rank_right_answers(**source, *relevance, Direction::kTextToImage, ties, pool)->ranks;
  };
  const std::vector<std::string> descending = {"e", "d", "c", "b", "a"};
  const std::vector<std::string> ascending = {"a", "b", "c", "d", "e"};
  EXPECT_THAT(ranks(TiePolicy::kPessimistic, descending), ElementsAre(4, 5));
  EXPECT_THAT(ranks(TiePolicy::kOptimistic, descending), ElementsAre(2, 5));
  EXPECT_THAT(ranks(TiePolicy::kMean, descending), ElementsAre(3, 5));
  EXPECT_THAT(ranks(TiePolicy::kIndex, descending), ElementsAre(2, 5));
  EXPECT_THAT(ranks(TiePolicy::kTrec, descending), ElementsAre(2, 5));
  EXPECT_THAT(ranks(TiePolicy::kTrec, ascending), ElementsAre(4, 5));
  // strcmp compares bytes: "10" comes before "9", "\xff" after everything else.
  EXPECT_THAT(*trec_order(std::vector<std::string>{"9", "10", "\xff", ""}), ElementsAre(1, 2, 0, 3));
  EXPECT_THAT(trec_order(std::vector<std::string>{"x", "y", "x"}).error().message,
              HasSubstr("\"x\" is there twice"));
}

TEST(Ranking, TheSameForAnyNumberOfThreadsAndEitherWayRound) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (const int64_t dim : {1, 31, 64, 100}) {
    Matrix<float> texts(300, dim), images(130, dim);
    for (float& value : texts.values()) value = normal(random);
    for (float& value : images.values()) value = normal(random);
    std::vector<int64_t> text_image;
    for (int64_t t = 0; t < 300; ++t) text_image.push_back(t % 130);
    const auto relevance = Relevance::from_text_image(text_image, 130);
    const auto dots = dot_scores(texts.view(), images.view());
    ASSERT_TRUE(dots);
    // The whole matrix, as one block with other strides.
    Matrix<float> whole(300, 130);
    (*dots)->score(0, 300, 0, 130, whole.data(), 130, 1);
    for (int64_t t : {0, 7, 299}) {
      for (int64_t i : {0, 65, 129}) {
        float one = 0;
        (*dots)->score(t, 1, i, 1, &one, 1, 1);
        EXPECT_EQ(one, whole(t, i));
        double exact = 0;
        for (int64_t c = 0; c < dim; ++c) exact += double{texts(t, c)} * images(i, c);
        EXPECT_NEAR(one, exact, 1e-4);
      }
    }
    const auto given = given_scores(tensor(whole));
    for (const Direction direction : {Direction::kTextToImage, Direction::kImageToText}) {
      ThreadPool one(1), four(4);
      const auto a = rank_right_answers(**dots, *relevance, direction, {}, one);
      const auto b = rank_right_answers(**dots, *relevance, direction, {}, four);
      const auto c = rank_right_answers(**given, *relevance, direction, {}, four);
      EXPECT_EQ(a->ranks, b->ranks);
      EXPECT_EQ(a->ranks, c->ranks);
    }
  }
}

TEST(MaxSim, SumsTheBestOfEveryRowOfOneSide) {
  std::mt19937 random(4);
  std::normal_distribution<float> normal;
  RowSets texts, images;
  texts.begin = {0, 1, 4, 11};
  images.begin = {0, 3, 103, 104, 109};
  texts.rows = Matrix<float>(11, 20);
  images.rows = Matrix<float>(109, 20);
  for (float& value : texts.rows.values()) value = normal(random);
  for (float& value : images.rows.values()) value = normal(random);
  // The plain double loop, for text t and image i.
  const auto expected = [&](size_t t, size_t i, LateScoring scoring) {
    const bool from_text = scoring.from == LateFrom::kText;
    const RowSets& summed = from_text ? texts : images;
    const RowSets& other = from_text ? images : texts;
    const size_t item = from_text ? t : i;
    const size_t with = from_text ? i : t;
    double sum = 0;
    for (int64_t r = summed.begin[item]; r < summed.begin[item + 1]; ++r) {
      double best = -1e9;
      for (int64_t s = other.begin[with]; s < other.begin[with + 1]; ++s) {
        double dot = 0;
        for (int64_t c = 0; c < 20; ++c) dot += double{summed.rows(r, c)} * other.rows(s, c);
        best = std::max(best, dot);
      }
      sum += best;
    }
    const auto rows = static_cast<double>(summed.begin[item + 1] - summed.begin[item]);
    return scoring.normalize ? sum / rows : sum;
  };
  for (const LateFrom from : {LateFrom::kText, LateFrom::kImage}) {
    for (const bool normalize : {false, true}) {
      const auto scores = max_sim_scores(texts, images, {.from = from, .normalize = normalize});
      ASSERT_TRUE(scores) << scores.error().message;
      EXPECT_EQ((*scores)->texts(), 3);
      EXPECT_EQ((*scores)->images(), 4);
      Matrix<float> transposed(4, 3);
      (*scores)->score(0, 3, 0, 4, transposed.data(), 1, 3);
      for (int64_t t = 0; t < 3; ++t) {
        for (int64_t i = 0; i < 4; ++i) {
          EXPECT_NEAR(transposed(i, t),
                      expected(static_cast<size_t>(t), static_cast<size_t>(i), {from, normalize}), 1e-3);
          float alone = 0;  // the same bits in every block
          (*scores)->score(t, 1, i, 1, &alone, 1, 1);
          EXPECT_EQ(alone, transposed(i, t));
        }
      }
    }
  }
  const auto plain = max_sim_scores(texts, images);
  ASSERT_TRUE(plain) << plain.error().message;
  float score = 0;
  (*plain)->score(2, 1, 1, 1, &score, 1, 1);
  EXPECT_NEAR(score, expected(2, 1, {}), 1e-3);
  images.begin[1] = 0;
  EXPECT_THAT(max_sim_scores(texts, images).error().message, HasSubstr("image 0 has no rows"));
}

TEST(GivenScores, HalvesAreReadAndDoublesRefused) {
  const std::vector<uint16_t> halves = {float_to_fp16(0.5F), float_to_fp16(-2)};
  const TensorView view{DType::kF16, {1, 2}, std::as_bytes(std::span(halves))};
  const auto scores = given_scores(view);
  ASSERT_TRUE(scores);
  std::array<float, 2> out{};
  (*scores)->score(0, 1, 0, 2, out.data(), 2, 1);
  EXPECT_THAT(out, ElementsAre(0.5F, -2.0F));
  const std::vector<double> doubles(2);
  const TensorView wide{DType::kF64, {1, 2}, std::as_bytes(std::span(doubles))};
  EXPECT_EQ(given_scores(wide).error().code, ErrorCode::kUnsupported);
  const TensorView flat{DType::kF16, {2}, std::as_bytes(std::span(halves))};
  EXPECT_THAT(given_scores(flat).error().message, HasSubstr("shape [2], expected [texts, images]"));
}

TEST(Ranking, BadInputIsNamed) {
  ThreadPool pool(2);
  Matrix<float> scores(70, 3);
  scores(66, 2) = scores(69, 0) = std::nanf("");
  const auto source = given_scores(tensor(scores));
  const auto relevance = Relevance::from_text_image(std::vector<int64_t>(70, 1), 3);
  ASSERT_TRUE(relevance);
  for (const Direction direction : {Direction::kTextToImage, Direction::kImageToText}) {
    const auto ranks = rank_right_answers(**source, *relevance, direction, {}, pool);
    ASSERT_FALSE(ranks);
    EXPECT_THAT(ranks.error().message,
                HasSubstr(direction == Direction::kTextToImage ? "text 66 with image 2 is not a number"
                                                               : "text 69 with image 0 is not a number"));
  }
  EXPECT_EQ(
      rank_right_answers(**source, *relevance, Direction::kTextToImage, {.policy = TiePolicy::kTrec}, pool)
          .error()
          .code,
      ErrorCode::kUsage);
  const auto other = Relevance::from_text_image(std::vector<int64_t>(70, 1), 4);
  EXPECT_EQ(rank_right_answers(**source, *other, Direction::kTextToImage, {}, pool).error().code,
            ErrorCode::kMismatch);
  EXPECT_THAT(Relevance::from_text_image(std::vector<int64_t>{0, 4}, 4).error().message,
              HasSubstr("text 1 belongs to image 4, there are 4"));
  EXPECT_EQ(Relevance::from_text_image(std::vector<int64_t>{-2}, 4).error().code, ErrorCode::kBadData);
  Matrix<float> wide(2, 5), narrow(2, 4);
  EXPECT_THAT(dot_scores(wide.view(), narrow.view()).error().message,
              HasSubstr("texts of width 5, images of width 4"));
}

TEST(Relevance, BothDirectionsAndLabels) {
  const auto pairs = Relevance::from_pairs(3, 2, {{2, 0}, {0, 1}, {0, 0}, {2, 0}});
  ASSERT_TRUE(pairs);
  EXPECT_THAT(pairs->right(Direction::kTextToImage, 0), ElementsAre(0, 1));
  EXPECT_THAT(pairs->right(Direction::kTextToImage, 1), ElementsAre());
  EXPECT_THAT(pairs->right(Direction::kImageToText, 0), ElementsAre(0, 2));
  const auto labels = Relevance::from_labels(std::vector<int64_t>{7, 8, 7});
  ASSERT_TRUE(labels);
  EXPECT_THAT(labels->right(Direction::kTextToImage, 2), ElementsAre(0, 2));
  EXPECT_THAT(labels->right(Direction::kImageToText, 1), ElementsAre(1));
  EXPECT_EQ(Relevance::from_labels(std::vector<int64_t>(20'000, 1)).error().code, ErrorCode::kLimit);
}

}  // namespace
}  // namespace saccade::lab
