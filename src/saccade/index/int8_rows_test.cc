// Tests of 8-bit rows: the bound holds, and a search with them gives the same result as without.
#include "saccade/index/int8_rows.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <ostream>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/rows.h"
#include "saccade/index/dot_kernels.h"
#include "saccade/index/exact_search.h"
#include "saccade/index/int8_tiles.h"

namespace saccade {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

Matrix<float> random_rows(int64_t rows, int64_t columns, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Matrix<float> result(rows, columns);
  for (float& value : result.values()) value = normal(random);
  for (int64_t r = 0; r < rows; ++r) normalize_row(result.row(r));
  return result;
}

struct Stored {
  std::vector<std::byte> bytes;
  int64_t count = 0;
  int64_t dim = 0;

  [[nodiscard]] Int8Rows view() const { return {bytes.data(), count, dim}; }
  std::span<std::byte> row(int64_t r) {
    const int64_t width = int8_row_bytes(dim);
    return std::span(bytes).subspan(static_cast<size_t>(r * width), static_cast<size_t>(width));
  }
};

Stored stored(MatrixView<const float> rows) {
  Stored result{{}, rows.rows(), rows.columns()};
  result.bytes.resize(static_cast<size_t>(rows.rows() * int8_row_bytes(rows.columns())));
  const Int8Encoder encoder(rows.columns());
  for (int64_t r = 0; r < rows.rows(); ++r) encoder.encode(rows.row(r), r, result.row(r));
  return result;
}

float score_of(std::span<const float> row, std::span<const float> query) {
  const auto dim = static_cast<int64_t>(row.size());
  std::vector<float> padded(static_cast<size_t>(padded_dim(dim)));
  std::ranges::copy(query, padded.begin());
  std::array<const float*, 1 + kDotRowGroup> pointers;
  pointers.fill(row.data());
  float score = 0;
  dot_kernels().front().run(pointers.data(), 1, padded.data(), 1, dim, &score);
  return score;
}

// Score according to the codes and the query's first `parts` parts, in plain double arithmetic, and its error bound.
struct About {
  double score = 0;
  double bound = 0;
};
About about(Stored& rows, int64_t r, const Int8Query& query, int64_t parts = 2) {
  const int64_t columns = int8_columns(rows.dim);
  const auto row = rows.row(r);
  const Int8Terms terms = read_int8_terms(row.data(), columns);
  double sum = 0;
  double squares = 0;
  for (int64_t c = 0; c < columns; ++c)
    squares += std::pow(static_cast<double>(row[static_cast<size_t>(c)]) - 128, 2);
  for (int64_t p = 0; p < parts; ++p) {
    int64_t part = 0;
    for (int64_t c = 0; c < columns; ++c) {
      part += (static_cast<int64_t>(row[static_cast<size_t>(c)]) - 128) *
              query.parts[static_cast<size_t>(p * columns + c)];
    }
    sum += static_cast<double>(query.step[p]) * static_cast<double>(part);
  }
  const double by_length =
      parts == 2 ? static_cast<double>(query.of_scale) : query.of_length * std::sqrt(squares);
  return {static_cast<double>(terms.scale) * sum,
          by_length * terms.scale + static_cast<double>(query.of_error) * terms.error + query.least};
}

using Answers = std::vector<std::vector<RowScore>>;

void expect_same(const Answers& found, const Answers& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t q = 0; q < found.size(); ++q) {
    ASSERT_EQ(found[q].size(), expected[q].size()) << "query " << q;
    for (size_t i = 0; i < found[q].size(); ++i) {
      ASSERT_EQ(found[q][i].row, expected[q][i].row) << "query " << q << " rank " << i;
      ASSERT_EQ(std::bit_cast<uint32_t>(found[q][i].score), std::bit_cast<uint32_t>(expected[q][i].score));
    }
  }
}

// Checks that the results equal those without 8-bit rows. Returns how many rows each query scored in full.
std::vector<int64_t> expect_exact(MatrixView<const float> rows, const Stored& int8,
                                  MatrixView<const float> queries, int64_t k, int threads = 2,
                                  std::span<const uint8_t> allowed = {}) {
  ThreadPool pool(threads);
  const auto found = find_rows({rows, allowed, int8.view()}, queries, k, pool);
  const auto expected = exact_search(rows, queries, k, pool, allowed);
  EXPECT_TRUE(found.has_value()) << found.error().message;
  if (!found || !expected) return {};
  expect_same(found->best, *expected);
  return found->rescored;
}

