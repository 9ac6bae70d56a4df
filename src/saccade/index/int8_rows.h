// Rows in eight bits a value, a quarter of their size, by which most rows are shown to be no answer without
// reading them: what a row's codes say of its score is off by no more than is known.
//
// A row r of `dim` floats is stored as
//
//   codes   D bytes b, D = dim up to a multiple of 64
//   scale   float32 s, little-endian
//   error   float32 E, little-endian
//   check   uint32, little-endian: row_check below
//
// where c = b - 128 is in [-127, 127] and, with H the rotation below, s * c is about H r. H flips signs
// (hash of the column), cuts the D columns into blocks of the largest power of two that divides D, and
// multiplies each by the Hadamard matrix of that size over the square root of the size. It is orthogonal, so
// that H r . H q = r . q, and it spreads a value that stands out over its block: encoders have columns many
// times larger than the rest, which would else take all 127 steps for themselves.
//
// The bound. Let e = H r - s c, and E >= |e| (Euclidean), so that |r| = |H r| <= s |c| + E <= 127
// sqrt(D) s + E. A query q is split likewise into H q = x + f, where x = t1 d1 + t2 d2 for two vectors
// of whole numbers in [-127, 127]. Then
//
//   r . q = H r . H q = s c . x + s c . f + e . H q
//   |r . q - s c . x| <= s |c| |f| + |e| |q|                  (Cauchy-Schwarz, twice)
//
// The score S of exact search (dot_kernels.h) is a sum in float32 in which no product meets more than m = dim
// / 32 + 6 roundings, so that |S - r . q| <= g |r| |q| with g = m u / (1 - m u), u = 2^-24 (N. Higham,
// Accuracy and Stability of Numerical Algorithms, 2nd edition, eq. 3.5), and at most dim roundings of numbers
// below the least normal one, of 2^-150 each. Together
//
//   |S - s c . x| <= s 127 sqrt(D) (|f| + g |q|) + E (1 + g) |q| + dim 2^-150
//
// s c . x is found as a = s (t1 S1 + t2 S2) from the whole numbers S1 = c . d1 and S2 = c . d2, in float32,
// whose five roundings are of no more than s 127 sqrt(D) (|t1 d1| + |t2 d2|). So for each row
//
//   |S - a| <= A s + B E + C
//
// with three numbers of the query (Int8Query), which are made somewhat larger than above for what computing
// them, the bound itself, and a plus or minus it, rounds. H r and |e| are computed in double, whose roundings
// E makes up for by 1e-14 |r|.
//
// Rows and queries longer than 2^40, or not finite, are out of this: such a row has E = infinity, so that it
// is always looked at, and such a query is answered without codes. A check that is wrong does likewise: what
// damage does to the file costs time, not answers, as far as 32 bits tell.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "saccade/index/int8_row_kernels.h"

namespace saccade {

// The columns that a row of `dim` is padded to.
constexpr int64_t int8_columns(int64_t dim) {
  return (dim + kInt8Columns - 1) / kInt8Columns * kInt8Columns;
}
// What a stored row takes, in bytes.
constexpr int64_t int8_row_bytes(int64_t dim) {
  return int8_columns(dim) + 2 * static_cast<int64_t>(sizeof(float)) + static_cast<int64_t>(sizeof(uint32_t));
}

// The first `count` of some rows, stored as above; borrowed.
struct Int8Rows {
  const std::byte* data = nullptr;
  int64_t count = 0;
  int64_t dim = 0;
};

// What lies behind a row's codes.
struct Int8Terms {
  float scale = 0;
  float error = 0;  // E
  uint32_t check = 0;
};
Int8Terms read_int8_terms(const std::byte* row, int64_t columns);

// Stores rows of one width. Thread-safe: const.
class Int8Encoder {
 public:
  // dim: 1 to kMaxInt8Columns.
  explicit Int8Encoder(int64_t dim);
  // `number`: which row it is, from 0; the check holds it to its place. out: int8_row_bytes(dim).
  // Any values, those that are not finite too. Cost: some 2 microseconds at 512 columns.
  void encode(std::span<const float> row, int64_t number, std::span<std::byte> out) const;

 private:
  int64_t dim_;
  std::vector<double> signs_;  // of the columns, 1 or -1
  std::vector<int8_t> check_parts_;
};

// The two vectors whose products with a row's codes go into its check: [2,
// columns], odd numbers and even ones.
std::vector<int8_t> int8_check_parts(int64_t columns);
// The products: of the row's bytes with int8_check_parts. A change of any one number changes the result, as
// all factors of its change are odd but itself; of several, all but one in some thousand millions do.
inline uint32_t row_check(int32_t odd_product, int32_t even_product, uint32_t scale_bits, uint32_t error_bits,
                          int64_t number) {
  return static_cast<uint32_t>(odd_product) * 0x9E3779B1U +
         static_cast<uint32_t>(even_product) * 0x165667B1U + scale_bits * 0x85EBCA77U +
         error_bits * 0xC2B2AE3DU + static_cast<uint32_t>(number + 1) * 0x27D4EB2FU;
}

// A query, ready to be held against stored rows.
struct Int8Query {
  bool usable = false;  // finite and not too long
  // d1 and d2, [2, columns], and what their products with bytes are too large by: 128 times their sums.
  std::vector<int8_t> parts;
  int32_t start[2] = {0, 0};
  float step[2] = {0, 0};  // t1, t2
  // The bound: of_scale * s + of_error * E + least.
  float of_scale = 0;
  float of_error = 0;
  float least = 0;
};
Int8Query make_int8_query(std::span<const float> query);

}  // namespace saccade
