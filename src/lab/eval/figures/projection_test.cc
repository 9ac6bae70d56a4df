#include "lab/eval/figures/projection.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace saccade::lab {
namespace {

Matrix<float> random_rows(int64_t n, int64_t d, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Matrix<float> rows(n, d);
  for (int64_t r = 0; r < n; ++r) {
    for (int64_t c = 0; c < d; ++c) rows(r, c) = normal(random) * (3.0F / static_cast<float>(c + 1)) + 5;
  }
  return rows;
}

// The oracle: power iteration on the covariance, one component after the other.
std::vector<double> power_iteration(const Matrix<double>& covariance, double& value) {
  const int64_t d = covariance.rows();
  std::vector<double> vector(static_cast<size_t>(d), 1);
  for (int step = 0; step < 20000; ++step) {
    std::vector<double> next(static_cast<size_t>(d));
    double square = 0;
    for (int64_t i = 0; i < d; ++i) {
      for (int64_t j = 0; j < d; ++j)
        next[static_cast<size_t>(i)] += covariance(i, j) * vector[static_cast<size_t>(j)];
      square += next[static_cast<size_t>(i)] * next[static_cast<size_t>(i)];
    }
    value = std::sqrt(square);
    for (double& each : next) each /= value;
    vector = next;
  }
  return vector;
}

void expect_components(int64_t n, int64_t d) {
  const Matrix<float> rows = random_rows(n, d, 7);
  Matrix<double> covariance(d, d);
  std::vector<double> mean(static_cast<size_t>(d));
  for (int64_t r = 0; r < n; ++r)
    for (int64_t c = 0; c < d; ++c) mean[static_cast<size_t>(c)] += rows(r, c) / static_cast<double>(n);
  double total = 0;
  for (int64_t i = 0; i < d; ++i) {
    for (int64_t j = 0; j < d; ++j) {
      for (int64_t r = 0; r < n; ++r) {
        covariance(i, j) +=
            (rows(r, i) - mean[static_cast<size_t>(i)]) * (rows(r, j) - mean[static_cast<size_t>(j)]);
      }
    }
    total += covariance(i, i);
  }
  ThreadPool pool(2);
  const auto found = principal_components(rows.view(), 3, pool);
  ASSERT_TRUE(found.has_value()) << found.error().message;
  for (int64_t c = 0; c < 3; ++c) {
    double value = 0;
    const std::vector<double> vector = power_iteration(covariance, value);
    EXPECT_NEAR(found->share[static_cast<size_t>(c)], value / total, 1e-9);
    double sign = 0;
    double largest = 0;
    for (int64_t r = 0; r < n; ++r) {
      double place = 0;
      for (int64_t j = 0; j < d; ++j)
        place += (rows(r, j) - mean[static_cast<size_t>(j)]) * vector[static_cast<size_t>(j)];
      if (sign == 0) sign = place * found->coordinates(r, c) > 0 ? 1 : -1;
      EXPECT_NEAR(found->coordinates(r, c), sign * place, 1e-5) << "row " << r << ", component " << c;
      if (std::abs(found->coordinates(r, c)) > std::abs(largest)) largest = found->coordinates(r, c);
    }
    EXPECT_GT(largest, 0);
    for (int64_t i = 0; i < d; ++i)
      for (int64_t j = 0; j < d; ++j)
        covariance(i, j) -= value * vector[static_cast<size_t>(i)] * vector[static_cast<size_t>(j)];
  }
}

TEST(PrincipalComponents, AgreeWithPowerIteration) {
  expect_components(60, 9);
  expect_components(12, 30);  // over the rows' inner products
}

TEST(PrincipalComponents, RowsThatAreAllOne) {
  ThreadPool pool(1);
  Matrix<float> rows(5, 3);
  for (float& value : rows.values()) value = 0.25F;
  const auto found = principal_components(rows.view(), 2, pool);
  ASSERT_TRUE(found.has_value());
  EXPECT_THAT(found->share, testing::ElementsAre(0, 0));
  for (const double value : found->coordinates.values()) EXPECT_EQ(value, 0);
}

TEST(PrincipalComponents, OfALineThereIsOne) {
  ThreadPool pool(1);
  Matrix<float> rows(6, 4);
  for (int64_t r = 0; r < 6; ++r) rows(r, 2) = static_cast<float>(r);
  const auto found = principal_components(rows.view(), 2, pool);
  ASSERT_TRUE(found.has_value());
  EXPECT_NEAR(found->share[0], 1, 1e-12);
  EXPECT_NEAR(found->share[1], 0, 1e-12);
  EXPECT_NEAR(std::abs(found->coordinates(0, 0) - found->coordinates(5, 0)), 5, 1e-9);
}

TEST(PrincipalComponents, WhatIsRefused) {
  ThreadPool pool(1);
  Matrix<float> rows = random_rows(4, 3, 1);
  EXPECT_EQ(principal_components(rows.view(), 4, pool).error().code, ErrorCode::kUsage);
  EXPECT_EQ(principal_components(rows.view(), 0, pool).error().code, ErrorCode::kUsage);
  rows(2, 1) = std::nanf("");
  const auto bad = principal_components(rows.view(), 1, pool);
  EXPECT_EQ(bad.error().code, ErrorCode::kBadData);
  EXPECT_THAT(bad.error().message, testing::HasSubstr("row 2"));
}

double perplexity_of(std::span<const double> p) {
  double entropy = 0;
  for (const double each : p) {
    if (each > 0) entropy -= each * std::log2(each);
  }
  return std::exp2(entropy);
}

TEST(Tsne, PerplexityIsFound) {
  std::mt19937 random(3);
  for (const double scale : {1e-6, 1.0, 1e6}) {
    std::vector<double> distances(50);
    for (double& each : distances) each = scale * std::uniform_real_distribution<double>(0.1, 4)(random);
    distances[7] = 0;
    for (const double perplexity : {1.5, 5.0, 30.0}) {
      const std::vector<double> p = neighbour_probabilities(distances, 7, perplexity);
      EXPECT_EQ(p[7], 0);
      EXPECT_NEAR(perplexity_of(p), perplexity, 1e-5);
      // The slow oracle: none of ten thousand widths around the result is nearer, and the shape is a
      // Gaussian.
      std::vector<size_t> order(50);
      std::iota(order.begin(), order.end(), size_t{0});
      std::ranges::sort(order, [&](size_t i, size_t j) { return p[i] > p[j]; });
      const size_t first = order[0];
      const double beta = std::log(p[order[1]] / p[first]) / (distances[first] - distances[order[1]]);
      for (size_t j = 0; j < p.size(); ++j) {
        if (j == 7) continue;
        EXPECT_NEAR(p[j], p[first] * std::exp(-beta * (distances[j] - distances[first])), 1e-9);
      }
      double nearest = 1e300;
      double best = 0;
      for (int i = 1; i < 10000; ++i) {
        const double width = beta * i / 5000;
        std::vector<double> q(50);
        double sum = 0;
        for (size_t j = 0; j < 50; ++j)
          sum += q[j] = j == 7 ? 0 : std::exp(-width * (distances[j] - distances[first]));
        for (double& each : q) each /= sum;
        if (std::abs(perplexity_of(q) - perplexity) < nearest) {
          nearest = std::abs(perplexity_of(q) - perplexity);
          best = width;
        }
      }
      EXPECT_NEAR(best / beta, 1, 1e-3);
    }
  }
}

TEST(Tsne, PointsEquallyFarHaveEqualShares) {
  const std::vector<double> p = neighbour_probabilities(std::vector<double>{0, 2, 2, 2, 2}, 0, 2.0);
  EXPECT_THAT(p, testing::ElementsAre(0, 0.25, 0.25, 0.25, 0.25));
}

// Returns three clouds far apart, whose points alternate.
Matrix<float> clouds(int64_t n) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0, 0.3F);
  Matrix<float> rows(n, 8);
  for (int64_t r = 0; r < n; ++r) {
    for (int64_t c = 0; c < 8; ++c) rows(r, c) = normal(random) + (c == r % 3 ? 6.0F : 0.0F);
  }
  return rows;
}

