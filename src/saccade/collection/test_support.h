// Shared test fixtures for collections: a temporary folder, small images, and an encoder without a model.
#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "saccade/collection/collection_reader.h"
#include "saccade/collection/collection_writer.h"
#include "saccade/collection/ingest/ingest.h"
#include "saccade/collection/verify.h"
#include "saccade/core/files/files.h"
#include "saccade/core/hash.h"
#include "saccade/core/test_folder.h"
#include "saccade/image/image_codec.h"
#include "saccade/model/encoder_backend.h"

#define ASSERT_OK(...)                                                       \
  do {                                                                       \
    const auto& saccade_test_status = (__VA_ARGS__);                         \
    ASSERT_TRUE(saccade_test_status) << saccade_test_status.error().message; \
  } while (false)

namespace saccade::test {

inline void write_text(const std::filesystem::path& path, std::string_view text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

// A picture of stripes that differs for every seed.
inline Image striped_image(int seed, int width = 20, int height = 16) {
  Image image;
  image.width = width;
  image.height = height;
  image.channels = 3;
  image.mode = PixelMode::kRgb;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < 3; ++c)
        image.pixels.push_back(static_cast<uint8_t>((seed * (37 + 11 * c) + x * 7 + y * c) & 255));
    }
  }
  return image;
}

inline std::string png(int seed) {
  return encode_png(striped_image(seed)).value();
}

// Rows that depend on the pixels alone, so that two encodings
// of a picture are equal. dim 8, pictures of 16 x 16.
class FakeEncoder : public EncoderBackend {
 public:
  FakeEncoder() {
    info_.family = "fake";
    info_.fingerprint = sha256_hex("fake encoder");
    info_.dim = 8;
    info_.image_height = info_.image_width = 16;
    preprocessing_.resize_height = preprocessing_.resize_width = 16;
    preprocessing_.crop_height = preprocessing_.crop_width = 16;
  }
  [[nodiscard]] const EncoderInfo& info() const override { return info_; }
  void set_precision(Precision precision) { info_.precision = precision; }
  [[nodiscard]] const Preprocessing& preprocessing() const override { return preprocessing_; }
  [[nodiscard]] const Tokenizer* tokenizer() const override { return nullptr; }

  Result<Matrix<float>> encode_images(MatrixView<const float> pixels) override {
    if (++calls == fail_at_call) return fail(fail_with, "the device is gone");
    images += pixels.rows();
    Matrix<float> rows(pixels.rows(), info_.dim);
    for (int64_t r = 0; r < pixels.rows(); ++r) {
      double squares = 0;
      for (int64_t c = 0; c < pixels.columns(); ++c)
        rows(r, c % info_.dim) += pixels(r, c) * (1.0F + 0.01F * static_cast<float>(c % 13));
      for (const float value : rows.row(r)) squares += static_cast<double>(value) * value;
      const auto scale = static_cast<float>(1.0 / std::sqrt(squares));
      for (float& value : rows.row(r)) value *= scale;
      if (images == nan_at_image) rows(r, 0) = std::nanf("");
    }
    return rows;
  }
  Result<Matrix<float>> encode_texts(std::span<const TokenizedText> texts) override {
    Matrix<float> rows(static_cast<int64_t>(texts.size()), info_.dim);
    for (int64_t r = 0; r < rows.rows(); ++r) rows(r, 0) = 1;
    return rows;
  }

  int64_t calls = 0;
  int64_t images = 0;
  int64_t fail_at_call = -1;
  ErrorCode fail_with = ErrorCode::kInternal;
  int64_t nan_at_image = -1;

 private:
  EncoderInfo info_;
  Preprocessing preprocessing_;
};

// Six rows a picture, that depend on its pixels alone: a grid of 2 x 2 patches, the picture's quarters, and
// two rows that stand for no place.
class FakeLateEncoder : public FakeEncoder, public LateInteraction {
 public:
  [[nodiscard]] EncoderCapabilities capabilities() override { return {.late_interaction = this}; }
  [[nodiscard]] int patch_rows() const override { return rows_; }
  [[nodiscard]] int patch_columns() const override { return 2; }

  Result<RowSets> encode_image_rows(MatrixView<const float> pixels) override {
    if (++calls == fail_at_call) return fail(ErrorCode::kInternal, "the device is gone");
    images += pixels.rows();
    RowSets sets;
    sets.rows = Matrix<float>(6 * pixels.rows(), 8);
    for (int64_t i = 0; i < pixels.rows(); ++i) {
      for (int64_t r = 0; r < 6; ++r) set_row(pixels.row(i), r, sets.rows.row(6 * i + r));
      sets.begin.push_back(6 * (i + 1));
    }
    if (images == nan_at_image) sets.rows(sets.rows.rows() - 1, 0) = std::nanf("");
    return sets;
  }
  Result<RowSets> encode_text_rows(std::span<const TokenizedText> texts) override {
    RowSets sets;
    sets.rows = Matrix<float>(static_cast<int64_t>(texts.size()), 8);
    for (int64_t r = 0; r < sets.rows.rows(); ++r) {
      sets.rows(r, 0) = 1;
      sets.begin.push_back(r + 1);
    }
    return sets;
  }