// --- kernels -----------------------------------------------------------------------------------------------

TEST(Int8Kernels, AllGiveTheSumsOfWholeNumbers) {
  EXPECT_EQ(int8_kernels().back().name, "portable");
  std::mt19937 random(1);
  for (const int64_t columns : {64, 128, 512, 576}) {
    for (const int64_t row_count : {1, 3, 4, 9}) {
      for (const int64_t part_count : {1, 2, 3, 6, 7, 13}) {
        const int64_t stride = columns + 12;
        // The last row ends the array, because kernels must not need the rows that they prefetch.
        std::vector<std::byte> rows(static_cast<size_t>(row_count * stride));
        for (std::byte& byte : rows) byte = static_cast<std::byte>(random());
        std::vector<int8_t> parts(static_cast<size_t>(part_count * columns));
        for (int8_t& value : parts) value = static_cast<int8_t>(static_cast<int>(random() % 255) - 127);
        for (const NamedInt8Kernel& kernel : int8_kernels()) {
          std::vector<int32_t> sums(static_cast<size_t>(row_count * part_count), -1);
          kernel.run(rows.data(), row_count, stride, columns, parts.data(), part_count, sums.data());
          for (int64_t p = 0; p < part_count; ++p) {
            for (int64_t r = 0; r < row_count; ++r) {
              int64_t sum = 0;
              for (int64_t c = 0; c < columns; ++c) {
                sum += static_cast<int64_t>(rows[static_cast<size_t>(r * stride + c)]) *
                       parts[static_cast<size_t>(p * columns + c)];
              }
              ASSERT_EQ(sums[static_cast<size_t>(p * row_count + r)], sum) << kernel.name;
            }
          }
        }
      }
    }
  }
}

TEST(Int8Kernels, TheLargestSumsFit) {
  const std::vector<std::byte> row(static_cast<size_t>(kMaxInt8Columns), std::byte{255});
  for (const int8_t value : {int8_t{127}, int8_t{-127}}) {
    const std::vector<int8_t> part(static_cast<size_t>(kMaxInt8Columns), value);
    for (const NamedInt8Kernel& kernel : int8_kernels()) {
      int32_t sum = 0;
      kernel.run(row.data(), 1, kMaxInt8Columns, kMaxInt8Columns, part.data(), 1, &sum);
      EXPECT_EQ(sum, 255 * kMaxInt8Columns * value) << kernel.name;
    }
  }
}

struct alignas(64) Aligned {
  std::byte bytes[64];
};

TEST(Int8TileKernels, AllGiveWhatTheDefinitionSays) {
  EXPECT_EQ(int8_tile_kernels().back().name, "portable");
  std::mt19937 random(5);
  for (const int64_t columns : {64, 128, 576}) {
    for (const int64_t row_count : {1, 15, 16, 33, 64}) {
      for (const int64_t part_count : {1, 5, 6, 7, 13}) {
        const int64_t stride = columns + 12;
        std::vector<std::byte> rows(static_cast<size_t>(row_count * stride));
        for (std::byte& byte : rows) byte = static_cast<std::byte>(random());
        std::vector<int8_t> parts(static_cast<size_t>(part_count * columns));
        for (int8_t& value : parts) value = static_cast<int8_t>(static_cast<int>(random() % 255) - 127);
        for (const NamedInt8TileKernel& kernel : int8_tile_kernels()) {
          SCOPED_TRACE(kernel.name);
          std::vector<Aligned> side_by_side(static_cast<size_t>(columns));
          std::byte* turned = side_by_side.front().bytes;
          std::fill_n(turned, 64 * columns, std::byte{77});
          kernel.turn(rows.data(), row_count, stride, columns, turned);
          std::vector<int32_t> sums(static_cast<size_t>(part_count * kInt8TileRows), -1);
          kernel.multiply(turned, columns, parts.data(), part_count, sums.data(), rows.data());
          std::vector<int32_t> squares(kInt8TileRows, -1);
          kernel.square(turned, columns, squares.data());
          for (int64_t r = 0; r < kInt8TileRows; ++r) {
            const auto code = [&](int64_t c) {
              return r < row_count ? static_cast<int32_t>(rows[static_cast<size_t>(r * stride + c)]) : 0;
            };
            int32_t square = 0;
            for (int64_t c = 0; c < columns; ++c) square += (code(c) - 128) * (code(c) - 128);
            ASSERT_EQ(squares[static_cast<size_t>(r)], square) << "row " << r;
            for (int64_t p = 0; p < part_count; ++p) {
              int32_t sum = 0;
              for (int64_t c = 0; c < columns; ++c)
                sum += code(c) * parts[static_cast<size_t>(p * columns + c)];
              ASSERT_EQ(sums[static_cast<size_t>(p * kInt8TileRows + r)], sum)
                  << "row " << r << " part " << p;
            }
          }
        }
      }
    }
  }
}

