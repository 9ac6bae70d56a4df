#include "lab/eval/figures/holm.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace saccade::lab {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

TEST(Holm, AdjustsAsItsPaperDoes) {
  // As R's p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm") gives them.
  const std::vector<double> p = {0.01, 0.04, 0.03, 0.005};
  EXPECT_THAT(holm_adjusted(p), ElementsAre(DoubleNear(0.03, 1e-12), DoubleNear(0.06, 1e-12),
                                            DoubleNear(0.06, 1e-12), DoubleNear(0.02, 1e-12)));
  EXPECT_THAT(holm_adjusted(std::vector<double>{0.6, 0.9}), ElementsAre(1.0, 1.0));
  EXPECT_THAT(holm_adjusted(std::vector<double>{0.02}), ElementsAre(0.02));
  EXPECT_TRUE(holm_adjusted({}).empty());
}

TEST(Holm, CountsNoMissingValue) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto adjusted = holm_adjusted(std::vector<double>{nan, 0.02, nan, 0.5});
  EXPECT_TRUE(std::isnan(adjusted[0]) && std::isnan(adjusted[2]));
  EXPECT_DOUBLE_EQ(adjusted[1], 0.04);
  EXPECT_DOUBLE_EQ(adjusted[3], 0.5);
}

// Step-down as it is defined: reject while the i-th smallest is at most level / (m - i + 1).
TEST(Holm, RejectsWhatTheStepDownTestRejects) {
  std::mt19937 random(4);
  std::uniform_real_distribution<double> uniform(0, 1);
  for (int round = 0; round < 300; ++round) {
    std::vector<double> p(1 + random() % 12);
    for (double& value : p) value = std::pow(uniform(random), 3);
    const double level = 0.05;
    std::vector<double> sorted = p;
    std::ranges::sort(sorted);
    size_t rejected = 0;
    while (rejected < sorted.size() &&
           sorted[rejected] <= level / static_cast<double>(sorted.size() - rejected))
      ++rejected;
    const auto adjusted = holm_adjusted(p);
    const auto found = std::ranges::count_if(adjusted, [&](double value) { return value <= level; });
    EXPECT_EQ(static_cast<size_t>(found), rejected);
    for (size_t i = 0; i < p.size(); ++i) EXPECT_GE(adjusted[i], p[i]);
  }
}

TEST(Holm, SaysHowManyResamplesItNeeds) {
  EXPECT_EQ(fewest_resamples(1, 0.95), 39);
  EXPECT_EQ(fewest_resamples(21, 0.95), 839);   // seven models
  EXPECT_EQ(fewest_resamples(28, 0.95), 1119);  // eight
  for (const int64_t comparisons : {1, 3, 21, 210}) {
    for (const double confidence : {0.9, 0.95, 0.99}) {
      // With all comparisons at the smallest p-value of so many resamples, each is significant; with one fewer, none.
      const auto adjusted = [&](int64_t resamples) {
        const std::vector<double> smallest(static_cast<size_t>(comparisons),
                                           2 / static_cast<double>(1 + resamples));
        return holm_adjusted(smallest).front();
      };
      const int64_t fewest = fewest_resamples(comparisons, confidence);
      EXPECT_TRUE(is_significant(adjusted(fewest), confidence)) << comparisons << ' ' << confidence;
      EXPECT_FALSE(is_significant(adjusted(fewest - 1), confidence)) << comparisons << ' ' << confidence;
    }
  }
  EXPECT_EQ(too_few_resamples(21, 1000, 0.95), "");
  EXPECT_THAT(too_few_resamples(28, 1000, 0.95), testing::HasSubstr("1,119 resamples or more"));
  EXPECT_EQ(too_few_resamples(28, 0, 0.95), "");
  EXPECT_FALSE(is_significant(std::numeric_limits<double>::quiet_NaN(), 0.95));
}

}  // namespace
}  // namespace saccade::lab
