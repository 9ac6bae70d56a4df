#include "saccade/core/counts.h"

#include <cmath>

#include <gtest/gtest.h>

namespace saccade {
namespace {

TEST(Counts, AreWrittenForPeople) {
  EXPECT_EQ(count_text(0), "0");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(1'000), "1,000");
  EXPECT_EQ(count_text(-1'234'567), "-1,234,567");
  EXPECT_EQ(rate_text(0.15344), "0.1534");
  EXPECT_EQ(rate_text(999.94), "999.9");
  EXPECT_EQ(rate_text(999.96), "1,000");
  EXPECT_EQ(rate_text(14'990.4), "14,990");
  EXPECT_EQ(rate_text(-1e9), "-1,000,000,000");
  EXPECT_EQ(rate_text(1e300), "1e+300");
  EXPECT_EQ(rate_text(std::nan("")), "nan");
  EXPECT_EQ(counted(1, "picture"), "1 picture");
  EXPECT_EQ(counted(0, "picture"), "0 pictures");
  EXPECT_EQ(size_text(999), "999 bytes");
  EXPECT_EQ(size_text(1'400'000), "1.4 MB");
  EXPECT_EQ(size_text(999'960), "1.0 MB");
  EXPECT_EQ(size_text(5'000'000'000'000'000), "5000.0 TB");
}

}  // namespace
}  // namespace saccade
