// Relevance judgements between texts and images, in both directions.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "saccade/core/enum_names.h"
#include "saccade/core/error.h"

namespace saccade::lab {

enum class Direction { kTextToImage, kImageToText };
std::span<const EnumName<Direction>> enum_names(Direction);
// Returns "t2i" or "i2t".
std::string_view direction_name(Direction direction);
inline constexpr std::array kBothDirections = {Direction::kTextToImage, Direction::kImageToText};

// A value each way.
template <typename T>
struct ByDirection {
  T t2i = {};
  T i2t = {};
  [[nodiscard]] T& of(Direction direction) { return direction == Direction::kTextToImage ? t2i : i2t; }
  [[nodiscard]] const T& of(Direction direction) const {
    return direction == Direction::kTextToImage ? t2i : i2t;
  }
  // JSON: {"t2i", "i2t"} (lab/eval/run/record_fields.h).
  static void fields(auto& self, auto& field) {
    for (const Direction direction : kBothDirections) field(direction_name(direction), self.of(direction));
  }
};

// A relation between texts 0..texts-1 and images 0..images-1. Immutable; reading from many threads is safe.
class Relevance {
 public:
  // Maximum number of pairs. More would mean a label that nearly all items share.
  static constexpr int64_t kMaxPairs = int64_t{1} << 27;

  // Makes a relation from pairs (text, image) in any order; duplicates count once. kBadData names a pair that
  // is out of range.
  static Result<Relevance> from_pairs(int64_t texts, int64_t images,
                                      std::vector<std::pair<int64_t, int64_t>> pairs);
  // Makes a relation from the image of each text; -1 is a text without an image. kBadData names a text whose
  // image does not exist.
  static Result<Relevance> from_text_image(std::span<const int64_t> text_image, int64_t images);
  // Makes a relation with as many texts as images. Text i and image j are relevant if their labels are equal.
  static Result<Relevance> from_labels(std::span<const int64_t> labels);

  [[nodiscard]] int64_t texts() const { return static_cast<int64_t>(images_of_text_.begin.size()) - 1; }
  [[nodiscard]] int64_t images() const { return static_cast<int64_t>(texts_of_image_.begin.size()) - 1; }

  // Number of queries of a direction, size of its gallery, and the right answers of one query, ascending.
  [[nodiscard]] int64_t queries(Direction direction) const {
    return direction == Direction::kTextToImage ? texts() : images();
  }
  [[nodiscard]] int64_t gallery(Direction direction) const {
    return direction == Direction::kTextToImage ? images() : texts();
  }
  [[nodiscard]] std::span<const int64_t> right(Direction direction, int64_t query) const {
    return (direction == Direction::kTextToImage ? images_of_text_ : texts_of_image_).of(query);
  }

 private:
  struct Lists {  // list i is items[begin[i]] .. items[begin[i + 1] - 1]
    std::vector<int64_t> begin = {0};
    std::vector<int64_t> items;
    [[nodiscard]] std::span<const int64_t> of(int64_t i) const {
      const auto at = static_cast<size_t>(i);
      return std::span(items).subspan(static_cast<size_t>(begin[at]),
                                      static_cast<size_t>(begin[at + 1] - begin[at]));
    }
  };
  Lists images_of_text_;
  Lists texts_of_image_;
};

}  // namespace saccade::lab
