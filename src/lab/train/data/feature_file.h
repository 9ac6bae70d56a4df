// Mapped file of a frozen encoder's features, the training data of heads. Any program may have computed them.
//
//   image_features  [n, a] floating point, except F64
//   text_features   [m, b] the same
//   text_image      [m] integers: the image of each text, -1 for none
//
// A file that `train head` writes itself also has
//
//   text_number     [m] I64, ascending: the numbers of these texts in their dataset
//   and, as metadata, "made_of": the hash of everything that the features were computed from, and "left_out":
//   the names of images that could not be read, as a JSON list
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/files/safetensors.h"
#include "saccade/matrix.h"

namespace saccade::lab {

// Immutable after open: reading from many threads is safe.
class FeatureFile {
 public:
  // Opens a file. kBadData names a tensor that is missing or has the wrong shape or type; a row that is not
  // finite or all zeros; or a text whose image does not exist. Cost: reads the file once. Memory: about a
  // hundred bytes per row while it is read, whatever the rows' width.
  static Result<FeatureFile> open(const std::filesystem::path& path);

  [[nodiscard]] int64_t images() const { return images_->shape[0]; }
  [[nodiscard]] int64_t texts() const { return texts_->shape[0]; }
  [[nodiscard]] int64_t image_width() const { return images_->shape[1]; }
  [[nodiscard]] int64_t text_width() const { return texts_->shape[1]; }
  [[nodiscard]] const std::vector<int64_t>& text_image() const { return text_image_; }
  [[nodiscard]] const std::vector<int64_t>& text_number() const { return text_number_; }
  // SHA-256 over shapes, rows and the relation: equal for equal content.
  [[nodiscard]] const std::string& sha256() const { return sha256_; }
  [[nodiscard]] std::string metadata(std::string_view key) const;  // empty if it does not exist

  // Reads row i as float32, unchanged. out: [image_width] or [text_width].
  void image_row(int64_t i, std::span<float> out) const { row(*images_, i, out); }
  void text_row(int64_t i, std::span<float> out) const { row(*texts_, i, out); }
  // Returns rows [first, first + count).
  [[nodiscard]] Matrix<float> image_rows(int64_t first, int64_t count) const {
    return rows(*images_, first, count);
  }
  [[nodiscard]] Matrix<float> text_rows(int64_t first, int64_t count) const {
    return rows(*texts_, first, count);
  }

  // Returns true if a text belongs to an image: it is its own, or equal to one of its own. Images with equal
  // rows count as one.
  [[nodiscard]] bool belong(int64_t image, int64_t text) const;

  // Returns true if all these texts are equal, or belong to one image. Then there are no negatives among
  // them.
  [[nodiscard]] bool one_class(std::span<const int64_t> texts) const;

  // Releases the memory of mapped rows that were read. Later accesses read them from the file again.
  void release() const;

 private:
  static void row(const TensorView& tensor, int64_t i, std::span<float> out);
  static Matrix<float> rows(const TensorView& tensor, int64_t first, int64_t count);
  Status read();

  SafeTensors file_;
  const TensorView* images_ = nullptr;
  const TensorView* texts_ = nullptr;
  std::vector<int64_t> text_image_;
  std::vector<int64_t> text_number_;
  std::vector<int64_t> image_class_;  // equal for equal rows
  std::vector<int64_t> text_class_;
  // Offsets of the text classes of image class c, ascending: class_texts_ from class_begin_[c] to before
  // class_begin_[c + 1].
  std::vector<int64_t> class_begin_;
  std::vector<int64_t> class_texts_;
  std::string sha256_;
};

}  // namespace saccade::lab
