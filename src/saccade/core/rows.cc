#include "saccade/core/rows.h"

#include <algorithm>
#include <cmath>

namespace saccade {
namespace {

template <typename T>
double length_of(std::span<const T> row) {
  double squares = 0;
  for (const T value : row) squares += double{value} * value;
  return std::sqrt(squares);
}

}  // namespace

double row_length(std::span<const float> row) {
  return length_of(row);
}
double row_length(std::span<const double> row) {
  return length_of(row);
}

double dot_product(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * b[i];
  return sum;
}

double normalize_row(std::span<float> row, double least) {
  const double length = row_length(row);
  if (!std::isfinite(length) || length <= least) return length;
  for (float& value : row) value = static_cast<float>(value / length);
  return length;
}

Matrix<float> select_rows(MatrixView<const float> rows, std::span<const int64_t> which) {
  Matrix<float> some(std::ssize(which), rows.columns());
  for (size_t i = 0; i < which.size(); ++i) {
    std::ranges::copy(rows.row(which[i]), some.row(static_cast<int64_t>(i)).begin());
  }
  return some;
}

std::vector<double> sum_rows(MatrixView<const float> rows) {
  std::vector<double> sum(static_cast<size_t>(rows.columns()));
  for (int64_t r = 0; r < rows.rows(); ++r) {
    const auto row = rows.row(r);
    for (size_t c = 0; c < sum.size(); ++c) sum[c] += double{row[c]};
  }
  return sum;
}

Result<std::vector<float>> unit_row(std::span<const double> sum, double least) {
  const double length = row_length(sum);
  if (!std::isfinite(length) || length <= least) {
    return fail(ErrorCode::kBadData, "a sum of length {:.1e}", length);
  }
  std::vector<float> row;
  row.reserve(sum.size());
  for (const double value : sum) row.push_back(static_cast<float>(value / length));
  return row;
}

Status check_unit_row(std::span<const float> row, double tolerance) {
  const double length = row_length(row);
  // Written so that NaN fails.
  if (!(std::abs(length - 1.0) <= tolerance)) {
    return fail(ErrorCode::kBadData, "a row of length {}, expected 1", length);
  }
  return {};
}

}  // namespace saccade