TEST(Tsne, KeepsCloudsApart) {
  const Matrix<float> rows = clouds(120);
  ThreadPool two(2);
  const auto map = tsne(rows.view(), {.perplexity = 10, .iterations = 500}, two);
  ASSERT_TRUE(map.has_value()) << map.error().message;
  EXPECT_EQ(map->perplexity, 10);
  for (int64_t i = 0; i < 120; ++i) {
    double own = 0;
    double other = 1e300;
    for (int64_t j = 0; j < 120; ++j) {
      const double distance =
          std::hypot(map->points(i, 0) - map->points(j, 0), map->points(i, 1) - map->points(j, 1));
      if (i % 3 == j % 3) own = std::max(own, distance);
      if (i % 3 != j % 3) other = std::min(other, distance);
    }
    EXPECT_LT(own, other) << "point " << i;
  }
  // The result is the same for any number of threads, bit for bit.
  ThreadPool one(1);
  const auto again = tsne(rows.view(), {.perplexity = 10, .iterations = 500}, one);
  ASSERT_TRUE(again.has_value());
  EXPECT_TRUE(std::ranges::equal(map->points.values(), again->points.values()));
  // More steps end lower.
  const auto begun = tsne(rows.view(), {.perplexity = 10, .iterations = 260}, two);
  ASSERT_TRUE(begun.has_value());
  EXPECT_LT(map->divergence, begun->divergence);
  EXPECT_GT(map->divergence, 0);
}

