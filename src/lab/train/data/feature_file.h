// Features of a frozen encoder in a file, mapped: what heads are trained on, whoever computed them.
//
//   image_features  [n, a] floating point, F64 aside
//   text_features   [m, b] the same
//   text_image      [m] integers: the picture of each text, -1 for none
//
// A file that `train head` writes itself has beside them
//
//   text_number     [m] I64, ascending: which of its dataset's texts these are
//   and, as metadata, "made_of": the hash of all that the features were computed from, and "left_out": the
//   names of pictures that could not be read, as a JSON list
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/matrix.h"
#include "saccade/core/files/safetensors.h"

namespace saccade::lab {

// Immutable after open: reading from many threads is safe.
class FeatureFile {
 public:
  // kBadData names the tensor that is missing, of another shape or kind, the row that is not finite or all
  // zeros, and the text whose picture is not there. Cost: reads the file once. Memory: about a hundred bytes
  // a row while it is read, whatever the rows' width.
  static Result<FeatureFile> open(const std::filesystem::path& path);

  [[nodiscard]] int64_t images() const { return images_->shape[0]; }
  [[nodiscard]] int64_t texts() const { return texts_->shape[0]; }
  [[nodiscard]] int64_t image_width() const { return images_->shape[1]; }
  [[nodiscard]] int64_t text_width() const { return texts_->shape[1]; }
  [[nodiscard]] const std::vector<int64_t>& text_image() const { return text_image_; }
  [[nodiscard]] const std::vector<int64_t>& text_number() const { return text_number_; }
  // SHA-256 over shapes, rows and the relation: equal for equal content.
  [[nodiscard]] const std::string& sha256() const { return sha256_; }
  [[nodiscard]] std::string metadata(std::string_view key) const;  // empty where there is none

  // Row i as float32, as it is in the file. out: [image_width] or [text_width].
  void image_row(int64_t i, std::span<float> out) const { row(*images_, i, out); }
  void text_row(int64_t i, std::span<float> out) const { row(*texts_, i, out); }
  // Rows [first, first + count).
  [[nodiscard]] Matrix<float> image_rows(int64_t first, int64_t count) const {
    return rows(*images_, first, count);
  }
  [[nodiscard]] Matrix<float> text_rows(int64_t first, int64_t count) const {
    return rows(*texts_, first, count);
  }

  // Whether a text is one of a picture's: its own, or equal to one of these; pictures of equal rows are one.
  [[nodiscard]] bool belong(int64_t image, int64_t text) const;

  // Whether all these texts are equal, or all of one picture: then none is wrong for any.
  [[nodiscard]] bool one_class(std::span<const int64_t> texts) const;

  // Gives back the memory that mapped rows take once they were read: they are read from the file again when
  // they are asked for again.
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
  // The text classes of image class c, ascending: class_texts_ from class_begin_[c] to before
  // class_begin_[c + 1].
  std::vector<int64_t> class_begin_;
  std::vector<int64_t> class_texts_;
  std::string sha256_;
};

}  // namespace saccade::lab
