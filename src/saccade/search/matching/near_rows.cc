#include "saccade/search/matching/near_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace saccade {
namespace {

// Columns by how much the sample's rows differ in them.
std::vector<int64_t> most_varied(MatrixView<const float> rows, std::span<const int64_t> sample,
                                 size_t count) {
  const auto dim = static_cast<size_t>(rows.columns());
  std::vector<double> sum(dim);
  std::vector<double> squares(dim);
  for (const int64_t number : sample) {
    const auto row = rows.row(number);
    for (size_t c = 0; c < dim; ++c) {
      sum[c] += double{row[c]};
      squares[c] += double{row[c]} * row[c];
    }
  }
  const double n = std::max<double>(1, static_cast<double>(sample.size()));
  std::vector<double> variance(dim);
  for (size_t c = 0; c < dim; ++c) {
    const double value = squares[c] / n - (sum[c] / n) * (sum[c] / n);
    variance[c] = std::isfinite(value) ? value : 0;  // an order needs numbers
  }
  std::vector<int64_t> columns(dim);
  std::iota(columns.begin(), columns.end(), 0);
  const auto kept = static_cast<std::ptrdiff_t>(std::min(count, dim));
  std::ranges::partial_sort(columns, columns.begin() + kept, [&](int64_t a, int64_t b) {
    const double left = variance[static_cast<size_t>(a)];
    const double right = variance[static_cast<size_t>(b)];
    return left > right || (left == right && a < b);
  });
  columns.resize(static_cast<size_t>(kept));
  return columns;
}

// In eight sums, for the compiler to make vectors of.
double square_length(std::span<const float> row) {
  constexpr size_t kSums = 8;
  double sums[kSums] = {};
  size_t i = 0;
  for (; i + kSums <= row.size(); i += kSums) {
    for (size_t s = 0; s < kSums; ++s) sums[s] += double{row[i + s]} * row[i + s];
  }
  double sum = 0;
  for (; i < row.size(); ++i) sum += double{row[i]} * row[i];
  for (const double one : sums) sum += one;
  return sum;
}

// Likewise in eight sums.
float quick_dot(std::span<const float> a, std::span<const float> b) {
  constexpr size_t kSums = 8;
  float sums[kSums] = {};
  size_t i = 0;
  for (; i + kSums <= a.size(); i += kSums) {
    for (size_t s = 0; s < kSums; ++s) sums[s] += a[i + s] * b[i + s];
  }
  float sum = 0;
  for (; i < a.size(); ++i) sum += a[i] * b[i];
  for (const float one : sums) sum += one;
  return sum;
}

// Length of the columns that a row has beside `kept`. Its rounding is within the margin that probes have. square: that of
// the row's length.
float rest_length(std::span<const float> kept, double square) {
  return static_cast<float>(std::sqrt(std::max(0.0, square - square_length(kept))));
}

}  // namespace

NearRows::NearRows(MatrixView<const float> rows, std::span<const int64_t> sample, float least)
    : rows_(rows), least_(least), columns_(most_varied(rows, sample, kColumns)) {}

void NearRows::add(int64_t row) {
  const size_t place = numbers_.size();
  numbers_.push_back(row);
  if (place % kLanes == 0) blocks_.emplace_back();
  replace(place, row);
}

void NearRows::replace(size_t place, int64_t row) {
  const auto values = rows_.row(row);
  Block& block = blocks_[place / kLanes];
  const size_t lane = place % kLanes;
  const Kept kept = kept_of(values);
  for (size_t c = 0; c < kColumns; ++c) block.values[c][lane] = kept[c];
  const double square = square_length(values);
  block.rest[lane] = rest_length(kept, square);
  numbers_[place] = row;
  longest_ = std::max(longest_, std::sqrt(square));
}

NearRows::Kept NearRows::kept_of(std::span<const float> values) const {
  Kept kept = {};
  for (size_t c = 0; c < columns_.size(); ++c) kept[c] = values[static_cast<size_t>(columns_[c])];
  return kept;
}

NearRows::Probe NearRows::probe_of(int64_t row) const {
  const auto values = rows_.row(row);
  const double square = square_length(values);
  Probe probe;
  probe.values = kept_of(values);
  probe.rest = rest_length(probe.values, square);
  // A float sum of n products is off by at most n 2^-24 |a| |b|, in any order: twice that covers the exact sum and
  // the bound. Equal rows are near whatever their length: their product is that length's square.
  const double margin = static_cast<double>(values.size() + kColumns) *
                        double{std::numeric_limits<float>::epsilon()} * std::sqrt(square) * longest_;
  probe.limit = static_cast<float>(std::min(double{least_}, square) - 2 * margin);
  return probe;
}

uint32_t NearRows::open_lanes(const Block& block, const Probe& probe) {
  float bounds[kLanes];
  for (size_t lane = 0; lane < kLanes; ++lane) bounds[lane] = probe.rest * block.rest[lane];
  for (size_t c = 0; c < kColumns; ++c) {
    for (size_t lane = 0; lane < kLanes; ++lane) bounds[lane] += probe.values[c] * block.values[c][lane];
  }
  uint32_t open = 0;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    // NaN leaves the comparison open.
    open |= static_cast<uint32_t>(!(bounds[lane] < probe.limit)) << lane;
  }
  return open;
}

bool NearRows::may_be_near(int64_t row, size_t place, const Probe& probe) const {
  return !(quick_dot(rows_.row(row), rows_.row(numbers_[place])) < probe.limit);
}

}  // namespace saccade