  int rows_ = 2;

 private:
  // pixels: [3, 16, 16].
  static void set_row(std::span<const float> pixels, int64_t which, std::span<float> row) {
    const int64_t y0 = which < 4 ? which / 2 * 8 : 0;
    const int64_t x0 = which < 4 ? which % 2 * 8 : which;
    for (int64_t c = 0; c < 8; ++c) {
      for (int64_t y = y0; y < y0 + 8; ++y) {
        const int64_t at = (c % 3) * 256 + y * 16 + x0 + (c * 3) % 8;
        row[static_cast<size_t>(c)] +=
            pixels[static_cast<size_t>(at)] * (1 + 0.1F * static_cast<float>(y % 3));
      }
      row[static_cast<size_t>(c)] += 0.3F;
    }
    double squares = 0;
    for (const float value : row) squares += static_cast<double>(value) * value;
    for (float& value : row) value = static_cast<float>(value / std::sqrt(squares));
  }
};

inline CheckpointId fake_checkpoint() {
  return {"fake", "/checkpoints/fake", sha256_hex("fake encoder"), 8};
}

// A row of length 1, different for each seed.
inline std::vector<float> unit_row(int seed, int64_t dim = 8) {
  std::vector<float> row(static_cast<size_t>(dim));
  double squares = 0;
  for (size_t i = 0; i < row.size(); ++i) {
    row[i] = std::sin(static_cast<float>(seed) * 1.7F + static_cast<float>(i));
    squares += static_cast<double>(row[i]) * row[i];
  }
  for (float& value : row) value = static_cast<float>(value / std::sqrt(squares));
  return row;
}

inline CollectionChange::Put put_of(std::string path, int seed) {
  CollectionChange::Put put;
  put.item.path = std::move(path);
  put.item.hash = sha256_hex(std::to_string(seed));
  put.item.size = 100 + seed;
  put.item.mtime_ns = int64_t{1'700'000'000} * 1'000'000'000 + seed;
  put.item.width = 640;
  put.item.height = 480;
  put.item.format = "jpeg";
  put.item.added = 1'700'000'000;
  put.values = unit_row(seed);
  return put;
}

// Settings of a collection that keeps rows of late interaction over FakeLateEncoder's grid.
inline IngestSettings late_settings_of(RowPrecision precision = RowPrecision::kFp16, int64_t pool = 1) {
  IngestSettings settings;
  settings.late = LateSettings{precision, pool, {2, 2}};
  return settings;
}

// The late rows of put_of's item: one to three.
inline Matrix<float> late_rows_of(int seed) {
  Matrix<float> rows(1 + seed % 3, 8);
  for (int64_t r = 0; r < rows.rows(); ++r) {
    std::ranges::copy(unit_row(1000 + 10 * seed + static_cast<int>(r)), rows.row(r).begin());
  }
  return rows;
}

inline CollectionChange::Put late_put_of(std::string path, int seed) {
  CollectionChange::Put put = put_of(std::move(path), seed);
  const Matrix<float> rows = late_rows_of(seed);
  put.late.resize(static_cast<size_t>(rows.rows() * stored_row_bytes({RowPrecision::kFp16, 8})));
  store_rows(rows.view(), RowPrecision::kFp16, put.late);
  return put;
}

inline std::vector<Item> all_items(const CollectionReader& collection) {
  std::vector<Item> items;
  EXPECT_TRUE(collection.for_each_item([&](const Item& item) {
    items.push_back(item);
    return Status{};
  }));
  return items;
}

inline std::vector<std::string> paths_of(const CollectionReader& collection) {
  std::vector<std::string> paths;
  for (const Item& item : all_items(collection)) paths.push_back(item.path);
  std::sort(paths.begin(), paths.end());
  return paths;
}

// Returns the faults that `verify` finds, as text; empty if there are none.
inline std::string faults(const std::filesystem::path& folder, bool deep = false) {
  ThreadPool pool(2);
  const auto report = verify_collection(folder, {deep}, pool);
  if (!report) return report.error().message;
  std::string text;
  for (const auto& problem : report->problems) text += problem.subject + ": " + problem.message + "\n";
  return text;
}

}  // namespace saccade::test
