#include "saccade/index/max_sim.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/safetensors.h"
#include "saccade/core/source_dir.h"
#include "saccade/index/patch_pool.h"

namespace saccade {
namespace {

constexpr RowPrecision kPrecisions[] = {RowPrecision::kFp16, RowPrecision::kInt8};

Matrix<float> random_rows(int64_t rows, int64_t columns, std::mt19937& random) {
  std::normal_distribution<float> normal;
  Matrix<float> result(rows, columns);
  for (float& value : result.values()) value = normal(random);
  for (int64_t r = 0; r < rows; ++r) {
    double square = 0;
    for (const float value : result.row(r)) square += double{value} * value;
    for (float& value : result.row(r)) value = static_cast<float>(value / std::sqrt(square));
  }
  return result;
}

// Stored rows, owned.
struct Item {
  Item(MatrixView<const float> rows, RowPrecision precision)
      : layout{precision, rows.columns()},
        bytes(static_cast<size_t>(rows.rows() * stored_row_bytes(layout))),
        count(rows.rows()) {
    store_rows(rows, precision, bytes);
  }
  [[nodiscard]] StoredRows view() const { return {layout, bytes.data(), count}; }

  RowLayout layout;
  std::vector<std::byte> bytes;
  int64_t count;
};

double dot_in_double(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * b[i];
  return sum;
}

double max_dot(std::span<const float> query, MatrixView<const float> rows) {
  double best = -std::numeric_limits<double>::infinity();
  for (int64_t r = 0; r < rows.rows(); ++r) best = std::max(best, dot_in_double(query, rows.row(r)));
  return best;
}

// Returns the largest error of one dot of unit rows. fp16 rounds each stored value by at most 2^-11 of
// itself. int8 rounds each value of both rows by half a step, a 127th of the row's largest. These errors
// mostly cancel: the bound is six standard deviations if one value is all of a row.
double tolerance(RowPrecision precision) {
  return precision == RowPrecision::kFp16 ? 0x1p-11 + 1e-6 : 6.0 * std::sqrt(2.0 / 12.0) / 127.0;
}

bool same_bits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

TEST(LateRows, ComeBackWithinAStep) {
  std::mt19937 random(1);
  for (const int64_t dim : {1, 3, 4, 7, 16, 128, 131}) {
    const Matrix<float> rows = random_rows(5, dim, random);
    for (const auto precision : kPrecisions) {
      const Item item(rows.view(), precision);
      const Matrix<float> back = restore_rows(item.view());
      for (int64_t r = 0; r < 5; ++r) {
        float largest = 0;
        for (const float value : rows.row(r)) largest = std::max(largest, std::abs(value));
        for (int64_t c = 0; c < dim; ++c) {
          const float step =
              precision == RowPrecision::kInt8 ? largest / 127 : std::abs(rows(r, c)) * 0x1p-10F;
          EXPECT_NEAR(back(r, c), rows(r, c), 0.501 * step + 1e-7) << enum_name(precision);
        }
      }
    }
  }
  const Matrix<float> zeros(2, 6);
  for (const auto precision : kPrecisions) {
    EXPECT_THAT(restore_rows(Item(zeros.view(), precision).view()).values(), testing::Each(0.0F));
  }
  EXPECT_EQ(stored_row_bytes({RowPrecision::kFp16, 128}), 256);
  EXPECT_EQ(stored_row_bytes({RowPrecision::kInt8, 128}), 132);
  EXPECT_EQ(stored_row_bytes({RowPrecision::kInt8, 5}), 12);
  EXPECT_EQ(from_name<RowPrecision>("int8"), RowPrecision::kInt8);
  EXPECT_EQ(from_name<RowPrecision>("int4"), std::nullopt);
  EXPECT_EQ(list_of_names<RowPrecision>(), "fp16, int8");
}

// The oracle is a loop over the rows before storage. Results of different kernels must be bit-identical.
// 4,000 random cases.
TEST(MaxSimKernels, AgreeWithTheOracleAndWithEachOtherToTheBit) {
  std::mt19937 random(2);
  const auto draw = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int round = 0; round < 2'000; ++round) {
    const int64_t dim = round % 3 == 0 ? 128 : draw(1, 150);
    const Matrix<float> rows = random_rows(draw(1, 30), dim, random);
    const Matrix<float> query = random_rows(draw(1, 40), dim, random);
    for (const auto precision : kPrecisions) {
      const Item item(rows.view(), precision);
      const PackedQuery packed = pack_query(query.view(), precision).value();
      const Matrix<float> restored = restore_rows(item.view());
      const auto kernels = max_sim_kernels(precision);
      ASSERT_EQ(kernels.back().name, "portable");
      const auto lanes = static_cast<size_t>(packed.lanes());
      std::vector<float> expected(lanes, -9);
      std::vector<int32_t> expected_rows(lanes, -9);
      kernels.back().run(item.bytes.data(), item.count, packed, expected.data(), expected_rows.data());
      for (const NamedMaxSimKernel& kernel : kernels) {
        std::vector<float> best(lanes, -7);
        std::vector<int32_t> where(lanes, -7);
        kernel.run(item.bytes.data(), item.count, packed, best.data(), where.data());
        for (size_t lane = 0; lane < lanes; ++lane) {
          ASSERT_TRUE(same_bits(best[lane], expected[lane]))
              << kernel.name << " dim " << dim << " lane " << lane << ": " << best[lane] << ", expected "
              << expected[lane];
          ASSERT_EQ(where[lane], expected_rows[lane]) << kernel.name << " dim " << dim;
        }
      }
      const auto matches = max_sim_matches(item.view(), packed).value();
      ASSERT_EQ(static_cast<int64_t>(matches.size()), query.rows());
      for (int64_t q = 0; q < query.rows(); ++q) {
        const RowMatch& match = matches[static_cast<size_t>(q)];
        ASSERT_NEAR(match.dot, max_dot(query.row(q), rows.view()), tolerance(precision))
            << enum_name(precision) << " dim " << dim;
        // The reported row is the one of the dot, up to rounding of the query.
        ASSERT_NEAR(match.dot, dot_in_double(query.row(q), restored.row(match.row)),
                    precision == RowPrecision::kFp16 ? 1e-6 : tolerance(precision) / 2);
      }
    }
  }
}

TEST(MaxSimKernels, TheLargestValuesStayExact) {
  // Extreme sums: all bytes 127 or -127, in 65,536 columns.
  for (const int sign : {1, -1}) {
    Matrix<float> rows(2, 65'536);
    Matrix<float> query(1, 65'536);
    for (float& value : rows.values()) value = static_cast<float>(sign);
    for (float& value : query.values()) value = 1;
    const Item item(rows.view(), RowPrecision::kInt8);
    const PackedQuery packed = pack_query(query.view(), RowPrecision::kInt8).value();
    for (const NamedMaxSimKernel& kernel : max_sim_kernels(RowPrecision::kInt8)) {
      std::vector<float> best(16);
      std::vector<int32_t> where(16);
      kernel.run(item.bytes.data(), 2, packed, best.data(), where.data());
      EXPECT_NEAR(best[0] * packed.scales[0], sign * 65'536.0, 0.05) << kernel.name;
      EXPECT_EQ(where[0], 0) << kernel.name;
    }
  }
}

TEST(MaxSim, ThreadsAndCompanyDoNotChangeAScore) {
  std::mt19937 random(3);
  std::vector<Matrix<float>> sets;
  for (int i = 0; i < 101; ++i) sets.push_back(random_rows(1 + i % 37, 48, random));
  const Matrix<float> query = random_rows(19, 48, random);
  for (const auto precision : kPrecisions) {
    const PackedQuery packed = pack_query(query.view(), precision).value();
    std::vector<Item> items;
    for (const auto& rows : sets) items.emplace_back(rows.view(), precision);
    std::vector<StoredRows> views;
    for (const Item& item : items) views.push_back(item.view());
    ThreadPool one(1);
    ThreadPool four(4);
    const auto scores = max_sim(views, packed, one).value();
    const auto again = max_sim(views, packed, four).value();
    for (size_t i = 0; i < views.size(); ++i) {
      EXPECT_TRUE(same_bits(scores[i], again[i]));
      EXPECT_TRUE(same_bits(scores[i], max_sim({&views[i], 1}, packed, four).value().front()));
      // The explanation of a score adds up to the score.
      EXPECT_TRUE(same_bits(scores[i], max_sim_total(max_sim_matches(views[i], packed).value())));
      const float plain = max_sim_total(max_sim_matches_plain(query.view(), sets[i].view()));
      EXPECT_NEAR(scores[i], plain, precision == RowPrecision::kFp16 ? 5e-3 : 0.2);
    }
  }
}

TEST(MaxSim, EqualDotsNameTheFirstRowAndNaNIsPassedOver) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Matrix<float> query(2, 4);
  query(0, 0) = query(1, 1) = 1;
  for (const auto precision : kPrecisions) {
    const PackedQuery packed = pack_query(query.view(), precision).value();
    Matrix<float> rows(30, 4);
    for (int64_t r = 0; r < 30; ++r) rows(r, 0) = r >= 14 ? 0.5F : 0.25F;
    Item item(rows.view(), precision);
    for (const NamedMaxSimKernel& kernel : max_sim_kernels(precision)) {
      std::vector<float> best(16);
      std::vector<int32_t> where(16);
      kernel.run(item.bytes.data(), 30, packed, best.data(), where.data());
      EXPECT_EQ(where[0], 14) << kernel.name;
      EXPECT_EQ(where[1], 0) << kernel.name;
    }
    // Row 14 damaged on the disk: a NaN in it, or as its scale.
    const auto at = static_cast<size_t>(14 * stored_row_bytes(item.layout));
    const uint16_t half = 0x7e00;
    if (precision == RowPrecision::kFp16) {
      std::memcpy(item.bytes.data() + at, &half, 2);
    } else {
      std::memcpy(item.bytes.data() + at + 4, &nan, 4);
    }
    for (const NamedMaxSimKernel& kernel : max_sim_kernels(precision)) {
      std::vector<float> best(16);
      std::vector<int32_t> where(16);
      kernel.run(item.bytes.data(), 30, packed, best.data(), where.data());
      EXPECT_EQ(where[0], 15) << kernel.name;
      kernel.run(item.bytes.data() + at, 1, packed, best.data(), where.data());
      EXPECT_EQ(where[0], -1) << kernel.name;
      kernel.run(item.bytes.data(), 0, packed, best.data(), where.data());
      EXPECT_EQ(where[1], -1) << kernel.name;
    }
    ThreadPool pool(1);
    const StoredRows none{item.layout, item.bytes.data(), 0};
    EXPECT_EQ(max_sim({&none, 1}, packed, pool).value().front(), -std::numeric_limits<float>::infinity());
  }
}

TEST(MaxSim, RefusesWhatDoesNotFit) {
  std::mt19937 random(4);
  const Matrix<float> rows = random_rows(3, 8, random);
  ThreadPool pool(1);
  const Item item(rows.view(), RowPrecision::kInt8);
  const StoredRows view = item.view();
  const PackedQuery packed = pack_query(rows.view(), RowPrecision::kFp16).value();
  EXPECT_EQ(max_sim({&view, 1}, packed, pool).error().message,
            "the query is for fp16 rows of 8 columns, an item has int8 rows of 8");
  EXPECT_EQ(max_sim_matches(view, packed).error().code, ErrorCode::kMismatch);
  EXPECT_EQ(pack_query(MatrixView<const float>(nullptr, 0, 8), RowPrecision::kFp16).error().code,
            ErrorCode::kUsage);
  Matrix<float> broken(1, 8);
  broken(0, 5) = std::numeric_limits<float>::infinity();
  EXPECT_EQ(pack_query(broken.view(), RowPrecision::kInt8).error().message, "row 0 of the query holds inf");
}

// Results of ColPali's reference implementation for the same rows.
TEST(MaxSim, AgreesWithTheReference) {
  const auto golden =
      SafeTensors::open(std::string(test::kSourceDir) + "/tests/golden/colpali/io.safetensors").value();
  const auto images = golden.find("image_embeds")->to_floats().value();  // [2, 20, 16]
  const auto texts = golden.find("text_embeds")->to_floats().value();    // [3, 12, 16]
  const auto mask = golden.find("attention_mask")->to_int64s().value();  // [3, 12]
  const auto expected = golden.find("maxsim")->to_floats().value();      // [3, 2]
  ThreadPool pool(2);
  for (size_t t = 0; t < 3; ++t) {
    const auto first = mask.begin() + static_cast<int64_t>(12 * t);
    const int64_t padding = std::count(first, first + 12, 0);
    // Padding rows have mask 0 and are left out; they must not count.
    std::vector<float> rows;
    for (size_t r = 0; r < 12; ++r) {
      if (mask[12 * t + r] == 0) continue;
      const auto from = texts.begin() + static_cast<int64_t>((12 * t + r) * 16);
      rows.insert(rows.end(), from, from + 16);
    }
    const MatrixView<const float> query(rows.data(), 12 - padding, 16);
    for (size_t i = 0; i < 2; ++i) {
      const MatrixView<const float> item(images.data() + i * 20 * 16, 20, 16);
      const float reference = expected[t * 2 + i];
      EXPECT_NEAR(max_sim_total(max_sim_matches_plain(query, item)), reference, 1e-5);
      for (const auto precision : kPrecisions) {
        const Item stored(item, precision);
        const StoredRows view = stored.view();
        const auto packed = pack_query(query, precision).value();
        const float score = max_sim({&view, 1}, packed, pool).value().front();
        EXPECT_NEAR(score, reference, precision == RowPrecision::kFp16 ? 2e-3 : 0.06);
        EXPECT_FALSE(std::isnan(score));
      }
    }
  }
}

TEST(PatchPool, BlocksCoverTheGridOnce) {
  const auto shape = [](int64_t factor) {
    const PatchBlock block = pool_block(factor);
    return std::pair(block.rows, block.columns);
  };
  EXPECT_EQ(shape(1), std::pair(int64_t{1}, int64_t{1}));
  EXPECT_EQ(shape(3), std::pair(int64_t{1}, int64_t{3}));
  EXPECT_EQ(shape(4), std::pair(int64_t{2}, int64_t{2}));
  EXPECT_EQ(shape(6), std::pair(int64_t{2}, int64_t{3}));
  EXPECT_EQ(shape(9), std::pair(int64_t{3}, int64_t{3}));
  for (const int64_t factor : {1, 2, 3, 4, 5, 6, 9, 16, 64}) {
    const PatchGrid grid{5, 7};
    std::vector<int> covered(35);
    const int64_t rows = pooled_rows(35 + 3, grid, factor);
    for (int64_t r = 0; r < rows; ++r) {
      const auto block = patches_of_row(r, grid, factor);
      EXPECT_EQ(block.has_value(), r < rows - 3);
      if (!block) continue;
      for (int64_t y = block->row; y < block->row + block->rows; ++y) {
        for (int64_t x = block->column; x < block->column + block->columns; ++x) {
          ++covered.at(static_cast<size_t>(y * 7 + x));
        }
      }
    }
    EXPECT_THAT(covered, testing::Each(1)) << factor;
  }
  EXPECT_FALSE(patches_of_row(0, {0, 0}, 1).has_value());
  EXPECT_FALSE(patches_of_row(-1, {2, 2}, 1).has_value());
}

TEST(PatchPool, RowsAreMeansOfLengthOneAndTheRestStays) {
  std::mt19937 random(5);
  const Matrix<float> rows = random_rows(3 * 5 + 2, 6, random);
  const Matrix<float> same = pool_patches(rows.view(), {3, 5}, 1);
  ASSERT_EQ(same.rows(), 17);
  for (size_t i = 0; i < same.values().size(); ++i) EXPECT_NEAR(same.values()[i], rows.values()[i], 1e-6);
  const Matrix<float> pooled = pool_patches(rows.view(), {3, 5}, 4);
  ASSERT_EQ(pooled.rows(), 2 * 3 + 2);
  // The second block of the first line: patches (0, 2), (0, 3), (1, 2), (1, 3).
  std::vector<double> mean(6);
  double square = 0;
  for (size_t c = 0; c < 6; ++c) {
    for (const int64_t r : {2, 3, 7, 8}) mean[c] += double{rows(r, static_cast<int64_t>(c))} / 4;
    square += mean[c] * mean[c];
  }
  for (size_t c = 0; c < 6; ++c) {
    EXPECT_NEAR(pooled(1, static_cast<int64_t>(c)), mean[c] / std::sqrt(square), 1e-6);
  }
  EXPECT_THAT(pooled.row(6), testing::ElementsAreArray(rows.row(15)));
  EXPECT_THAT(pooled.row(7), testing::ElementsAreArray(rows.row(16)));
  // The last block of the last line is a single patch.
  for (int64_t c = 0; c < 6; ++c) EXPECT_NEAR(pooled(5, c), rows(14, c), 1e-6);
}

}  // namespace
}  // namespace saccade