TEST(Int8TileKernels, TheLargestSumsFit) {
  for (const int value : {0, 255}) {
    const std::vector<std::byte> row(static_cast<size_t>(kMaxInt8Columns), static_cast<std::byte>(value));
    for (const int8_t step : {int8_t{127}, int8_t{-127}}) {
      const std::vector<int8_t> part(static_cast<size_t>(kMaxInt8Columns), step);
      for (const NamedInt8TileKernel& kernel : int8_tile_kernels()) {
        std::vector<Aligned> turned(static_cast<size_t>(kMaxInt8Columns));
        kernel.turn(row.data(), 1, kMaxInt8Columns, kMaxInt8Columns, turned.front().bytes);
        std::vector<int32_t> sums(kInt8TileRows);
        kernel.multiply(turned.front().bytes, kMaxInt8Columns, part.data(), 1, sums.data(), nullptr);
        EXPECT_EQ(sums.front(), value * kMaxInt8Columns * step) << kernel.name;
        kernel.square(turned.front().bytes, kMaxInt8Columns, sums.data());
        EXPECT_EQ(sums.front(), (value - 128) * (value - 128) * kMaxInt8Columns) << kernel.name;
      }
    }
  }
}

TEST(Int8TileKernels, ARowIsLeftOutOnlyBelowTheLimit) {
  std::mt19937 random(6);
  std::uniform_real_distribution<float> uniform(0, 1);
  Int8TileTerms terms{};
  std::vector<int32_t> sums(kInt8TileRows);
  for (size_t r = 0; r < kInt8TileRows; ++r) {
    terms.scale[r] = uniform(random) / 100;
    terms.length[r] = uniform(random);
    terms.error[r] = uniform(random) / 10;
    sums[r] = static_cast<int32_t>(random() % 2'000'000) - 1'000'000;
  }
  terms.error[3] = kInfinity;
  terms.scale[5] = std::nanf("");
  const Int8TileQuery query{-12'345, 0.003F, 0.01F, 1.5F, 1e-6F};
  const auto most = [&](size_t r) {
    const double about = double{terms.scale[r]} * query.step * static_cast<double>(sums[r] - query.start);
    return about + double{query.of_length} * terms.length[r] + double{query.of_error} * terms.error[r] +
           query.least;
  };
  for (const NamedInt8TileKernel& kernel : int8_tile_kernels()) {
    SCOPED_TRACE(kernel.name);
    EXPECT_EQ(kernel.reach(terms, query, sums.data(), -kInfinity), ~uint64_t{0});
    EXPECT_EQ(kernel.reach(terms, query, sums.data(), kInfinity), uint64_t{1} << 3 | uint64_t{1} << 5);
    for (size_t r = 0; r < kInt8TileRows; ++r) {
      if (!std::isfinite(most(r))) continue;
      const auto step = static_cast<float>(1e-5 * std::abs(most(r)));
      const auto at = static_cast<float>(most(r));
      EXPECT_NE(kernel.reach(terms, query, sums.data(), at - step) >> r & 1, 0U) << "row " << r;
      EXPECT_EQ(kernel.reach(terms, query, sums.data(), at + step) >> r & 1, 0U) << "row " << r;
    }
  }
}

// --- the bound ---------------------------------------------------------------------------------------------

// Returns rows of every kind, including some whose scores are hard to separate.
Matrix<float> odd_rows(int64_t dim) {
  Matrix<float> rows = random_rows(48, dim, 3);
  for (int64_t r = 0; r < 8; ++r) rows(r, 0) = 30;                        // one column outshines all
  for (int64_t r = 8; r < 16; ++r) std::ranges::fill(rows.row(r), 0.1F);  // all alike
  std::ranges::fill(rows.row(16), 0.0F);
  std::ranges::fill(rows.row(17), -0.0F);
  for (float& value : rows.row(18)) value *= 1e-40F;  // below the least normal number
  for (float& value : rows.row(19)) value *= 1e-30F;
  for (float& value : rows.row(20)) value *= 1e10F;
  for (float& value : rows.row(21)) value *= 1e11F;
  std::ranges::fill(rows.row(22), 0.0F);
  rows(22, dim - 1) = 1;
  for (int64_t c = 0; c < dim; ++c) rows(23, c) = c % 2 == 0 ? 1.0F : -1.0F;
  rows(24, 0) = std::numeric_limits<float>::denorm_min();
  return rows;
}

TEST(Int8Rows, NoScoreIsFurtherOffThanTheBound) {
  for (const int64_t dim : {1, 8, 63, 64, 65, 100, 192, 512, 768, 1152}) {
    const Matrix<float> rows = odd_rows(dim);
    const Matrix<float> queries = odd_rows(dim);
    Stored int8 = stored(rows.view());
    for (int64_t q = 0; q < queries.rows(); ++q) {
      const Int8Query query = make_int8_query(queries.row(q));
      ASSERT_TRUE(query.usable);
      for (int64_t r = 0; r < rows.rows(); ++r) {
        const About found = about(int8, r, query);
        const double score = score_of(rows.row(r), queries.row(q));
        ASSERT_LE(std::abs(score - found.score), found.bound)
            << "dim " << dim << " row " << r << " query " << q;
        const About by_one = about(int8, r, query, 1);
        ASSERT_LE(std::abs(score - by_one.score), by_one.bound)
            << "dim " << dim << " row " << r << " query " << q << " by one part";
      }
    }
    // The bound is useful: about a hundredth for rows of length 1.
    const Int8Query plain = make_int8_query(queries.row(47));
    EXPECT_LT(about(int8, 47, plain).bound, 0.013) << dim;
    EXPECT_LT(about(int8, 47, plain, 1).bound, 0.02) << dim;
  }
}

TEST(Int8Rows, AColumnThatOutshinesAllCostsLittle) {
  Matrix<float> rows = random_rows(2, 512, 4);
  rows(0, 133) = 1;  // as the largest columns of published encoders: more than half of the row's length
  normalize_row(rows.row(0));
  Stored int8 = stored(rows.view());
  const int64_t columns = int8_columns(512);
  EXPECT_LT(read_int8_terms(int8.row(0).data(), columns).error,
            1.5F * read_int8_terms(int8.row(1).data(), columns).error);
}

// Returns the query for which a row's score is off by almost the whole bound. It lies along the row's own
// residual, which is found by querying each column separately.
std::vector<float> worst_query(Stored& int8, int64_t r, std::span<const float> row) {
  std::vector<float> residual(row.begin(), row.end());
  for (size_t c = 0; c < row.size(); ++c) {
    std::vector<float> column(row.size());
    column[c] = 1;
    residual[c] -= static_cast<float>(about(int8, r, make_int8_query(column)).score);
  }
  normalize_row(residual);
  return residual;
}

TEST(Int8Rows, TheBoundIsMetSoThatNoSmallerOneHolds) {
  const Matrix<float> rows = random_rows(3, 256, 5);
  Stored int8 = stored(rows.view());
  for (int64_t r = 0; r < rows.rows(); ++r) {
    const std::vector<float> query = worst_query(int8, r, rows.row(r));
    const About found = about(int8, r, make_int8_query(query));
    const double off = score_of(rows.row(r), query) - found.score;
    EXPECT_LE(off, found.bound);
    EXPECT_GT(off, 0.9 * found.bound);
  }
}

TEST(Int8Rows, WhatIsNotFiniteOrTooLongIsAlwaysInQuestion) {
  Matrix<float> rows = random_rows(5, 64, 6);
  rows(0, 3) = std::nanf("");
  rows(1, 3) = kInfinity;
  rows(2, 3) = 3e38F;
  rows(3, 3) = 1e13F;
  Stored int8 = stored(rows.view());
  for (int64_t r = 0; r < 4; ++r) EXPECT_EQ(read_int8_terms(int8.row(r).data(), 64).error, kInfinity) << r;
  EXPECT_LT(read_int8_terms(int8.row(4).data(), 64).error, 0.1F);
  for (int64_t r = 0; r < 4; ++r) EXPECT_FALSE(make_int8_query(rows.row(r)).usable) << r;
  EXPECT_TRUE(make_int8_query(rows.row(4)).usable);
}

TEST(Int8Rows, ACheckHoldsARowToItsNumbersAndItsPlace) {
  const Matrix<float> rows = random_rows(1, 100, 7);
  const Stored whole = stored(rows.view());
  const int64_t columns = int8_columns(100);
  const auto parts = int8_check_parts(columns);
  const auto is_whole = [&](const std::vector<std::byte>& bytes, int64_t number) {
    int32_t products[2] = {0, 0};
    for (size_t i = 0; i < parts.size(); ++i) {
      const auto columns_wide = static_cast<size_t>(columns);
      products[i / columns_wide] += static_cast<int>(bytes[i % columns_wide]) * parts[i];
    }
    const Int8Terms terms = read_int8_terms(bytes.data(), columns);
    return row_check(products[0], products[1], std::bit_cast<uint32_t>(terms.scale),
                     std::bit_cast<uint32_t>(terms.error), number) == terms.check;
  };
  EXPECT_TRUE(is_whole(whole.bytes, 0));
  EXPECT_FALSE(is_whole(whole.bytes, 1));
  for (size_t byte = 0; byte < whole.bytes.size(); ++byte) {
    for (int bit = 0; bit < 8; ++bit) {
      std::vector<std::byte> damaged = whole.bytes;
      damaged[byte] ^= static_cast<std::byte>(1 << bit);
      ASSERT_FALSE(is_whole(damaged, 0)) << "byte " << byte << " bit " << bit;
    }
  }
  // Swapped codes, which would cancel out in a plain sum.
  for (size_t a = 0; a + 1 < static_cast<size_t>(columns); ++a) {
    for (size_t b = a + 1; b < static_cast<size_t>(columns); ++b) {
      if (whole.bytes[a] == whole.bytes[b]) continue;
      if (parts[a] == parts[b] &&
          parts[static_cast<size_t>(columns) + a] == parts[static_cast<size_t>(columns) + b]) {
        continue;  // those two columns' codes alone can swap places unseen
      }
      std::vector<std::byte> damaged = whole.bytes;
      std::swap(damaged[a], damaged[b]);
      ASSERT_FALSE(is_whole(damaged, 0)) << a << " and " << b;
    }
  }
  // Blocks that were never written read as zeros.
  EXPECT_FALSE(is_whole(std::vector<std::byte>(whole.bytes.size()), 0));
}

// --- search ------------------------------------------------------------------------------------------------

struct Kind {
  const char* name;
  std::function<Matrix<float>()> rows;
};
void PrintTo(const Kind& kind, std::ostream* out) {
  *out << kind.name;
}

// More rows than one part, and a partial tile.
constexpr int64_t kManyRows = 70'011;

// Returns rows around few centers, so close that their bounds overlap widely.
Matrix<float> clusters(int64_t count, int64_t dim, float spread) {
  const Matrix<float> centres = random_rows(7, dim, 11);
  Matrix<float> rows = random_rows(count, dim, 12);
  for (int64_t r = 0; r < count; ++r) {
    for (int64_t c = 0; c < dim; ++c) rows(r, c) = centres(r % 7, c) + spread * rows(r, c);
    normalize_row(rows.row(r));
  }
  return rows;
}

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {"Random", [] { return random_rows(kManyRows, 64, 10); }},
      {"NearDuplicates", [] { return clusters(kManyRows, 48, 0.01F); }},
      {"NearerDuplicates", [] { return clusters(kManyRows, 48, 1e-6F); }},
      {"Equal",
       [] {
         const Matrix<float> distinct = random_rows(3, 40, 13);
         Matrix<float> rows(kManyRows, 40);
         for (int64_t r = 0; r < rows.rows(); ++r)
           std::ranges::copy(distinct.row(r % 3), rows.row(r).begin());
         return rows;
       }},
      {"OneColumnOutshines",
       [] {
         Matrix<float> rows = random_rows(kManyRows, 64, 14);
         for (int64_t r = 0; r < rows.rows(); ++r) {
           rows(r, 5) = 3;
           normalize_row(rows.row(r));
         }
         return rows;
       }},
      {"AllLengths",
       [] {
         Matrix<float> rows = random_rows(kManyRows, 64, 15);
         for (int64_t r = 0; r < rows.rows(); ++r) {
           const float length = std::pow(10.0F, static_cast<float>(r % 90) - 45);
           for (float& value : rows.row(r)) value *= length;
         }
         return rows;
       }},
      {"NotFinite",
       [] {
         Matrix<float> rows = random_rows(kManyRows, 64, 16);
         for (int64_t r = 0; r < rows.rows(); r += 101) {
           rows(r, r % 64) = r % 2 == 0 ? std::nanf("") : r % 3 == 0 ? kInfinity : -kInfinity;
         }
         return rows;
       }},
      {"Zeros", [] { return Matrix<float>(kManyRows, 16); }},
  };
  return all;
}

