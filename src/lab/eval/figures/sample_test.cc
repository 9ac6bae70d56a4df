#include "lab/eval/figures/sample.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/eval/figures/resampling.h"
#include "lab/eval/run/record_fields.h"

namespace saccade::lab {
namespace {

using testing::ElementsAre;

TEST(ThreeDigits, ZeroHasNoMinus) {
  EXPECT_EQ(three_digits(-0.0004), "0.000");
  EXPECT_EQ(three_digits(-0.0), "0.000");
  EXPECT_EQ(three_digits(-0.0006), "-0.001");
  EXPECT_EQ(three_digits(0.12345), "0.123");
  EXPECT_EQ(three_digits(-0.0004, Sign::kBoth), "+0.000");
  EXPECT_EQ(three_digits(-1.5, Sign::kBoth), "-1.500");
  EXPECT_EQ(interval_text({.value = 0.01, .low = -0.0001, .high = 0.02}), "0.010 [0.000, 0.020]");
  EXPECT_EQ(interval_text({.value = 0.01, .low = -0.0001, .high = 0.02}, Sign::kBoth),
            "+0.010 [+0.000, +0.020]");
  EXPECT_EQ(interval_text({.value = -0.25}, Sign::kBoth), "-0.250");
  EXPECT_EQ(interval_text({.value = 0, .low = 0, .high = 0, .wilson_high = 0.00383}), "0.000 [Wilson 0.004]");
  EXPECT_EQ(interval_text({.value = 1, .low = 1, .high = 1, .wilson_low = 0.51}), "1.000 [Wilson 0.510]");
}

// Returns a sample with one figure, "x", and its median.
ClusteredSample sample_of(const std::vector<double>& values, std::vector<int64_t> cluster, int64_t clusters) {
  ClusteredSample sample;
  sample.mean_names = {"x"};
  sample.median_names = {"median"};
  sample.median_columns = {0};
  sample.values = Matrix<double>(static_cast<int64_t>(values.size()), 1);
  std::ranges::copy(values, sample.values.data());
  sample.cluster = std::move(cluster);
  sample.clusters = clusters;
  return sample;
}

std::vector<int64_t> one_each(size_t count) {
  std::vector<int64_t> cluster(count);
  for (size_t i = 0; i < count; ++i) cluster[i] = static_cast<int64_t>(i);
  return cluster;
}

TEST(Quantile, AsNumpy) {
  const std::vector<double> values = {1, 2, 4, 8};
  EXPECT_DOUBLE_EQ(quantile(values, 0), 1);
  EXPECT_DOUBLE_EQ(quantile(values, 0.5), 3);
  EXPECT_DOUBLE_EQ(quantile(values, 0.9), 6.8);
  EXPECT_DOUBLE_EQ(quantile(values, 1), 8);
  EXPECT_TRUE(std::isnan(quantile({}, 0.5)));
}

TEST(Estimate, IsTheMeanAndTheMedian) {
  ThreadPool pool(1);
  const Estimates odd = estimate(sample_of({5, 1, 3}, {0, 0, 1}, 2), {.resamples = 0}, pool);
  EXPECT_THAT(odd.value, ElementsAre(3, 3));
  const Estimates even = estimate(sample_of({5, 1, 3, 4}, one_each(4), 4), {.resamples = 0}, pool);
  EXPECT_THAT(even.value, ElementsAre(3.25, 3.5));
  EXPECT_TRUE(std::isnan(figures_of(odd, 0.95)[0].low));
  const Estimates none = estimate(sample_of({}, {}, 0), {}, pool);
  EXPECT_TRUE(std::isnan(none.value[0]));
  EXPECT_TRUE(std::isnan(figures_of(none, 0.95)[0].low));
}

// Resamples in the plain way: collects whole clusters, then computes the figure of the collection.
TEST(Estimate, ResamplesWholeClusters) {
  ThreadPool pool(2);
  std::mt19937 random(1);
  std::vector<double> values;
  std::vector<int64_t> cluster;
  for (int64_t c = 0; c < 7; ++c) {
    for (uint64_t i = 0; i < 1 + random() % 4; ++i) {
      values.push_back(static_cast<double>(random() % 100));
      cluster.push_back(c);
    }
  }
  const Estimates estimates =
      estimate(sample_of(values, cluster, 7), {.resamples = 4000, .seed = 9, .confidence = 0.95}, pool);
  // Seven figures, the indicators of the clusters, tell how often each was drawn. The same seed draws the
  // same.
  ClusteredSample drawn;
  drawn.values = Matrix<double>(7, 7);
  for (int64_t c = 0; c < 7; ++c) {
    drawn.mean_names.push_back(std::to_string(c));
    drawn.values(c, c) = 1;
  }
  drawn.cluster = one_each(7);
  drawn.clusters = 7;
  const Estimates draws = estimate(drawn, {.resamples = 4000, .seed = 9, .confidence = 0.95}, pool);
  std::vector<double> times(7);
  for (int64_t b = 0; b < 4000; ++b) {
    std::vector<double> collected;
    double sum = 0;
    for (int64_t c = 0; c < 7; ++c) {
      const auto count = static_cast<int64_t>(std::lround(draws.resampled(b, c) * 7));
      times[static_cast<size_t>(c)] += static_cast<double>(count);
      for (int64_t again = 0; again < count; ++again) {
        for (size_t i = 0; i < values.size(); ++i) {
          if (cluster[i] == c) collected.push_back(values[i]);
        }
      }
    }
    for (const double value : collected) sum += value;
    std::ranges::sort(collected);
    const size_t n = collected.size();
    ASSERT_NEAR(estimates.resampled(b, 0), sum / static_cast<double>(n), 1e-9);
    ASSERT_EQ(estimates.resampled(b, 1), (collected[(n - 1) / 2] + collected[n / 2]) / 2);
  }
  // 28,000 draws, 4,000 expected of each; the standard deviation is 59.
  for (const double count : times) EXPECT_NEAR(count, 4000, 300);
}

TEST(Estimate, SameForAnyNumberOfThreadsOtherForAnotherSeed) {
  const ClusteredSample sample = sample_of({1, 2, 3, 5, 8, 13}, {0, 0, 1, 1, 2, 3}, 4);
  ThreadPool one(1), three(3);
  const Estimates a = estimate(sample, {.resamples = 100, .seed = 1, .confidence = 0.95}, one);
  const Estimates b = estimate(sample, {.resamples = 100, .seed = 1, .confidence = 0.95}, three);
  const Estimates c = estimate(sample, {.resamples = 100, .seed = 2, .confidence = 0.95}, one);
  EXPECT_TRUE(std::ranges::equal(a.resampled.values(), b.resampled.values()));
  EXPECT_FALSE(std::ranges::equal(a.resampled.values(), c.resampled.values()));
}

// The formulas of Efron 1987, written independently, over given resamples.
TEST(Figures, PercentileAndBcaByFormula) {
  ThreadPool pool(1);
  std::mt19937 random(3);
  std::exponential_distribution<double> skewed(1);
  std::vector<double> values(40);
  for (double& value : values) value = skewed(random);
  const Estimates estimates = estimate(sample_of(values, one_each(40), 40), {}, pool);
  const Figure figure = figures_of(estimates, 0.95)[0];

  std::vector<double> sorted;
  for (int64_t b = 0; b < 1000; ++b) sorted.push_back(estimates.resampled(b, 0));
  std::ranges::sort(sorted);
  EXPECT_DOUBLE_EQ(figure.low, quantile(sorted, 0.025));
  EXPECT_DOUBLE_EQ(figure.high, quantile(sorted, 0.975));
  double mean = 0;
  for (const double value : values) mean += value / 40;
  double squares = 0, cubes = 0;
  for (const double value : values) {
    // Without this value the mean is (40 m - x) / 39, so its distance from m is (x - m) / 39.
    squares += std::pow((value - mean) / 39, 2);
    cubes += std::pow((value - mean) / 39, 3);
  }
  const double a = cubes / (6 * std::pow(squares, 1.5));
  EXPECT_GT(a, 0.01);  // skewed to the right
  const double below = static_cast<double>(std::ranges::count_if(sorted, [&](double v) { return v < mean; }));
  // Finds the bias z0 by walking a table of the normal distribution in steps of 1e-5.
  double z0 = -5;
  while (0.5 * std::erfc(-z0 / std::sqrt(2.0)) < below / 1000) z0 += 1e-5;
  const auto share = [&](double z) {
    const double corrected = z0 + (z0 + z) / (1 - a * (z0 + z));
    return 0.5 * std::erfc(-corrected / std::sqrt(2.0));
  };
  EXPECT_NEAR(figure.bca_low, quantile(sorted, share(-1.959963985)), 1e-4);
  EXPECT_NEAR(figure.bca_high, quantile(sorted, share(1.959963985)), 1e-4);
  EXPECT_GT(figure.bca_high, figure.high);  // a right-skewed sample's interval moves to the right
}

// Returns estimates of one figure, "x", that was drawn 100 times and has no acceleration.
Estimates estimates_of(double value, const std::vector<double>& resampled) {
  Estimates estimates;
  estimates.names = {"x"};
  estimates.value = {value};
  estimates.resampled = Matrix<double>(100, 1);
  for (size_t i = 0; i < 100; ++i) estimates.resampled.values()[i] = resampled[i % resampled.size()];
  estimates.left_out = Matrix<double>(2, 1);
  return estimates;
}

// 0.3 - 0.2 and 0.1 are one share, though their last bits differ.
TEST(Figures, RoundingDecidesNothing) {
  ASSERT_LT(0.3 - 0.2, 0.1);
  const Figure exact = figures_of(estimates_of(0.1, {0.1, 0.1, 0.1, 0.05, 0.2}), 0.95)[0];
  const Figure rounded = figures_of(estimates_of(0.1, {0.3 - 0.2, 0.3 - 0.2, 0.3 - 0.2, 0.05, 0.2}), 0.95)[0];
  EXPECT_NEAR(rounded.bca_low, exact.bca_low, 1e-9);
  EXPECT_NEAR(rounded.bca_high, exact.bca_high, 1e-9);

  ASSERT_GT(0.1 + 0.2, 0.3);
  const auto none = paired_differences(estimates_of(0.1 + 0.2, {0.1 + 0.2}), estimates_of(0.3, {0.3}), 0.95);
  ASSERT_TRUE(none);
  EXPECT_EQ((*none)[0].p_value, 1);
  EXPECT_FALSE((*none)[0].significant);
}

// 95 of 100 intervals should cover the truth. If clusters were treated as independent queries, far fewer
// would.
TEST(Figures, IntervalsCoverTheTruth) {
  ThreadPool pool(2);
  std::mt19937 random(4);
  std::normal_distribution<double> normal;
  constexpr int kRounds = 400;
  int covered = 0, covered_bca = 0, covered_blind = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<double> values;
    std::vector<int64_t> cluster;
    for (int64_t c = 0; c < 60; ++c) {
      const double shared = normal(random);
      for (int i = 0; i < 5; ++i) {
        values.push_back(shared + 0.3 * normal(random));
        cluster.push_back(c);
      }
    }
    const BootstrapOptions options{
        .resamples = 400, .seed = static_cast<uint64_t>(round), .confidence = 0.95};
    const Figure figure = figures_of(estimate(sample_of(values, cluster, 60), options, pool), 0.95)[0];
    covered += figure.low <= 0 && figure.high >= 0 ? 1 : 0;
    covered_bca += figure.bca_low <= 0 && figure.bca_high >= 0 ? 1 : 0;
    const Figure blind = figures_of(estimate(sample_of(values, one_each(300), 300), options, pool), 0.95)[0];
    covered_blind += blind.low <= 0 && blind.high >= 0 ? 1 : 0;
  }
  EXPECT_GE(covered, 0.91 * kRounds);
  EXPECT_LE(covered, 0.98 * kRounds);
  EXPECT_GE(covered_bca, 0.91 * kRounds);
  EXPECT_LE(covered_bca, 0.98 * kRounds);
  EXPECT_LE(covered_blind, 0.75 * kRounds);
}

TEST(Figures, OfConstantsHaveIntervalsOfNoWidthOfOneClusterNone) {
  ThreadPool pool(1);
  for (const Figure& figure : figures_of(estimate(sample_of({1, 1, 1}, one_each(3), 3), {}, pool), 0.95)) {
    EXPECT_EQ(figure.low, 1);
    EXPECT_EQ(figure.high, 1);
    EXPECT_EQ(figure.bca_low, 1);
    EXPECT_EQ(figure.bca_high, 1);
  }
  const Figure single = figures_of(estimate(sample_of({0, 1}, {0, 0}, 1), {}, pool), 0.95)[0];
  EXPECT_EQ(single.value, 0.5);
  EXPECT_TRUE(std::isnan(single.low));
  EXPECT_TRUE(std::isnan(single.bca_high));
}

TEST(Figures, WilsonsIntervalIsThatOfTheBooks) {
  // 5 of 10: the middle is 1/2, and half the width z / (2 sqrt(10 + z^2)) with z = 1.959964.
  const Interval half = wilson_interval(0.5, 10, 0.95);
  EXPECT_NEAR(half.low, 0.2365931, 1e-6);
  EXPECT_NEAR(half.high, 0.7634069, 1e-6);
  // It is symmetric, and ends at 0 and 1.
  const Interval none = wilson_interval(0, 10, 0.95);
  const Interval all = wilson_interval(1, 10, 0.95);
  EXPECT_NEAR(none.low, 0, 1e-12);
  EXPECT_NEAR(none.high, 0.2775328, 1e-6);
  EXPECT_NEAR(all.low, 1 - none.high, 1e-12);
  EXPECT_NEAR(all.high, 1, 1e-12);
}

// Zero of 1,000 is not zero for certain: z^2 / (1000 + z^2) of z = 1.959964.
TEST(Figures, OfNothingFoundHaveWilsonsUpperEnd) {
  ThreadPool pool(1);
  const ClusteredSample none = sample_of(std::vector<double>(1000, 0.0), one_each(1000), 1000);
  const Estimates estimates = estimate(none, {}, pool);
  for (const Figure& figure : figures_of(estimates, 0.95)) {
    if (figure.name != none.mean_names[0]) continue;
    EXPECT_EQ(figure.high, 0);
    EXPECT_NEAR(figure.wilson_high, 0.003826758, 1e-7);
    EXPECT_NEAR(record_json(BriefFigure(figure))["wilson_high"].get<double>(), 0.003826758, 1e-7);
  }
  const Figure some = figures_of(estimate(sample_of({0, 1, 0}, one_each(3), 3), {}, pool), 0.95)[0];
  EXPECT_TRUE(std::isnan(some.wilson_high));
  EXPECT_FALSE(record_json(BriefFigure(some)).contains("wilson_high"));
  const auto same = paired_differences(estimates, estimates, 0.95);
  ASSERT_TRUE(same);
  EXPECT_TRUE(std::isnan((*same)[0].figure.wilson_high));
}

// Four of four is not all for certain: 4 / (4 + z^2) of z = 1.959964. A mean rank of 1 is no share.
TEST(Figures, OfEverythingFoundHaveWilsonsLowerEnd) {
  ThreadPool pool(1);
  ClusteredSample all = sample_of(std::vector<double>(4, 1.0), one_each(4), 4);
  const Estimates estimates = estimate(all, {}, pool);
  const Figure figure = figures_of(estimates, 0.95)[0];
  EXPECT_EQ(figure.low, 1);
  EXPECT_NEAR(figure.wilson_low, 0.5101092, 1e-7);
  EXPECT_TRUE(std::isnan(figure.wilson_high));
  EXPECT_NEAR(figure.shown_low(), 0.5101092, 1e-7);
  EXPECT_EQ(figure.shown_high(), 1);
  EXPECT_NEAR(record_json(BriefFigure(figure))["wilson_low"].get<double>(), 0.5101092, 1e-7);
  const Estimates none = estimate(sample_of(std::vector<double>(4, 0.0), one_each(4), 4), {}, pool);
  const auto differences = paired_differences(estimates, none, 0.95);
  ASSERT_TRUE(differences);
  EXPECT_TRUE(std::isnan((*differences)[0].figure.wilson_low));
  for (const char* name : {kMeanRank, kMeanCosine, kGain}) {
    all.mean_names = {name};
    EXPECT_TRUE(std::isnan(figures_of(estimate(all, {}, pool), 0.95)[0].wilson_low)) << name;
  }
  // Clusters without queries are no trials.
  const ClusteredValues ones = {{1, 1, 1, 1}, {0, 2, 4, 6}};
  EXPECT_NEAR(mean_figure(ones, 8, {}, pool).wilson_low, 0.5101092, 1e-7);
  // Differences that are 0 throughout may as well be below.
  const ClusteredValues zeros = {{0, 0, 0}, {0, 1, 2}};
  EXPECT_TRUE(std::isfinite(mean_figure(zeros, 3, {}, pool).wilson_high));
  EXPECT_TRUE(std::isnan(mean_figure(zeros, 3, {}, pool, kGain).wilson_high));
  // The mean of ten trainings is 1 but for rounding.
  std::vector<Estimates> trainings;
  for (int i = 0; i < 10; ++i) {
    trainings.push_back(estimate(sample_of(std::vector<double>(4, 1.0), one_each(4), 4), {}, pool));
  }
  const auto averaged = mean_over_trainings(trainings, 0);
  ASSERT_TRUE(averaged);
  EXPECT_LT(averaged->value[0], 1);
  EXPECT_NEAR(figures_of(*averaged, 0.95)[0].wilson_low, 0.5101092, 1e-7);
}

TEST(PairedDifferences, SeeWhatUnpairedIntervalsDoNot) {
  ThreadPool pool(2);
  std::mt19937 random(6);
  std::normal_distribution<double> normal;
  std::vector<double> a, b, c;
  for (int i = 0; i < 500; ++i) {
    const double shared = normal(random);
    a.push_back(shared + 0.05 + 0.1 * normal(random));
    b.push_back(shared + 0.1 * normal(random));
    c.push_back(shared + 0.1 * normal(random));
  }
  const Estimates of_a = estimate(sample_of(a, one_each(500), 500), {}, pool);
  const Estimates of_b = estimate(sample_of(b, one_each(500), 500), {}, pool);
  const Estimates of_c = estimate(sample_of(c, one_each(500), 500), {}, pool);
  EXPECT_GT(figures_of(of_b, 0.95)[0].high, figures_of(of_a, 0.95)[0].low);  // these overlap
  const auto told = paired_differences(of_a, of_b, 0.95);
  ASSERT_TRUE(told);
  const Difference& mean = (*told)[0];
  EXPECT_EQ(mean.figure.name, "x");
  EXPECT_TRUE(mean.significant);
  EXPECT_NEAR(mean.figure.value, 0.05, 0.02);
  EXPECT_DOUBLE_EQ(mean.p_value, 2.0 / 1001);
  const auto same = paired_differences(of_b, of_c, 0.95);
  EXPECT_FALSE((*same)[0].significant);
  EXPECT_GT((*same)[0].p_value, 0.05);
  const auto itself = paired_differences(of_a, of_a, 0.95);
  EXPECT_FALSE((*itself)[0].significant);
  EXPECT_EQ((*itself)[0].p_value, 1);
  const Estimates fewer = estimate(sample_of({1, 2}, one_each(2), 2), {}, pool);
  EXPECT_EQ(paired_differences(of_a, fewer, 0.95).error().code, ErrorCode::kMismatch);
}

// Differences that are told apart have a p-value of at most 1 - confidence, for all samples and sizes. The
// interval, which is interpolated between resamples, agrees except at that border. With few resamples it is
// no proof.
TEST(PairedDifferences, AreToldApartByThePValue) {
  ThreadPool pool(1);
  std::mt19937 random(3);
  int apart = 0;
  int by_interval_alone = 0;
  for (int round = 0; round < 3000; ++round) {
    const size_t size = 1 + random() % 12;
    std::vector<double> a, b;
    for (size_t i = 0; i < size; ++i) {
      a.push_back(static_cast<double>(random() % 3));
      b.push_back(static_cast<double>(random() % 3));
    }
    const int64_t clusters = std::ssize(a);
    const double confidence = std::array{0.8, 0.9, 0.95}[random() % 3];
    const BootstrapOptions options{.resamples = std::array{9, 19, 99}[random() % 3],
                                   .seed = static_cast<uint64_t>(round),
                                   .confidence = confidence};
    const auto differences =
        paired_differences(estimate(sample_of(a, one_each(size), clusters), options, pool),
                           estimate(sample_of(b, one_each(size), clusters), options, pool), confidence);
    ASSERT_TRUE(differences);
    const Difference& mean = (*differences)[0];
    EXPECT_EQ(mean.significant, mean.p_value <= 1 - confidence + 1e-9) << round;
    const bool leaves_out_0 = mean.figure.low > 0 || mean.figure.high < 0;
    EXPECT_TRUE(leaves_out_0 || !mean.significant) << round;
    apart += mean.significant ? 1 : 0;
    by_interval_alone += leaves_out_0 && !mean.significant ? 1 : 0;
    EXPECT_TRUE(size > 1 || !mean.significant) << "one cluster proves nothing";
  }
  EXPECT_GT(apart, 50);
  EXPECT_GT(by_interval_alone, 50);  // the interval alone would tell these apart
}

// Two systems of equal quality: at 5%, about one in twenty pairs is told apart.
TEST(PairedDifferences, FalseAlarmsAreAsRareAsSaid) {
  ThreadPool pool(2);
  std::mt19937 random(8);
  constexpr int kRounds = 400;
  int alarms = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<double> a, b;
    for (int i = 0; i < 100; ++i) {
      a.push_back(random() % 10 < 4 ? 1 : 0);
      b.push_back(random() % 10 < 4 ? 1 : 0);
    }
    const BootstrapOptions options{
        .resamples = 300, .seed = static_cast<uint64_t>(round), .confidence = 0.95};
    const auto differences =
        paired_differences(estimate(sample_of(a, one_each(100), 100), options, pool),
                           estimate(sample_of(b, one_each(100), 100), options, pool), 0.95);
    alarms += (*differences)[0].significant ? 1 : 0;
  }
  EXPECT_LE(alarms, 0.09 * kRounds);
  EXPECT_GE(alarms, 0.02 * kRounds);
}

}  // namespace
}  // namespace saccade::lab
