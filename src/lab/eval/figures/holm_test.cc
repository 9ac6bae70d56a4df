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

}  // namespace
}  // namespace saccade::lab
