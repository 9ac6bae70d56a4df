#include "lab/eval/rows/pair_scores.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "saccade/core/half.h"
#include "saccade/index/dot_kernels.h"

namespace saccade::lab {
namespace {

// Number of texts and images scored together: 128 KiB of each at 512 columns, which fits the L2 cache.
constexpr int64_t kTile = 64;

// Fills pointers to a tile of rows, followed by those that the kernel prefetches.
int64_t fill_tile(MatrixView<const float> rows, int64_t first, int64_t end,
                  std::array<const float*, kTile + kDotRowGroup>& tile) {
  const int64_t count = std::min(kTile, end - first);
  for (int64_t r = 0; r < count + kDotRowGroup; ++r) {
    tile[static_cast<size_t>(r)] = rows.data() + std::min(first + r, rows.rows() - 1) * rows.stride();
  }
  return count;
}

// Returns rows in the kernels' query layout: contiguous, padded with zeros to a multiple of the lanes.
Matrix<float> padded_rows(MatrixView<const float> rows) {
  Matrix<float> padded(rows.rows(), padded_dim(rows.columns()));
  for (int64_t r = 0; r < rows.rows(); ++r) std::ranges::copy(rows.row(r), padded.row(r).begin());
  return padded;
}

class DotScores : public PairScores {
 public:
  DotScores(MatrixView<const float> texts, MatrixView<const float> images) : texts_(texts), images_(images) {
    const int64_t padded = padded_dim(texts.columns());
    if (padded == texts.columns() && texts.stride() == padded) return;
    padded_ = padded_rows(texts);
    texts_ = padded_.view();
  }

  [[nodiscard]] int64_t texts() const override { return texts_.rows(); }
  [[nodiscard]] int64_t images() const override { return images_.rows(); }

  void score(int64_t first_text, int64_t text_count, int64_t first_image, int64_t image_count, float* out,
             int64_t text_stride, int64_t image_stride) const override {
    const DotKernel dot = dot_kernels().front().run;
    std::array<const float*, kTile + kDotRowGroup> tile{};
    std::array<float, kTile * kTile> scores;
    for (int64_t i = 0; i < image_count; i += kTile) {
      const int64_t wide = fill_tile(images_, first_image + i, first_image + image_count, tile);
      for (int64_t t = 0; t < text_count; t += kTile) {
        const int64_t high = std::min(kTile, text_count - t);
        dot(tile.data(), wide, texts_.row(first_text + t).data(), high, images_.columns(), scores.data());
        for (int64_t a = 0; a < high; ++a) {
          float* to = out + (t + a) * text_stride + i * image_stride;
          const float* from = scores.data() + a * wide;
          for (int64_t b = 0; b < wide; ++b) to[b * image_stride] = from[b];
        }
      }
    }
  }

 private:
  Matrix<float> padded_;
  MatrixView<const float> texts_;
  MatrixView<const float> images_;
};

// The texts are the kernels' queries in both forms, so that only their rows are copied.
class MaxSimScores : public PairScores {
 public:
  MaxSimScores(const RowSets& texts, const RowSets& images, LateScoring scoring)
      : texts_(texts), images_(images), scoring_(scoring), padded_(padded_rows(texts.rows.view())) {}

  [[nodiscard]] int64_t texts() const override { return static_cast<int64_t>(texts_.begin.size()) - 1; }
  [[nodiscard]] int64_t images() const override { return static_cast<int64_t>(images_.begin.size()) - 1; }

  void score(int64_t first_text, int64_t text_count, int64_t first_image, int64_t image_count, float* out,
             int64_t text_stride, int64_t image_stride) const override {
    std::vector<float> scores;
    std::vector<float> best;
    for (int64_t i = 0; i < image_count; ++i) {
      for (int64_t t = 0; t < text_count; ++t) {
        find_best(static_cast<size_t>(first_text + t), static_cast<size_t>(first_image + i), scores, best);
        float sum = 0;
        for (const float value : best) sum += value;
        out[t * text_stride + i * image_stride] =
            scoring_.normalize ? sum / static_cast<float>(best.size()) : sum;
      }
    }
  }

