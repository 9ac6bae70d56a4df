// Rows quantized to 8 bits per value, a quarter of their size. Exact search excludes most rows by their codes
// alone, because the error of a score computed from codes is bounded.
//
// A row r of `dim` floats is stored as
//
//   codes   D bytes b, D = dim up to a multiple of 64
//   scale   float32 s, little-endian
//   error   float32 E, little-endian
//   check   uint32, little-endian: row_check below
//
// where c = b - 128 is in [-127, 127] and, with H the rotation below, s * c approximates H r. H flips signs
// (hash of the column), cuts the D columns into blocks of the largest power of two that divides D, and
// multiplies each by the Hadamard matrix of that size over the square root of the size. It is orthogonal, so
// H r . H q = r . q, and it spreads an outlier over its block. Encoders have columns many times larger than
// the rest, which would otherwise use up all 127 steps.
//
// The bound. Let e = H r - s c, and E >= |e| (Euclidean). Then |r| = |H r| <= s |c| + E <= 127 sqrt(D) s + E.
// A query q is split likewise into H q = x + f, where x = t1 d1 + t2 d2 for two integer vectors in [-127,
// 127]. Then
//
//   r . q = H r . H q = s c . x + s c . f + e . H q
//   |r . q - s c . x| <= s |c| |f| + |e| |q|                  (Cauchy-Schwarz, twice)
//
// The score S of exact search (dot_kernels.h) is a float32 sum in which each product takes part in at most m
// = dim / 32 + 6 roundings. So |S - r . q| <= g |r| |q| with g = m u / (1 - m u), u = 2^-24 (N. Higham,
// Accuracy and Stability of Numerical Algorithms, 2nd edition, eq. 3.5), plus at most dim roundings of
// subnormal numbers, of 2^-150 each. Together
//
//   |S - s c . x| <= s 127 sqrt(D) (|f| + g |q|) + E (1 + g) |q| + dim 2^-150
//
// s c . x is computed as a = s (t1 S1 + t2 S2) from the integers S1 = c . d1 and S2 = c . d2, in float32. Its
// five roundings apply to at most s 127 sqrt(D) (|t1 d1| + |t2 d2|). So for each row
//
//   |S - a| <= A s + B E + C
//
// with three numbers of the query (Int8Query). These are slightly larger than above, to cover the rounding of
// their own computation, of the bound, and of a plus or minus it. H r and |e| are computed in double; E
// covers those roundings by 1e-14 |r|.
//
// Many queries at a time are compared by their first part alone, x1 = t1 d1 with H q = x1 + f1, which halves the products.
// The bound is then taken with the length of the row's codes in place of its limit, and with |r| <= |s c| + E:
//
//   |S - s c . x1| <= |s c| (|f1| + g |q|) + E (1 + g) |q| + dim 2^-150
//
// Rows and queries that are not finite or longer than 2^40 are excluded. Such a row has E = infinity, so it
// is always scored in full; such a query is answered without codes. A row with a wrong check is also scored
// in full. A damaged file therefore costs time but does not change results, as far as 32 bits can detect the
// damage.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "saccade/index/int8_row_kernels.h"

namespace saccade {

// Returns the number of columns that a row of `dim` is padded to.
constexpr int64_t int8_columns(int64_t dim) {
  return (dim + kInt8Columns - 1) / kInt8Columns * kInt8Columns;
}
// Returns the size of a stored row, in bytes.
constexpr int64_t int8_row_bytes(int64_t dim) {
  return int8_columns(dim) + 2 * static_cast<int64_t>(sizeof(float)) + static_cast<int64_t>(sizeof(uint32_t));
}

// Stored codes of the first `count` rows; borrowed.
struct Int8Rows {
  const std::byte* data = nullptr;
  int64_t count = 0;
  int64_t dim = 0;
};

// Values stored after a row's codes.
struct Int8Terms {
  float scale = 0;
  float error = 0;  // E
  uint32_t check = 0;
};
inline Int8Terms read_int8_terms(const std::byte* row, int64_t columns) {
  Int8Terms terms;
  std::memcpy(&terms.scale, row + columns, sizeof(float));
  std::memcpy(&terms.error, row + columns + 4, sizeof(float));
  std::memcpy(&terms.check, row + columns + 8, sizeof(uint32_t));
  return terms;
}

// Encoder of rows of one width. Thread-safe, because it is const.
class Int8Encoder {
 public:
  // dim: 1 to kMaxInt8Columns.
  explicit Int8Encoder(int64_t dim);
  // Encodes a row. `number`: its row number from 0, which the check includes. out: int8_row_bytes(dim).
  // Accepts any values, including those that are not finite. Cost: about 2 microseconds at 512 columns.
  void encode(std::span<const float> row, int64_t number, std::span<std::byte> out) const;

 private:
  int64_t dim_;
  std::vector<double> signs_;  // signs of the columns, 1 or -1
  std::vector<int8_t> check_parts_;
};

// Returns the two vectors whose products with a row's codes enter its check: [2, columns], odd numbers and
// even ones.
std::vector<int8_t> int8_check_parts(int64_t columns);
// Computes a row's check from the products of its bytes with int8_check_parts. Any change of a single number
// changes the result, because all factors of its change but itself are odd. If several numbers change,
// all but one in some thousand millions are detected.
inline uint32_t row_check(int32_t odd_product, int32_t even_product, uint32_t scale_bits, uint32_t error_bits,
                          int64_t number) {
  return static_cast<uint32_t>(odd_product) * 0x9E3779B1U +
         static_cast<uint32_t>(even_product) * 0x165667B1U + scale_bits * 0x85EBCA77U +
         error_bits * 0xC2B2AE3DU + static_cast<uint32_t>(number + 1) * 0x27D4EB2FU;
}

// Reads a row's terms and checks them by the products of its bytes with int8_check_parts. If the check is wrong, the scale
// is 0 and the error infinite, so that the row is scored in full.
inline Int8Terms read_checked_terms(const std::byte* row, int64_t columns, int32_t odd_product,
                                    int32_t even_product, int64_t number) {
  const Int8Terms terms = read_int8_terms(row, columns);
  const uint32_t check = row_check(odd_product, even_product, std::bit_cast<uint32_t>(terms.scale),
                                   std::bit_cast<uint32_t>(terms.error), number);
  if (check == terms.check) return terms;
  return {.scale = 0, .error = std::numeric_limits<float>::infinity(), .check = terms.check};
}

// Query prepared for comparison with stored rows.
struct Int8Query {
  bool usable = false;  // finite and not too long
  // Vectors d1 and d2, [2, columns], and the offsets of their products with bytes: 128 times their sums.
  std::vector<int8_t> parts;
  int32_t start[2] = {0, 0};
  float step[2] = {0, 0};  // t1, t2
  // Coefficients of the bound: of_scale * s + of_error * E + least.
  float of_scale = 0;
  float of_error = 0;
  float least = 0;
  // Likewise by the first part alone: of_length * |s c| + of_error * E + least.
  float of_length = 0;
};
Int8Query make_int8_query(std::span<const float> query);

}  // namespace saccade
