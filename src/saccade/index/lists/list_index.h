// Approximate index: rows in lists by the direction nearest to them, each row as one bit a column. A search looks into the
// few lists nearest to the query, estimates scores from the bits, and scores the best candidates again
// (list_search.h). It is an inverted file (H. Jegou, M. Douze and C. Schmid, "Product quantization for nearest neighbor
// search", TPAMI 33 (2011)) of codes as in J. Gao and C. Long, "RaBitQ: quantizing high-dimensional vectors with a
// theoretical error bound for approximate nearest neighbor search", SIGMOD 2024.
//
// Let m be the mean of a list, H the rotation (rotation.h), D the rotated columns, and o = H r - m for a row r of the
// list. Stored are the signs b of o, and f = |o|^2 / sum |o_j|. For a query q with v = H q
//
//   r . q = m . v + o . v,  and  o . v is estimated as f (b . v)
//
// which has no bias over random rotations, and an error of about 0.75 |o| |q| / sqrt(D) (RaBitQ, theorem 3.2: scaled for
// products). v is rounded to integers of kBitPlanes bits, so that b . v is a few counts of set bits.
//
// Memory: D / 8 + 6 bytes a row, 70 at 512 columns, and 4 D + 16 bytes a list.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/matrix.h"
#include "saccade/progress.h"

namespace saccade {

// Returns the number of 64-bit words of a row's signs.
constexpr int64_t sign_words(int64_t dim) {
  return (dim + 63) / 64;
}

// The lists, borrowed. Rows are in ascending order within a list.
struct ListIndex {
  int64_t dim = 0;
  int64_t covered = 0;                // rows [0, covered) of the matrix were looked at
  MatrixView<const float> means;      // [lists, 64 sign_words(dim)], rotated
  std::span<const int64_t> ends;      // [lists]: a list begins where the one before it ends
  std::span<const uint32_t> rows;     // [entries] row numbers, entries = ends.back()
  std::span<const uint16_t> factors;  // [entries] f, bfloat16
  std::span<const uint64_t> signs;    // [entries, sign_words(dim)], 1 for a positive sign
  std::span<const uint64_t> checks;   // [lists] list_check of each

  [[nodiscard]] int64_t lists() const { return std::ssize(ends); }
  [[nodiscard]] int64_t begin_of(int64_t list) const {
    return list == 0 ? 0 : ends[static_cast<size_t>(list - 1)];
  }
  [[nodiscard]] int64_t size_of(int64_t list) const {
    return ends[static_cast<size_t>(list)] - begin_of(list);
  }
};

// Returns a check over all that is stored of a list, and its number.
uint64_t list_check(const ListIndex& index, int64_t list);

// Lists that were found whole. A list of a mapped file is checked when it is first read. Thread-safe.
class ListChecks {
 public:
  explicit ListChecks(int64_t lists) : whole_(static_cast<size_t>(lists)) {}
  // Returns false for a list whose check is wrong.
  [[nodiscard]] bool is_whole(const ListIndex& index, int64_t list) const;

 private:
  mutable std::vector<std::atomic<uint8_t>> whole_;
};

// Lists that own their data.
struct BuiltLists {
  int64_t dim = 0;
  int64_t covered = 0;
  Matrix<float> means;
  std::vector<int64_t> ends;
  std::vector<uint32_t> rows;
  std::vector<uint16_t> factors;
  std::vector<uint64_t> signs;
  std::vector<uint64_t> checks;

  [[nodiscard]] ListIndex view() const {
    return {dim, covered, means.view(), ends, rows, factors, signs, checks};
  }
};

struct ListOptions {
  int64_t lists = 0;  // 0: four times the square root of the number of rows
  uint64_t seed = 0;  // of the sample that the lists' directions are learned from
};

// Builds the lists of the allowed rows: two levels of spherical k-means on a sample, then one pass over all rows. Rows that
// are not finite are in no list; their score is never returned either. The result is the same for any number of threads.
// kUsage for more than 2^32 - 1 rows, kCancelled. Cost: about 15 microseconds a row and processor at 512 columns; memory:
// that of the result, and as much again for a moment.
Result<BuiltLists> build_lists(MatrixView<const float> rows, std::span<const uint8_t> allowed,
                               const ListOptions& options, ThreadPool& pool,
                               const ProgressCallback& progress = {}, const std::stop_token& stop = {});

}  // namespace saccade