TEST(Tsne, FewPointsAndEqualOnes) {
  ThreadPool pool(1);
  Matrix<float> rows(5, 2);
  const auto map = tsne(rows.view(), {}, pool);
  ASSERT_TRUE(map.has_value());
  EXPECT_NEAR(map->perplexity, 4.0 / 3, 1e-12);
  for (const double value : map->points.values()) EXPECT_TRUE(std::isfinite(value));
}

TEST(Tsne, WhatIsRefused) {
  ThreadPool pool(1);
  Matrix<float> rows = random_rows(6, 3, 1);
  EXPECT_EQ(tsne(rows.view().slice(0, 3), {}, pool).error().code, ErrorCode::kUsage);
  EXPECT_EQ(tsne(rows.view(), {.perplexity = 0.5}, pool).error().code, ErrorCode::kUsage);
  EXPECT_EQ(tsne(rows.view(), {.perplexity = std::nan("")}, pool).error().code, ErrorCode::kUsage);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(tsne(rows.view(), {}, pool, {}, stop.get_token()).error().code, ErrorCode::kCancelled);
  rows(5, 0) = INFINITY;
  EXPECT_EQ(tsne(rows.view(), {}, pool).error().code, ErrorCode::kBadData);
}

TEST(ModalityGap, IsMeasured) {
  ThreadPool pool(2);
  Matrix<float> images(3, 2);
  Matrix<float> texts(2, 2);
  // On the circle: images at 0, 10, 20 degrees, texts at 90 and 24, of other lengths.
  const auto place = [](Matrix<float>& rows, int64_t r, double degrees, double length) {
    rows(r, 0) = static_cast<float>(length * std::cos(degrees * M_PI / 180));
    rows(r, 1) = static_cast<float>(length * std::sin(degrees * M_PI / 180));
  };
  place(images, 0, 0, 1);
  place(images, 1, 10, 7);
  place(images, 2, 20, 0.1);
  place(texts, 0, 90, 1);
  place(texts, 1, 24, 3);
  const auto gap = modality_gap(images.view(), texts.view(), pool);
  ASSERT_TRUE(gap.has_value());
  // Nearest: 0 -> 10, 10 -> 0 or 20 (images both), 20 -> 24 (crosses), 90 -> 24, 24 -> 20 (crosses).
  EXPECT_NEAR(gap->other_kind_share, 2.0 / 5, 1e-12);
  EXPECT_NEAR(gap->other_kind_chance, (3 * (2 / 4.0) + 2 * (3 / 4.0)) / 5, 1e-12);
  const auto mean = [](std::initializer_list<double> degrees, double (*function)(double)) {
    double sum = 0;
    for (const double each : degrees) sum += function(each * M_PI / 180);
    return sum / static_cast<double>(degrees.size());
  };
  const double dx = mean({0, 10, 20}, std::cos) - mean({90, 24}, std::cos);
  const double dy = mean({0, 10, 20}, std::sin) - mean({90, 24}, std::sin);
  EXPECT_NEAR(gap->distance, std::hypot(dx, dy), 1e-6);
}

TEST(ModalityGap, WhatIsRefused) {
  ThreadPool pool(1);
  const Matrix<float> rows = random_rows(4, 3, 1);
  const Matrix<float> wide = random_rows(4, 5, 1);
  const Matrix<float> zeros(2, 3);
  EXPECT_EQ(modality_gap(rows.view(), wide.view(), pool).error().code, ErrorCode::kMismatch);
  EXPECT_EQ(modality_gap(rows.view().slice(0, 0), rows.view(), pool).error().code, ErrorCode::kBadData);
  const auto zero = modality_gap(rows.view(), zeros.view(), pool);
  EXPECT_EQ(zero.error().code, ErrorCode::kBadData);
  EXPECT_THAT(zero.error().message, testing::HasSubstr("text 0"));
}

}  // namespace
}  // namespace saccade::lab
