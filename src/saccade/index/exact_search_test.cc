#include "saccade/index/exact_search.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/index/dot_kernels.h"
#include "saccade/index/row_sample.h"

namespace saccade {
namespace {

using Answers = std::vector<std::vector<RowScore>>;

Matrix<float> random_rows(int64_t rows, int64_t columns, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Matrix<float> result(rows, columns);
  for (float& value : result.values()) value = normal(random);
  for (int64_t r = 0; r < rows; ++r) {
    double square = 0;
    for (const float value : result.row(r)) square += double{value} * value;
    for (float& value : result.row(r)) value = static_cast<float>(value / std::sqrt(square));
  }
  return result;
}

double dot_in_double(std::span<const float> a, std::span<const float> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0, std::plus<>(),
                            [](float x, float y) { return double{x} * y; });
}

// Oracle: computes every score in double and sorts all rows.
std::vector<std::pair<double, int64_t>> sorted_in_double(MatrixView<const float> rows,
                                                         std::span<const float> query) {
  std::vector<std::pair<double, int64_t>> all;
  for (int64_t r = 0; r < rows.rows(); ++r) all.emplace_back(-dot_in_double(rows.row(r), query), r);
  std::sort(all.begin(), all.end());
  for (auto& [score, row] : all) score = -score;
  return all;
}

void expect_same(const Answers& a, const Answers& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t q = 0; q < a.size(); ++q) {
    ASSERT_EQ(a[q].size(), b[q].size()) << "query " << q;
    for (size_t i = 0; i < a[q].size(); ++i) {
      EXPECT_EQ(a[q][i].row, b[q][i].row) << "query " << q << " rank " << i;
      EXPECT_EQ(std::bit_cast<uint32_t>(a[q][i].score), std::bit_cast<uint32_t>(b[q][i].score));
    }
  }
}

Answers best_rows(MatrixView<const float> rows, MatrixView<const float> queries, int64_t k, int threads = 2,
                  std::span<const uint8_t> allowed = {}) {
  ThreadPool pool(threads);
  auto answers = exact_search(rows, queries, k, pool, allowed);
  EXPECT_TRUE(answers.has_value()) << answers.error().message;
  return answers.has_value() ? *std::move(answers) : Answers{};
}

TEST(DotKernels, AllGiveTheSameBitsAndAgreeWithDouble) {
  EXPECT_EQ(dot_kernels().back().name, "portable");
  constexpr int64_t kMostRows = 23;  // more than stay in the first-level cache, whole groups and a rest
  for (const int64_t dim : {1, 7, 8, 15, 16, 17, 31, 32, 33, 63, 100, 192, 512, 515}) {
    const Matrix<float> rows = random_rows(kMostRows, dim, 1);
    const Matrix<float> raw = random_rows(13, dim, 2);
    Matrix<float> queries(13, padded_dim(dim));
    for (int64_t q = 0; q < 13; ++q) std::ranges::copy(raw.row(q), queries.row(q).begin());
    for (const auto& [row_count, query_count] : {std::pair<int64_t, int64_t>{1, 5},
                                                 {3, 2},
                                                 {4, 1},
                                                 {4, 3},
                                                 {9, 4},
                                                 {kMostRows, 5},
                                                 {kMostRows, 6},
                                                 {kMostRows, 13}}) {
      std::vector<const float*> pointers;
      for (int64_t r = 0; r < row_count + kDotRowGroup; ++r) {
        pointers.push_back(rows.row(r % kMostRows).data());
      }
      std::vector<std::vector<float>> scores;
      for (const NamedDotKernel& kernel : dot_kernels()) {
        scores.emplace_back(static_cast<size_t>(row_count * query_count), -1.0F);
        kernel.run(pointers.data(), row_count, queries.data(), query_count, dim, scores.back().data());
      }
      for (int64_t q = 0; q < query_count; ++q) {
        for (int64_t r = 0; r < row_count; ++r) {
          const auto at = static_cast<size_t>(q * row_count + r);
          EXPECT_NEAR(scores.back()[at], dot_in_double(rows.row(r), raw.row(q)), 3e-7) << "dim " << dim;
          for (size_t i = 0; i + 1 < scores.size(); ++i) {
            EXPECT_EQ(std::bit_cast<uint32_t>(scores[i][at]), std::bit_cast<uint32_t>(scores.back()[at]))
                << dot_kernels()[i].name << " dim " << dim << " row " << r << " query " << q;
          }
        }
      }
    }
  }
}

