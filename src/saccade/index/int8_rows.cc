#include "saccade/index/int8_rows.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>

#include "saccade/index/dot_kernels.h"
#include "saccade/index/rotation.h"

namespace saccade {
namespace {

constexpr double kMostLength = 0x1p40;

// Rounds up to float.
float rounded_up(double value) {
  const auto rounded = static_cast<float>(value);
  return static_cast<double>(rounded) >= value
             ? rounded
             : std::nextafter(rounded, std::numeric_limits<float>::infinity());
}

double length_of(std::span<const double> values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

// Computes H v. values: [signs].
std::vector<double> rotated(std::span<const float> v, const std::vector<double>& signs) {
  std::vector<double> values(signs.size());
  rotate<double>(v, signs, values);
  return values;
}

// Rounds the values to steps of `scale` and replaces them by their residuals.
float take_steps(std::span<double> values, float scale, std::span<int8_t> steps) {
  for (size_t c = 0; c < values.size(); ++c) {
    const double step =
        scale > 0 ? std::clamp(std::nearbyint(values[c] / static_cast<double>(scale)), -127.0, 127.0) : 0.0;
    steps[c] = static_cast<int8_t>(step);
    values[c] -= step * static_cast<double>(scale);
  }
  return scale;
}

float scale_of(std::span<const double> values) {
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  return static_cast<float>(largest / 127);
}

}  // namespace

Int8Encoder::Int8Encoder(int64_t dim)
    : dim_(dim),
      signs_(column_signs<double>(int8_columns(dim))),
      check_parts_(int8_check_parts(int8_columns(dim))) {
  assert(dim > 0 && dim <= kMaxInt8Columns);
}

void Int8Encoder::encode(std::span<const float> row, int64_t number, std::span<std::byte> out) const {
  const auto columns = static_cast<size_t>(int8_columns(dim_));
  assert(static_cast<int64_t>(row.size()) == dim_ &&
         static_cast<int64_t>(out.size()) == int8_row_bytes(dim_));
  std::vector<double> values = rotated(row, signs_);
  const double length = length_of(values);
  std::vector<int8_t> steps(columns);
  float scale = 0;
  float error = std::numeric_limits<float>::infinity();
  if (length <= kMostLength) {
    scale = take_steps(values, scale_of(values), steps);
    error = rounded_up(length_of(values) * (1 + 1e-9) + 1e-14 * length);
  }
  int32_t products[2] = {0, 0};
  for (size_t c = 0; c < columns; ++c) {
    const int code = steps[c] + 128;
    out[c] = static_cast<std::byte>(code);
    products[0] += code * check_parts_[c];
    products[1] += code * check_parts_[columns + c];
  }
  uint32_t bits[3] = {};
  std::memcpy(&bits[0], &scale, sizeof(float));
  std::memcpy(&bits[1], &error, sizeof(float));
  bits[2] = row_check(products[0], products[1], bits[0], bits[1], number);
  std::memcpy(out.data() + columns, bits, sizeof(bits));
}

std::vector<int8_t> int8_check_parts(int64_t columns) {
  std::vector<int8_t> parts(static_cast<size_t>(2 * columns));
  for (int64_t c = 0; c < columns; ++c) {
    const uint64_t bits = column_bits(c);
    const auto odd = static_cast<int>(bits >> 32 & 0x7f) - 63;
    const auto even = static_cast<int>(bits >> 48 & 0x7f) - 63;
    parts[static_cast<size_t>(c)] = static_cast<int8_t>(odd | 1);
    parts[static_cast<size_t>(columns + c)] = static_cast<int8_t>(even & ~1);
  }
  return parts;
}

Int8Query make_int8_query(std::span<const float> query) {
  Int8Query made;
  const auto dim = static_cast<int64_t>(query.size());
  const auto columns = static_cast<size_t>(int8_columns(dim));
  std::vector<double> values = rotated(query, column_signs<double>(static_cast<int64_t>(columns)));
  const double length = length_of(values);
  if (!(length <= kMostLength)) return made;
  made.usable = true;
  made.parts.resize(2 * columns);
  const auto left = [&] { return length_of(values) * (1 + 1e-9) + 1e-14 * length; };  // |f|
  double part_lengths = 0;                                                            // |t1 d1| + |t2 d2|
  double first_length = 0;                                                            // |t1 d1|
  double first_left = 0;                                                              // |f1|
  for (size_t p = 0; p < 2; ++p) {
    const std::span<int8_t> steps(made.parts.data() + p * columns, columns);
    made.step[p] = take_steps(values, scale_of(values), steps);
    double squares = 0;
    for (const int8_t step : steps) {
      squares += static_cast<double>(step) * step;
      made.start[p] += 128 * step;
    }
    part_lengths += std::sqrt(squares) * static_cast<double>(made.step[p]);
    if (p == 0) {
      first_length = part_lengths;
      first_left = left();
    }
  }
  constexpr double kUnit = 0x1p-24;
  const double roundings = static_cast<double>(padded_dim(dim) / kDotLanes + 6) * kUnit;
  const double of_score = roundings / (1 - roundings);  // g
  // Bound on the rounding errors of a, of the bound and of their sum.
  constexpr double kOfSum = 16 * kUnit;
  constexpr double kOfBound = 1 + 16 * kUnit;
  const double long_code = 127 * std::sqrt(static_cast<double>(columns));
  made.of_scale = rounded_up(long_code * (left() + of_score * length + kOfSum * part_lengths) * kOfBound);
  made.of_length = rounded_up((first_left + of_score * length + kOfSum * first_length) * kOfBound);
  // Never 0, because 0 times an infinite E would be NaN.
  made.of_error = std::max(rounded_up((1 + of_score) * length * (1 + 1e-9) * kOfBound),
                           std::numeric_limits<float>::min());
  // Underflow below the smallest normal number: 2^-150 per step, times scales of up to 2^40.
  made.least = rounded_up(static_cast<double>(columns) * 0x1p-100);
  return made;
}

}  // namespace saccade
