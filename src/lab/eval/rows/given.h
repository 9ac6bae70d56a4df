// What other programs have computed, to be evaluated: embeddings or scores in a safetensors file.
//
//   embeddings   image_embeds [n, d] and text_embeds [m, d], floating point; text_image [m], integer
//   scores       scores [m, n] in F32, F16 or BF16, higher is closer; text_image [m], integer
//
// text_image holds the picture of each text, -1 for none.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/matrix.h"
#include "saccade/core/files/safetensors.h"
#include "saccade/core/enum_names.h"
#include "lab/eval/retrieval/retrieval_task.h"
#include "lab/eval/rows/pair_scores.h"

namespace saccade::lab {

enum class Similarity {
  kCosine,  // rows are brought to length 1
  kDot,     // rows as they are
};
std::span<const EnumName<Similarity>> enum_names(Similarity);  // "cosine", "dot"

// The tensor of that name: of one dimension, a number a text, or of two, rows. Borrowed from the file.
// kBadData says which tensors there are, or the shape found.
Result<const TensorView*> given_tensor(const SafeTensors& file, std::string_view name, size_t dimensions);

// The rows of a tensor [rows, width]; for cosines each is brought to length 1. kBadData names the row that is
// not finite or, for cosines, zero.
Result<Matrix<float>> given_rows(const SafeTensors& file, std::string_view name, Similarity similarity);

// An open file. Movable; what it gives out is borrowed from it.
class GivenFile {
 public:
  // kBadData names the tensor that is missing, of another shape, width or kind, the row that is not finite or
  // (for cosines) zero, and the text whose picture is not there.
  static Result<GivenFile> open_embeddings(const std::filesystem::path& path, Similarity similarity);
  static Result<GivenFile> open_scores(const std::filesystem::path& path);

  [[nodiscard]] int64_t images() const { return scores_->images(); }
  [[nodiscard]] int64_t texts() const { return scores_->texts(); }
  [[nodiscard]] const std::vector<int64_t>& text_image() const { return text_image_; }
  [[nodiscard]] const PairScores& scores() const { return *scores_; }
  [[nodiscard]] int64_t dim() const { return image_rows_.columns(); }  // 0: scores
  [[nodiscard]] const std::string& sha256() const { return sha256_; }
  // Whether the file says that its rows are means of late interaction's.
  [[nodiscard]] bool means() const;

  // Its pictures and texts, by number: without names, captions and files.
  [[nodiscard]] RetrievalSource source() const;
  // kMismatch where `dataset` has other counts of pictures or texts, or a text another picture.
  [[nodiscard]] Status check_belongs_to(const RetrievalSource& dataset) const;

 private:
  std::string path_;
  std::string sha256_;
  SafeTensors file_;
  Matrix<float> image_rows_;
  Matrix<float> text_rows_;
  std::vector<int64_t> text_image_;
  std::unique_ptr<PairScores> scores_;
};

// Some of the texts and pictures of other scores, by number, ascending; all three are borrowed.
std::unique_ptr<PairScores> selected_scores(const PairScores& scores, std::span<const int64_t> texts,
                                            std::span<const int64_t> images);

}  // namespace saccade::lab