TEST(ExactSearch, AgreesWithSortingInDouble) {
  const Matrix<float> rows = random_rows(10'007, 65, 3);
  const Matrix<float> queries = random_rows(70, 65, 4);
  const Answers answers = best_rows(rows.view(), queries.view(), 20);
  for (int64_t q = 0; q < queries.rows(); ++q) {
    const auto oracle = sorted_in_double(rows.view(), queries.row(q));
    const auto& answer = answers[static_cast<size_t>(q)];
    ASSERT_EQ(answer.size(), 20U);
    for (size_t i = 0; i < answer.size(); ++i) {
      // At each rank the score equals the oracle's, and so does the row, unless scores differ by no more than
      // rounding.
      EXPECT_NEAR(answer[i].score, oracle[i].first, 3e-7);
      EXPECT_NEAR(dot_in_double(rows.row(answer[i].row), queries.row(q)), oracle[i].first, 6e-7);
    }
  }
}

TEST(ExactSearch, ThreadsAndCompanyDoNotChangeAnAnswer) {
  const Matrix<float> rows = random_rows(20'000, 96, 5);
  const Matrix<float> queries = random_rows(67, 96, 6);
  const Answers together = best_rows(rows.view(), queries.view(), 30, 1);
  expect_same(best_rows(rows.view(), queries.view(), 30, 4), together);
  for (const int64_t q : {0, 1, 63, 64, 66}) {
    const Answers alone = best_rows(rows.view(), queries.view().slice(q, 1), 30, 3);
    expect_same(alone, {together[static_cast<size_t>(q)]});
  }
  Matrix<float> reversed(queries.rows(), queries.columns());
  for (int64_t q = 0; q < queries.rows(); ++q) {
    std::ranges::copy(queries.row(q), reversed.row(queries.rows() - 1 - q).begin());
  }
  Answers backwards = best_rows(rows.view(), reversed.view(), 30);
  std::reverse(backwards.begin(), backwards.end());
  expect_same(backwards, together);
}

TEST(ExactSearch, EqualScoresComeInRowOrder) {
  // Four distinct rows, repeated: every score occurs 2,500 times, across all parts.
  const Matrix<float> distinct = random_rows(4, 40, 7);
  Matrix<float> rows(10'000, 40);
  for (int64_t r = 0; r < rows.rows(); ++r) std::ranges::copy(distinct.row(r % 4), rows.row(r).begin());
  const int64_t best = sorted_in_double(distinct.view(), distinct.row(2)).front().second;
  ASSERT_EQ(best, 2);
  const auto answer = best_rows(rows.view(), distinct.view().slice(2, 1), 2600).front();
  ASSERT_EQ(answer.size(), 2600U);
  for (size_t i = 0; i < 2500; ++i) EXPECT_EQ(answer[i].row, static_cast<int64_t>(4 * i + 2));
  EXPECT_TRUE(std::is_sorted(answer.begin(), answer.end(), ranks_before));
  EXPECT_LT(answer[2500].row, 4);
}

TEST(ExactSearch, KIsBoundedByTheRows) {
  const Matrix<float> rows = random_rows(5, 8, 8);
  const Matrix<float> query = random_rows(2, 8, 9);
  EXPECT_THAT(best_rows(rows.view(), query.view(), 100), testing::Each(testing::SizeIs(5)));
  EXPECT_THAT(best_rows(rows.view(), query.view(), 0),
              testing::ElementsAre(testing::IsEmpty(), testing::IsEmpty()));
  EXPECT_THAT(best_rows(MatrixView<const float>(nullptr, 0, 8), query.view(), 3),
              testing::Each(testing::IsEmpty()));
  EXPECT_THAT(best_rows(rows.view(), MatrixView<const float>(nullptr, 0, 8), 3), testing::IsEmpty());
  EXPECT_EQ(best_rows(rows.view(), query.view(), std::numeric_limits<int64_t>::max()).front().size(), 5U);
}

TEST(ExactSearch, FilterLeavesOutAndNeverReturnsFewerThanThereAre) {
  const Matrix<float> rows = random_rows(9'000, 33, 10);
  const Matrix<float> queries = random_rows(3, 33, 11);
  for (const uint32_t one_in : {1U, 2U, 50U, 9'000U}) {
    std::vector<uint8_t> allowed(9'000);
    std::mt19937 random(one_in);
    for (uint8_t& flag : allowed) flag = random() % one_in == 0 ? 1 : 0;
    allowed[8'999] = 1;
    const Answers all = best_rows(rows.view(), queries.view(), 9'000);
    Answers expected(3);
    for (size_t q = 0; q < 3; ++q) {
      for (const RowScore& row : all[q]) {
        if (allowed[static_cast<size_t>(row.row)] != 0) expected[q].push_back(row);
      }
    }
    const size_t there = expected.front().size();
    // All rows, one fewer and one more use different code paths.
    for (const size_t k : {there + 1, there, there - 1, std::min<size_t>(there - 1, 25)}) {
      for (std::vector<RowScore>& best : expected) best.resize(std::min(best.size(), k));
      expect_same(best_rows(rows.view(), queries.view(), static_cast<int64_t>(k), 2, allowed), expected);
      expect_same(best_rows(rows.view(), queries.view(), static_cast<int64_t>(k), 1, allowed), expected);
    }
  }
  const std::vector<uint8_t> none(9'000, 0);
  EXPECT_THAT(best_rows(rows.view(), queries.view(), 25, 2, none), testing::Each(testing::IsEmpty()));
}

TEST(ExactSearch, RowsOfNaNAreNeverReturned) {
  Matrix<float> rows = random_rows(5'000, 16, 12);
  const Matrix<float> query = random_rows(1, 16, 13);
  for (int64_t r = 0; r < rows.rows(); r += 2) rows(r, r % 16) = std::numeric_limits<float>::quiet_NaN();
  const auto answer = best_rows(rows.view(), query.view(), 5'000).front();
  EXPECT_EQ(answer.size(), 2'500U);
  for (const RowScore& row : answer) EXPECT_EQ(row.row % 2, 1);
  const std::vector<uint8_t> all(5'000, 1);
  expect_same({best_rows(rows.view(), query.view(), 5'000, 2, all).front()}, {answer});
  rows(1, 0) = std::copysign(std::numeric_limits<float>::infinity(), query(0, 0));
  EXPECT_EQ(best_rows(rows.view(), query.view(), 1).front().front().row, 1);
  rows(1, 0) = -rows(1, 0);
  EXPECT_EQ(best_rows(rows.view(), query.view(), 5'000).front().back().row, 1);
}

// The estimate of the best scores may be wrong without changing the result. The oracle ranks all rows,
// without an estimate.
TEST(ExactSearch, WhatIsGuessedOfTheBestChangesNoAnswer) {
  constexpr int64_t kRows = 50'000;
  const Matrix<float> random = random_rows(kRows, 24, 20);
  const Matrix<float> queries = random_rows(3, 24, 21);
  const auto in_order = [&](bool ascending) {
    auto order = sorted_in_double(random.view(), queries.row(0));
    if (ascending) std::reverse(order.begin(), order.end());
    Matrix<float> rows(kRows, 24);
    for (int64_t r = 0; r < kRows; ++r) {
      std::ranges::copy(random.row(order[static_cast<size_t>(r)].second), rows.row(r).begin());
    }
    return rows;
  };
  // The sampled rows are nearer to the first query than all others, so too few rows reach the estimate.
  Matrix<float> lying = random_rows(kRows, 24, 20);
  for (const int64_t row : row_sample(0, kRows)) {
    for (int64_t c = 0; c < 24; ++c) lying(row, c) += 3 * queries(0, c);
  }
  Matrix<float> equal(kRows, 24);
  for (int64_t r = 0; r < kRows; ++r) std::ranges::copy(random.row(r % 5), equal.row(r).begin());
  Matrix<float> broken = random_rows(kRows, 24, 20);
  for (int64_t r = 0; r < kRows; r += 3) broken(r, 7) = std::numeric_limits<float>::quiet_NaN();
  const Matrix<float> up = in_order(true);
  const Matrix<float> down = in_order(false);
  std::vector<uint8_t> some(kRows);
  std::mt19937 generator(22);
  for (uint8_t& flag : some) flag = generator() % 4 != 0 ? 1 : 0;
  for (const auto& [name, rows] : {std::pair<std::string, const Matrix<float>*>{"random", &random},
                                   {"up", &up},
                                   {"down", &down},
                                   {"lying", &lying},
                                   {"equal", &equal},
                                   {"broken", &broken}}) {
    SCOPED_TRACE(name);
    for (const std::span<const uint8_t> allowed :
         {std::span<const uint8_t>(), std::span<const uint8_t>(some)}) {
      Answers all = best_rows(rows->view(), queries.view(), kRows, 2, allowed);
      for (const int64_t k : {4000, 1032, 128}) {
        for (std::vector<RowScore>& best : all) best.resize(static_cast<size_t>(k));
        expect_same(best_rows(rows->view(), queries.view(), k, 2, allowed), all);
        expect_same(best_rows(rows->view(), queries.view(), k, 3, allowed), all);
        if (HasFailure()) return;
      }
    }
  }
}

TEST(ExactSearch, RowsWantedAreScoredWhereverTheyRank) {
  constexpr int64_t kRows = 20'003;
  const Matrix<float> rows = random_rows(kRows, 33, 23);
  const Matrix<float> queries = random_rows(70, 33, 24);  // more than a block
  std::vector<uint8_t> allowed(kRows, 1);
  for (int64_t r = 0; r < kRows; r += 3) allowed[static_cast<size_t>(r)] = 0;
  const std::vector<int64_t> some = {0, 1, 63, 64, 64, 65, 4095, 4096, 5000, 12'345, kRows - 2, kRows - 1};
  std::vector<std::span<const int64_t>> wanted;
  for (size_t q = 0; q < 70; ++q) wanted.push_back(std::span<const int64_t>(some).subspan(q % some.size()));
  wanted[3] = {};
  ThreadPool pool(2);
  const auto found = find_rows({rows.view(), allowed, {}}, queries.view(), 5, pool, wanted);
  ASSERT_TRUE(found) << found.error().message;
  const Answers all = best_rows(rows.view(), queries.view(), kRows);
  ASSERT_EQ(found->wanted.size(), 70U);
  for (size_t q = 0; q < 70; ++q) {
    EXPECT_EQ(found->best[q].size(), 5U);
    ASSERT_EQ(found->wanted[q].size(), wanted[q].size());
    for (size_t i = 0; i < wanted[q].size(); ++i) {
      const int64_t row = wanted[q][i];
      const float score = found->wanted[q][i];
      if (row % 3 == 0) {
        EXPECT_TRUE(std::isnan(score)) << "not allowed: row " << row;
        continue;
      }
      const auto known = std::ranges::find(all[q], row, &RowScore::row);
      EXPECT_EQ(std::bit_cast<uint32_t>(score), std::bit_cast<uint32_t>(known->score)) << "row " << row;
    }
  }
  EXPECT_EQ(find_rows({rows.view()}, queries.view(), 5, pool, std::span(wanted).first(2)).error().message,
            "rows are wanted for 2 queries, there are 70");
  for (const std::vector<int64_t>& bad : {std::vector<int64_t>{5, 4}, {-1}, {kRows}}) {
    const std::span<const int64_t> one = bad;
    EXPECT_EQ(find_rows({rows.view()}, queries.view().slice(0, 1), 5, pool, {&one, 1}).error().code,
              ErrorCode::kMismatch);
  }
}

TEST(ExactSearch, RowsMayLieApart) {
  const Matrix<float> wide = random_rows(300, 50, 14);
  const Matrix<float> query = random_rows(1, 40, 15);
  const MatrixView<const float> narrow(wide.data(), 300, 40, 50);
  Matrix<float> packed(300, 40);
  for (int64_t r = 0; r < 300; ++r) std::ranges::copy(narrow.row(r), packed.row(r).begin());
  expect_same(best_rows(narrow, query.view(), 10), best_rows(packed.view(), query.view(), 10));
}

TEST(ExactSearch, EndsWhenAskedToStop) {
  ThreadPool pool(2);
  const Matrix<float> rows = random_rows(9000, 8, 18);
  std::stop_source stop;
  const SearchedRows searched{.rows = rows.view(), .stop = stop.get_token()};
  EXPECT_EQ(find_rows(searched, rows.view().slice(0, 100), 3, pool)->best[99][0].row, 99);
  stop.request_stop();
  EXPECT_EQ(find_rows(searched, rows.view().slice(0, 100), 3, pool).error().code, ErrorCode::kCancelled);
}

TEST(ExactSearch, RefusesWhatDoesNotFit) {
  ThreadPool pool(1);
  const Matrix<float> rows = random_rows(3, 8, 16);
  const Matrix<float> query = random_rows(1, 9, 17);
  auto answer = exact_search(rows.view(), query.view(), 1, pool);
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, ErrorCode::kMismatch);
  EXPECT_EQ(answer.error().message, "queries have 9 columns, the rows searched have 8");
  answer = exact_search(rows.view(), rows.view(), -1, pool);
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, ErrorCode::kUsage);
  answer = exact_search(rows.view(), rows.view(), 1, pool, std::vector<uint8_t>(2));
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().message, "the filter covers 2 rows, there are 3");
}

}  // namespace
}  // namespace saccade
