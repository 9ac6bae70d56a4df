#include "saccade/eval/retrieval.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "saccade/eval/one_caption.h"

namespace saccade {
namespace {

// Sorts every gallery by score, wrong answers first among equals, and looks for the first right one.
int64_t slow_rank(const Matrix<float>& queries, int64_t q, const Matrix<float>& gallery, int64_t label,
                  const std::vector<int64_t>& labels) {
  std::vector<std::pair<float, bool>> answers;  // minus score, right
  for (int64_t g = 0; g < gallery.rows(); ++g) {
    float score = 0;
    for (int64_t c = 0; c < queries.columns(); ++c) score += queries(q, c) * gallery(g, c);
    answers.emplace_back(-score, labels[static_cast<size_t>(g)] == label);
  }
  std::sort(answers.begin(), answers.end());
  for (size_t i = 0; i < answers.size(); ++i) {
    if (answers[i].second) return static_cast<int64_t>(i) + 1;
  }
  return 0;
}

TEST(RetrievalRanks, MatchSortingWithTiesAndSeveralPositives) {
  std::mt19937 random(1);
  ThreadPool pool(2);
  for (int round = 0; round < 200; ++round) {
    const int64_t n = 1 + static_cast<int64_t>(random() % 20);
    const int64_t m = 1 + static_cast<int64_t>(random() % 20);
    Matrix<float> queries(m, 2), gallery(n, 2);  // small whole numbers: many exact ties
    for (float& v : queries.values()) v = static_cast<float>(random() % 3) - 1;
    for (float& v : gallery.values()) v = static_cast<float>(random() % 3) - 1;
    std::vector<int64_t> query_labels, gallery_labels;
    for (int64_t i = 0; i < m; ++i) query_labels.push_back(static_cast<int64_t>(random() % 5));
    for (int64_t i = 0; i < n; ++i) gallery_labels.push_back(static_cast<int64_t>(random() % 5));
    const auto ranks = retrieval_ranks(queries.view(), gallery.view(), query_labels, gallery_labels, pool);
    ASSERT_TRUE(ranks);
    for (int64_t q = 0; q < m; ++q) {
      // Among equal scores the slow version puts wrong answers first only as far as the first right one: a
      // wrong answer tied with the best right one stands before it, as the policy asks.
      EXPECT_EQ((*ranks)[static_cast<size_t>(q)],
                slow_rank(queries, q, gallery, query_labels[static_cast<size_t>(q)], gallery_labels));
    }
  }
}

TEST(RetrievalRanks, NanAndMissingAnswersAreApart) {
  ThreadPool pool(1);
  Matrix<float> queries(2, 1), gallery(2, 1);
  queries(0, 0) = 1;
  queries(1, 0) = std::nanf("");
  gallery(0, 0) = gallery(1, 0) = 1;
  const std::vector<int64_t> query_labels = {7, 0}, gallery_labels = {0, 1};
  EXPECT_EQ(*retrieval_ranks(queries.view(), gallery.view(), query_labels, gallery_labels, pool),
            (std::vector<int64_t>{0, 0}));
  EXPECT_FALSE(retrieval_ranks(queries.view(), gallery.view(), {}, gallery_labels, pool));
}

TEST(Recall, CountsByHand) {
  const std::vector<int64_t> ranks = {1, 2, 5, 6, 10, 11, 0, 1};
  const Recall recall = recall_of(ranks);
  EXPECT_EQ(recall.queries, 7);
  EXPECT_EQ(recall.unanswerable, 1);
  EXPECT_DOUBLE_EQ(recall.r1, 2.0 / 7);
  EXPECT_DOUBLE_EQ(recall.r5, 4.0 / 7);
  EXPECT_DOUBLE_EQ(recall.r10, 6.0 / 7);
  EXPECT_EQ(recall_of({}).r1, 0);
}

// Draws guesses at random, again and again.
TEST(Recall, ChanceIsWhatGuessingGets) {
  const std::vector<int64_t> labels = {0, 0, 0, 1, 2, 2, 3, 4, 5, 6, 7, 8};
  const Recall chance = chance_recall(labels);
  std::mt19937 random(3);
  std::vector<size_t> order(labels.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  double hits1 = 0, hits5 = 0, hits10 = 0, queries = 0;
  for (int round = 0; round < 5000; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (const int64_t label : labels) {
      size_t rank = 0;
      while (labels[order[rank]] != label) ++rank;
      ++queries;
      hits1 += rank < 1 ? 1 : 0;
      hits5 += rank < 5 ? 1 : 0;
      hits10 += rank < 10 ? 1 : 0;
    }
  }
  EXPECT_NEAR(chance.r1, hits1 / queries, 0.01);
  EXPECT_NEAR(chance.r5, hits5 / queries, 0.01);
  EXPECT_NEAR(chance.r10, hits10 / queries, 0.01);
  EXPECT_DOUBLE_EQ(chance_recall({1, 1, 1}).r1, 1);
}

}  // namespace
}  // namespace saccade