 private:
  // Sets best[r] to the largest dot product of row r of the side that is summed over with a row of the other.
  void find_best(size_t text, size_t image, std::vector<float>& scores, std::vector<float>& best) const {
    const DotKernel dot = dot_kernels().front().run;
    std::array<const float*, kTile + kDotRowGroup> tile{};
    const bool from_text = scoring_.from == LateFrom::kText;
    const int64_t first = texts_.begin[text];
    const int64_t rows = texts_.begin[text + 1] - first;
    const int64_t begin = images_.begin[image];
    const int64_t end = images_.begin[image + 1];
    best.assign(static_cast<size_t>(from_text ? rows : end - begin), -std::numeric_limits<float>::infinity());
    scores.resize(static_cast<size_t>(rows * kTile));
    for (int64_t from = begin; from < end; from += kTile) {
      const int64_t wide = fill_tile(images_.rows.view(), from, end, tile);
      dot(tile.data(), wide, padded_.row(first).data(), rows, images_.rows.columns(), scores.data());
      for (int64_t r = 0; r < rows; ++r) {
        const float* row = scores.data() + r * wide;
        if (from_text) {
          float& most = best[static_cast<size_t>(r)];
          most = std::max(most, *std::max_element(row, row + wide));
          continue;
        }
        float* most = best.data() + (from - begin);
        for (int64_t w = 0; w < wide; ++w) most[w] = std::max(most[w], row[w]);
      }
    }
  }

  const RowSets& texts_;
  const RowSets& images_;
  LateScoring scoring_;
  Matrix<float> padded_;
};

class GivenScores : public PairScores {
 public:
  explicit GivenScores(const TensorView& tensor) : tensor_(tensor) {}

  [[nodiscard]] int64_t texts() const override { return tensor_.shape[0]; }
  [[nodiscard]] int64_t images() const override { return tensor_.shape[1]; }

  void score(int64_t first_text, int64_t text_count, int64_t first_image, int64_t image_count, float* out,
             int64_t text_stride, int64_t image_stride) const override {
    const int64_t size = dtype_size(tensor_.dtype);
    for (int64_t t = 0; t < text_count; ++t) {
      const std::byte* from =
          tensor_.bytes.data() + ((first_text + t) * tensor_.shape[1] + first_image) * size;
      float* to = out + t * text_stride;
      for (int64_t i = 0; i < image_count; ++i) to[i * image_stride] = value(from + i * size);
    }
  }

 private:
  [[nodiscard]] float value(const std::byte* bytes) const {
    if (tensor_.dtype == DType::kF32) {
      float single = 0;
      std::memcpy(&single, bytes, sizeof(single));
      return single;
    }
    uint16_t half = 0;
    std::memcpy(&half, bytes, sizeof(half));
    return tensor_.dtype == DType::kF16 ? fp16_to_float(half) : bf16_to_float(half);
  }

  TensorView tensor_;
};

Status check_row_sets(const char* what, const RowSets& sets) {
  for (size_t i = 1; i < sets.begin.size(); ++i) {
    if (sets.begin[i] <= sets.begin[i - 1])
      return fail(ErrorCode::kBadData, "{} {} has no rows", what, i - 1);
  }
  return {};
}

}  // namespace

std::span<const EnumName<LateFrom>> enum_names(LateFrom) {
  static constexpr std::array<EnumName<LateFrom>, 2> kWords{
      {{LateFrom::kText, "text",
        "the sum over a text's vectors of the largest dot product with a vector of the image"},
       {LateFrom::kImage, "image",
        "the sum over an image's vectors of the largest dot product with a vector of the text"}}};
  return kWords;
}

Result<std::unique_ptr<PairScores>> dot_scores(MatrixView<const float> texts,
                                               MatrixView<const float> images) {
  if (texts.columns() != images.columns()) {
    return fail(ErrorCode::kMismatch, "texts of width {}, images of width {}", texts.columns(),
                images.columns());
  }
  return std::make_unique<DotScores>(texts, images);
}

Result<std::unique_ptr<PairScores>> max_sim_scores(const RowSets& texts, const RowSets& images,
                                                   LateScoring scoring) {
  if (texts.rows.columns() != images.rows.columns()) {
    return fail(ErrorCode::kMismatch, "rows of texts of width {}, of images of width {}",
                texts.rows.columns(), images.rows.columns());
  }
  SACCADE_TRY(check_row_sets("text", texts));
  SACCADE_TRY(check_row_sets("image", images));
  return std::make_unique<MaxSimScores>(texts, images, scoring);
}

Result<std::unique_ptr<PairScores>> given_scores(const TensorView& tensor) {
  if (tensor.shape.size() != 2) {
    return fail(ErrorCode::kBadData, "scores of shape {}, expected [texts, images]",
                shape_text(tensor.shape));
  }
  if (tensor.dtype == DType::kF64) {
    return fail(ErrorCode::kUnsupported,
                "scores in F64, expected F32, F16 or BF16: rounding them here could make ties");
  }
  if (tensor.dtype != DType::kF32 && tensor.dtype != DType::kF16 && tensor.dtype != DType::kBF16) {
    return fail(ErrorCode::kBadData, "scores in {}, expected F32, F16 or BF16", dtype_name(tensor.dtype));
  }
  return std::make_unique<GivenScores>(tensor);
}

}  // namespace saccade::lab