class Int8Search : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Rows, Int8Search, testing::ValuesIn(kinds()),
                         [](const auto& kind) { return std::string(kind.param.name); });

// More queries than one block of them holds.
TEST_P(Int8Search, ManyQueriesAreAnsweredBitForBit) {
  const Matrix<float> rows = GetParam().rows();
  const Stored int8 = stored(rows.view().slice(0, kManyRows - 77));
  const int64_t dim = rows.columns();
  Matrix<float> queries = random_rows(100, dim, 22);
  for (int64_t q = 0; q < 50; ++q) {
    std::ranges::copy(rows.row(q * 1'399 + 1), queries.row(q).begin());
    if (!(row_length(queries.row(q)) < 1e6)) std::ranges::fill(queries.row(q), 0.5F);
  }
  std::ranges::fill(queries.row(60), 0.0F);
  for (float& value : queries.row(61)) value *= 1e-39F;
  for (float& value : queries.row(62)) value *= 1e9F;
  std::vector<uint8_t> most(static_cast<size_t>(rows.rows()));
  std::mt19937 random(23);
  for (uint8_t& flag : most) flag = random() % 3 != 0 ? 1 : 0;
  const size_t counted = has_fast_int8_tiles() ? 100 : 0;
  EXPECT_EQ(expect_exact(rows.view(), int8, queries.view(), 10, 1).size(), counted);
  EXPECT_EQ(expect_exact(rows.view(), int8, queries.view(), 10, 4, most).size(), counted);
  const auto few = queries.view().slice(40, 17);
  for (const int64_t k : {1, 3, 40, 127, 128, 300}) {
    SCOPED_TRACE(k);
    expect_exact(rows.view(), int8, few, k, 2, most);
    if (HasFailure()) return;
  }
}

TEST_P(Int8Search, AnswersBitForBitWhatAFullReadAnswers) {
  const Matrix<float> rows = GetParam().rows();
  const Stored int8 = stored(rows.view());
  const int64_t dim = rows.columns();
  // Queries: rows of the collection, others, and some unlike any row.
  Matrix<float> queries = random_rows(16, dim, 20);
  for (int64_t q = 0; q < 10; ++q) {
    std::ranges::copy(rows.row(q * 6'999 + 1), queries.row(q).begin());
    if (!(row_length(queries.row(q)) < 1e6)) std::ranges::fill(queries.row(q), 0.5F);
  }
  std::ranges::fill(queries.row(10), 0.0F);
  for (float& value : queries.row(11)) value *= 1e-39F;
  for (float& value : queries.row(12)) value *= 1e9F;
  std::vector<uint8_t> most(static_cast<size_t>(rows.rows()));
  std::mt19937 random(21);
  for (uint8_t& flag : most) flag = random() % 3 != 0 ? 1 : 0;
  std::vector<uint8_t> end(static_cast<size_t>(rows.rows()));
  std::fill(end.begin() + kManyRows / 2, end.end(), uint8_t{1});

  EXPECT_EQ(expect_exact(rows.view(), int8, queries.view(), 10, 1).size(), 16U);
  EXPECT_EQ(expect_exact(rows.view(), int8, queries.view(), 10, 4, most).size(), 16U);
  if (HasFailure()) return;
  const auto few = queries.view().slice(7, 5);
  for (const int64_t k : {1, 2, 3, 5, 17, 33, 64, 100, 1'200}) {
    SCOPED_TRACE(k);
    expect_exact(rows.view(), int8, few, k, 2, most);
    expect_exact(rows.view(), int8, few, k, 3, end);
    if (HasFailure()) return;
  }
  for (int64_t k = 1; k <= 100; ++k) {
    expect_exact(rows.view(), int8, queries.view().slice(k % 16, 1), k);
    if (HasFailure()) return;
  }
}

TEST(Int8Search, RowsWantedAreScoredInFull) {
  const Matrix<float> rows = random_rows(kManyRows, 40, 32);
  const Stored int8 = stored(rows.view().slice(0, kManyRows - 1000));
  const Matrix<float> queries = random_rows(20, 40, 33);
  std::vector<uint8_t> allowed(kManyRows, 1);
  allowed[100] = 0;
  const std::vector<int64_t> some = {0, 100, 101, kManyRows - 1001, kManyRows - 1000, kManyRows - 1};
  // Few queries, and as many as tiles of codes are for.
  for (const int64_t count : {kFewestTileQueries - 1, int64_t{20}}) {
    std::vector<std::span<const int64_t>> wanted(static_cast<size_t>(count), some);
    wanted[1] = {};
    ThreadPool pool(2);
    const auto asked = queries.view().slice(0, count);
    const auto found = find_rows({rows.view(), allowed, int8.view()}, asked, 5, pool, wanted);
    const auto expected = find_rows({rows.view(), allowed}, asked, 5, pool, wanted);
    ASSERT_TRUE(found && expected);
    EXPECT_EQ(found->rescored.size(),
              count < kFewestTileQueries || has_fast_int8_tiles() ? wanted.size() : 0U);
    for (size_t q = 0; q < wanted.size(); ++q) {
      ASSERT_EQ(found->wanted[q].size(), wanted[q].size());
      for (size_t i = 0; i < wanted[q].size(); ++i) {
        if (i == 1) {
          EXPECT_TRUE(std::isnan(found->wanted[q][i]));
        } else {
          EXPECT_EQ(found->wanted[q][i], expected->wanted[q][i]) << "row " << wanted[q][i];
        }
      }
    }
  }
}

TEST(Int8Search, RowsOfRandomDirectionsAreHardlyEverReadInFull) {
  const Matrix<float> rows = random_rows(100'000, 256, 30);
  const Stored int8 = stored(rows.view());
  const Matrix<float> queries = random_rows(2, 256, 31);
  const auto rescored = expect_exact(rows.view(), int8, queries.view(), 10);
  ASSERT_EQ(rescored.size(), 2U);
  for (const int64_t count : rescored) {
    EXPECT_GE(count, 10);
    EXPECT_LT(count, 300);
  }
  // The count is the same for any number of threads, and for a query alone.
  EXPECT_EQ(expect_exact(rows.view(), int8, queries.view(), 10, 5), rescored);
  EXPECT_EQ(expect_exact(rows.view(), int8, queries.view().slice(1, 1), 10).front(), rescored[1]);
  // Several queries are compared by tiles, whose bound is a little wider, and whose parts begin without a threshold.
  for (const int64_t count : expect_exact(rows.view(), int8, rows.view().slice(100, 40), 10)) {
    EXPECT_GE(count, 10);
    EXPECT_LT(count, 2'000);
  }
}

// Rows whose scores lie within a bound of each other, one of them with the worst possible codes. A bound half
// as large would lose it.
TEST(Int8Search, TheRowThatItsCodesSpeakAgainstIsFound) {
  constexpr int64_t kDim = 256;
  Matrix<float> rows = clusters(20'000, kDim, 0.001F);
  Stored int8 = stored(rows.view());
  for (const int64_t r : {7, 7'777, 19'998}) {
    const std::vector<float> query = worst_query(int8, r, rows.row(r));
    // The others are moved so that their scores are slightly lower, although their codes indicate higher
    // ones.
    const float best = score_of(rows.row(r), query);
    Matrix<float> moved(rows.rows(), kDim);
    for (int64_t i = 0; i < rows.rows(); ++i) {
      const float by = i == r ? 0 : best - 1e-5F - score_of(rows.row(i), query);
      for (int64_t c = 0; c < kDim; ++c) moved(i, c) = rows(i, c) + by * query[static_cast<size_t>(c)];
    }
    const Stored moved_int8 = stored(moved.view());
    const MatrixView<const float> one(query.data(), 1, kDim);
    ThreadPool pool(2);
    const auto found = find_rows({moved.view(), {}, moved_int8.view()}, one, 1, pool);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->best.front().front().row, r);
    EXPECT_FALSE(found->rescored.empty());
    expect_exact(moved.view(), moved_int8, one, 25);
    Matrix<float> again(kFewestTileQueries, kDim);
    for (int64_t q = 0; q < again.rows(); ++q) std::ranges::copy(query, again.row(q).begin());
    expect_exact(moved.view(), moved_int8, again.view(), 1);
  }
}

TEST(Int8Search, RowsBehindThoseInEightBitsAreReadInFull) {
  const Matrix<float> rows = random_rows(9'000, 40, 40);
  const Matrix<float> queries = random_rows(3, 40, 41);
  for (const int64_t count : {1, 100, 4'096, 8'999}) {
    Stored int8 = stored(rows.view().slice(0, count));
    const auto rescored = expect_exact(rows.view(), int8, queries.view(), 12);
    ASSERT_EQ(rescored.size(), 3U);
    for (const int64_t one : rescored) EXPECT_LE(one, count);
  }
}

TEST(Int8Search, DamageCostsTimeAndNoAnswers) {
  const Matrix<float> rows = random_rows(3'000, 64, 50);
  const Matrix<float> queries = random_rows(2, 64, 51);
  const Matrix<float> many = random_rows(20, 64, 53);
  const Stored whole = stored(rows.view());
  const auto of_whole = expect_exact(rows.view(), whole, queries.view(), 10);
  std::mt19937 random(52);
  const auto width = static_cast<size_t>(int8_row_bytes(64));
  // Damage: single bytes; a row in another's place; a stretch never written; everything.
  Stored damaged = whole;
  for (int i = 0; i < 500; ++i)
    damaged.bytes[random() % damaged.bytes.size()] = static_cast<std::byte>(random());
  expect_exact(rows.view(), damaged, queries.view(), 10);
  expect_exact(rows.view(), damaged, many.view(), 10);
  damaged = whole;
  for (int64_t r = 0; r + 1 < damaged.count; r += 2)
    std::ranges::swap_ranges(damaged.row(r), damaged.row(r + 1));
  for (const int64_t count : expect_exact(rows.view(), damaged, queries.view(), 10)) EXPECT_EQ(count, 3'000);
  for (const int64_t count : expect_exact(rows.view(), damaged, many.view(), 10)) EXPECT_EQ(count, 3'000);
  damaged = whole;
  std::fill_n(damaged.bytes.begin() + static_cast<std::ptrdiff_t>(100 * width), 50 * width, std::byte{});
  const auto rescored = expect_exact(rows.view(), damaged, queries.view(), 10);
  for (size_t q = 0; q < rescored.size(); ++q)
    EXPECT_GE(rescored[q], std::max<int64_t>(50, of_whole[q] - 50));
  std::ranges::fill(damaged.bytes, std::byte{0xff});
  expect_exact(rows.view(), damaged, queries.view(), 10);
  expect_exact(rows.view(), damaged, many.view(), 10);
}

TEST(Int8Search, IsLeftAsideWhereAFullReadIsSooner) {
  const Matrix<float> rows = random_rows(4'000, 16, 60);
  const Stored int8 = stored(rows.view());
  Matrix<float> queries = random_rows(2, 16, 61);
  EXPECT_FALSE(expect_exact(rows.view(), int8, queries.view(), 500).empty());
  EXPECT_TRUE(expect_exact(rows.view(), int8, queries.view(), 501).empty());
  EXPECT_TRUE(expect_exact(rows.view(), int8, queries.view(), std::numeric_limits<int64_t>::max()).empty());
  std::vector<uint8_t> few(4'000);
  std::fill_n(few.begin(), 999, uint8_t{1});
  EXPECT_TRUE(expect_exact(rows.view(), int8, queries.view(), 3, 2, few).empty());
  few[3'000] = 1;
  EXPECT_FALSE(expect_exact(rows.view(), int8, queries.view(), 3, 2, few).empty());
  EXPECT_EQ(expect_exact(rows.view(), int8, rows.view().slice(0, 16), 3).size(), 16U);
  const size_t many = has_fast_int8_tiles() ? 17 : 0;
  EXPECT_EQ(expect_exact(rows.view(), int8, rows.view().slice(0, 17), 62).size(), many);
  EXPECT_TRUE(expect_exact(rows.view(), int8, rows.view().slice(0, 17), 63).empty());
  queries(1, 2) = kInfinity;
  EXPECT_TRUE(expect_exact(rows.view(), int8, queries.view(), 3).empty());
}

TEST(Int8Search, RefusesRowsOfAnotherShape) {
  ThreadPool pool(1);
  const Matrix<float> rows = random_rows(3, 8, 70);
  const Stored wide = stored(random_rows(3, 9, 71).view());
  const auto found = find_rows({rows.view(), {}, wide.view()}, rows.view(), 1, pool);
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().message, "3 rows of 9 columns in eight bits, the rows searched are 3 of 8");
  const Stored many = stored(random_rows(4, 8, 72).view());
  EXPECT_EQ(find_rows({rows.view(), {}, many.view()}, rows.view(), 1, pool).error().code,
            ErrorCode::kMismatch);
}

}  // namespace
}  // namespace saccade
