#include "saccade/core/rows.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace saccade {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(Rows, LengthIsEuclidean) {
  EXPECT_EQ(row_length(std::vector<float>{3, -4}), 5);
  EXPECT_EQ(row_length(std::vector<double>{}), 0);
  EXPECT_TRUE(std::isnan(row_length(std::vector<float>{1, kNan})));
  EXPECT_TRUE(std::isinf(row_length(std::vector<float>{1, kInfinity})));
  // Squares of the largest floats fit a double.
  EXPECT_TRUE(std::isfinite(row_length(std::vector<float>(1000, std::numeric_limits<float>::max()))));
}

TEST(Rows, NormalizeLeavesWhatHasNoDirection) {
  std::vector<float> row = {3, -4};
  EXPECT_EQ(normalize_row(row), 5);
  EXPECT_EQ(row, (std::vector<float>{0.6F, -0.8F}));
  std::vector<float> zero = {0, 0};
  EXPECT_EQ(normalize_row(zero), 0);
  EXPECT_EQ(zero, (std::vector<float>{0, 0}));
  std::vector<float> small = {1e-5F, 0};
  EXPECT_NEAR(normalize_row(small, 1e-4), 1e-5, 1e-10);
  EXPECT_EQ(small[0], 1e-5F);
  std::vector<float> broken = {1, kNan};
  EXPECT_TRUE(std::isnan(normalize_row(broken)));
  EXPECT_EQ(broken[0], 1);
}

TEST(Rows, SumAndItsDirection) {
  const std::vector<float> values = {1, 0, 9, 2, 4, 9};  // two rows of two columns, a stride of three
  const MatrixView<const float> rows(values.data(), 2, 2, 3);
  EXPECT_EQ(sum_rows(rows), (std::vector<double>{3, 4}));
  EXPECT_EQ(unit_row(sum_rows(rows)).value(), (std::vector<float>{0.6F, 0.8F}));
  EXPECT_EQ(unit_row(std::vector<double>{0, 0}).error().message, "a sum of length 0.0e+00");
  EXPECT_EQ(unit_row(std::vector<double>{1e-7, 0}, 1e-6).error().code, ErrorCode::kBadData);
  EXPECT_EQ(unit_row(std::vector<double>{kNan, 0}).error().message, "a sum of length nan");
}

TEST(Rows, SelectedOnesComeInTheirOrder) {
  const std::vector<float> values = {1, 2, -1, 3, 4, -1, 5, 6, -1};
  const MatrixView<const float> rows(values.data(), 3, 2, 3);
  const Matrix<float> some = select_rows(rows, std::vector<int64_t>{2, 0, 2});
  ASSERT_EQ(some.rows(), 3);
  ASSERT_EQ(some.columns(), 2);
  for (const int64_t last : {0, 2}) EXPECT_EQ(some.row(last)[1], 6);
  EXPECT_EQ(some.row(1)[0], 1);
  EXPECT_EQ(select_rows(rows, {}).rows(), 0);
}

TEST(Rows, AUnitRowIsFiniteAndOfLengthOne) {
  EXPECT_TRUE(check_unit_row(std::vector<float>{0.6F, 0.8F}));
  EXPECT_TRUE(check_unit_row(std::vector<float>{1.0009F}));
  EXPECT_EQ(check_unit_row(std::vector<float>{1.002F}).error().code, ErrorCode::kBadData);
  EXPECT_TRUE(check_unit_row(std::vector<float>{1.002F}, 5e-3));
  EXPECT_EQ(check_unit_row(std::vector<float>{0, 0}).error().message, "a row of length 0, expected 1");
  EXPECT_EQ(check_unit_row(std::vector<float>{kNan, 1}).error().message, "a row of length nan, expected 1");
  EXPECT_FALSE(check_unit_row(std::vector<float>{kInfinity}));
}

}  // namespace
}  // namespace saccade
