// Embeddings or scores of other programs for evaluation, in a safetensors file.
//
//   embeddings   image_embeds [n, d] and text_embeds [m, d], floating point; text_image [m], integer
//   scores       scores [m, n] in F32, F16 or BF16, higher is closer; text_image [m], integer
//
// text_image holds the image of each text, -1 for none.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lab/eval/retrieval/retrieval_task.h"
#include "lab/eval/rows/pair_scores.h"
#include "saccade/core/enum_names.h"
#include "saccade/core/error.h"
#include "saccade/core/files/safetensors.h"
#include "saccade/matrix.h"

namespace saccade::lab {

enum class Similarity {
  kCosine,  // rows are brought to length 1
  kDot,     // rows as they are
};
std::span<const EnumName<Similarity>> enum_names(Similarity);  // "cosine", "dot"

// Returns the tensor of that name, borrowed from the file. It has one dimension (a number per text) or two
// (rows). kBadData lists the available tensors, or gives the shape found.
Result<const TensorView*> given_tensor(const SafeTensors& file, std::string_view name, size_t dimensions);

// Returns the rows of a tensor [rows, width]; for cosines each is normalized. kBadData names the row that is
// not finite or, for cosines, zero.
Result<Matrix<float>> given_rows(const SafeTensors& file, std::string_view name, Similarity similarity);

// An open file. Movable. Its results are borrowed from it.
class GivenFile {
 public:
  // Opens embeddings. kBadData names a tensor that is missing or has the wrong shape, width or type; a row
  // that is not finite or (for cosines) zero; or a text whose image does not exist.
  static Result<GivenFile> open_embeddings(const std::filesystem::path& path, Similarity similarity);
  static Result<GivenFile> open_scores(const std::filesystem::path& path);

  [[nodiscard]] int64_t images() const { return scores_->images(); }
  [[nodiscard]] int64_t texts() const { return scores_->texts(); }
  [[nodiscard]] const std::vector<int64_t>& text_image() const { return text_image_; }
  [[nodiscard]] const PairScores& scores() const { return *scores_; }
  [[nodiscard]] int64_t dim() const { return image_rows_.columns(); }  // 0: scores
  [[nodiscard]] const std::string& sha256() const { return sha256_; }
  // Returns true if the file declares its rows to be means of late-interaction embeddings.
  [[nodiscard]] bool means() const;

  // Returns its images and texts by number, without names, captions and files.
  [[nodiscard]] RetrievalSource source() const;
  // Returns kMismatch if `dataset` has other numbers of images or texts, or a text belongs to another image.
  [[nodiscard]] Status check_belongs_to(const RetrievalSource& dataset) const;

 private:
  // Opens a file whose tensors are not read yet.
  static Result<GivenFile> open(const std::filesystem::path& path);

  std::string path_;
  std::string sha256_;
  SafeTensors file_;
  Matrix<float> image_rows_;
  Matrix<float> text_rows_;
  std::vector<int64_t> text_image_;
  std::unique_ptr<PairScores> scores_;
};

// Selects texts and images of other scores, by number, ascending. All three arguments are borrowed.
std::unique_ptr<PairScores> selected_scores(const PairScores& scores, std::span<const int64_t> texts,
                                            std::span<const int64_t> images);

}  // namespace saccade::lab
