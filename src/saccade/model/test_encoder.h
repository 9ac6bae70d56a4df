// Small test encoder whose embeddings can be computed by hand, with counts of its calls.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "saccade/image/image_codec.h"
#include "saccade/model/encoder_backend.h"

namespace saccade {

// Tokenizer with one token per byte of the text, between tokens 1 and 2.
class ByteTokenizer : public Tokenizer {
 public:
  [[nodiscard]] TokenizedText encode(std::string_view text, int64_t max_tokens) const override {
    TokenizedText result;
    result.used = std::min<int64_t>(static_cast<int64_t>(text.size()), max_tokens - 2);
    result.dropped = static_cast<int64_t>(text.size()) - result.used;
    result.first = 1;
    result.ids.push_back(1);
    for (const char c : text.substr(0, static_cast<size_t>(result.used))) {
      result.ids.push_back(static_cast<unsigned char>(c) + 3);
    }
    result.ids.push_back(2);
    return result;
  }
  [[nodiscard]] int64_t vocabulary_size() const override { return 260; }
  [[nodiscard]] int32_t start_id() const override { return 1; }
  [[nodiscard]] int32_t end_id() const override { return 2; }
  [[nodiscard]] int32_t pad_id() const override { return 0; }
};

// Encoder of colors. An image of 2 x 2 has the embedding (mean red, green, blue, 1/2), normalized. A text has
// the counts of the letters r, g and b and 1/2, normalized. So "r" is nearest to red images. With `late`,
// each image has two rows (upper and lower half) and each text one per token.
class ColourEncoder : public EncoderBackend, public LateInteraction {
 public:
  explicit ColourEncoder(bool late = false) : late_(late) {
    info_.family = "colour";
    info_.fingerprint = late ? "late" : "single";
    info_.dim = 4;
    info_.context = 16;
    info_.image_height = 2;
    info_.image_width = 2;
    preprocessing_.resize_mode = ResizeMode::kSquash;
    preprocessing_.resize_height = preprocessing_.resize_width = 2;
    preprocessing_.crop = false;
  }

  [[nodiscard]] const EncoderInfo& info() const override { return info_; }
  void set_precision(Precision precision) { info_.precision = precision; }
  [[nodiscard]] const Preprocessing& preprocessing() const override { return preprocessing_; }
  [[nodiscard]] const Tokenizer* tokenizer() const override { return &tokenizer_; }
  [[nodiscard]] EncoderCapabilities capabilities() override {
    return {.late_interaction = late_ ? this : nullptr};
  }
  [[nodiscard]] int patch_rows() const override { return 2; }
  [[nodiscard]] int patch_columns() const override { return 1; }

  [[nodiscard]] Result<Matrix<float>> encode_images(MatrixView<const float> pixels) override {
    images += pixels.rows();
    Matrix<float> rows(pixels.rows(), 4);
    for (int64_t i = 0; i < pixels.rows(); ++i) colour(pixels.row(i), 0, 4, rows.row(i));
    if (spoil) spoil(rows);
    return rows;
  }
  [[nodiscard]] Result<Matrix<float>> encode_texts(std::span<const TokenizedText> some) override {
    texts += static_cast<int64_t>(some.size());
    Matrix<float> rows(static_cast<int64_t>(some.size()), 4);
    for (size_t i = 0; i < some.size(); ++i) letters(some[i].ids, rows.row(static_cast<int64_t>(i)));
    if (spoil) spoil(rows);
    return rows;
  }
  [[nodiscard]] Result<RowSets> encode_image_rows(MatrixView<const float> pixels) override {
    images += pixels.rows();
    RowSets sets;
    sets.rows = Matrix<float>(2 * pixels.rows(), 4);
    for (int64_t i = 0; i < pixels.rows(); ++i) {
      colour(pixels.row(i), 0, 2, sets.rows.row(2 * i));
      colour(pixels.row(i), 2, 4, sets.rows.row(2 * i + 1));
      sets.begin.push_back(2 * (i + 1));
    }
    return sets;
  }
  [[nodiscard]] Result<RowSets> encode_text_rows(std::span<const TokenizedText> some) override {
    texts += static_cast<int64_t>(some.size());
    RowSets sets;
    for (const TokenizedText& text : some) {
      sets.begin.push_back(sets.begin.back() + static_cast<int64_t>(text.ids.size()) - 2);
    }
    sets.rows = Matrix<float>(sets.begin.back(), 4);
    int64_t next = 0;
    for (const TokenizedText& text : some) {
      for (size_t t = 1; t + 1 < text.ids.size(); ++t) {
        letters(std::span(text.ids).subspan(t, 1), sets.rows.row(next++));
      }
    }
    return sets;
  }

  EncoderInfo& mutable_info() { return info_; }

  int64_t images = 0;  // number of encoded images
  int64_t texts = 0;
  std::function<void(Matrix<float>&)> spoil;  // applied to rows before they are returned

 private:
  static void to_length_one(std::span<float> row) {
    float squares = 0;
    for (const float value : row) squares += value * value;
    for (float& value : row) value /= std::sqrt(squares);
  }
  static void colour(std::span<const float> pixels, size_t begin, size_t end, std::span<float> row) {
    for (size_t c = 0; c < 3; ++c) {
      row[c] = 0;
      for (size_t p = begin; p < end; ++p) row[c] += pixels[c * 4 + p] / static_cast<float>(end - begin);
    }
    row[3] = 0.5F;
    to_length_one(row);
  }
  static void letters(std::span<const int32_t> ids, std::span<float> row) {
    std::fill(row.begin(), row.end(), 0.0F);
    for (const int32_t id : ids) {
      for (size_t c = 0; c < 3; ++c) row[c] += id == "rgb"[c] + 3 ? 1.0F : 0.0F;
    }
    row[3] = 0.5F;
    to_length_one(row);
  }

  bool late_;
  EncoderInfo info_;
  Preprocessing preprocessing_;
  ByteTokenizer tokenizer_;
};

// Returns a PNG of 2 x 2 with these colors above and below.
inline std::string two_colours(std::array<uint8_t, 3> above, std::array<uint8_t, 3> below) {
  Image image{.width = 2, .height = 2, .channels = 3, .mode = PixelMode::kRgb, .pixels = {}};
  for (const auto& colour : {above, above, below, below}) {
    image.pixels.insert(image.pixels.end(), colour.begin(), colour.end());
  }
  return encode_png(image).value();
}
inline std::string one_colour(uint8_t red, uint8_t green, uint8_t blue) {
  return two_colours({red, green, blue}, {red, green, blue});
}

}  // namespace saccade
