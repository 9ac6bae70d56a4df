// Scores of texts with images, computed in blocks, so that nobody holds the whole matrix.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "saccade/core/enum_names.h"
#include "saccade/core/error.h"
#include "saccade/core/files/safetensors.h"
#include "saccade/matrix.h"
#include "saccade/model/encoder_backend.h"

namespace saccade::lab {

// A matrix [texts, images] of scores, higher is closer. A pair's score has the same bits in every block that
// contains it. Thread-safe.
class PairScores {
 public:
  virtual ~PairScores() = default;
  [[nodiscard]] virtual int64_t texts() const = 0;
  [[nodiscard]] virtual int64_t images() const = 0;
  // Writes the score of text first_text + t with image first_image + i to out[t * text_stride + i *
  // image_stride], for t < text_count and i < image_count.
  virtual void score(int64_t first_text, int64_t text_count, int64_t first_image, int64_t image_count,
                     float* out, int64_t text_stride, int64_t image_stride) const = 0;
};

// Returns dot products of rows, as index/dot_kernels.h defines them. The rows are borrowed; texts whose width
// is not a multiple of kDotLanes are copied, padded. Returns kMismatch for different widths. Cost: texts *
// images * dim multiply-adds in total.
Result<std::unique_ptr<PairScores>> dot_scores(MatrixView<const float> texts, MatrixView<const float> images);

// Side of a pair whose rows MaxSim sums over.
enum class LateFrom { kText, kImage };
std::span<const EnumName<LateFrom>> enum_names(LateFrom);  // "text", "image"

// Form of MaxSim.
struct LateScoring {
  LateFrom from = LateFrom::kText;
  bool normalize = false;  // true to divide the sum by its number of rows
  friend bool operator==(const LateScoring&, const LateScoring&) = default;
};

// Returns MaxSim: the sum over the rows of one side of the largest dot product with a row of the other. Both are
// borrowed. kBadData names a text or image without rows.
Result<std::unique_ptr<PairScores>> max_sim_scores(const RowSets& texts, const RowSets& images,
                                                   LateScoring scoring = {});

// Returns scores from a tensor [texts, images] in F32, F16 or BF16; the bytes are borrowed. Returns
// kUnsupported for F64, since rounding to 32 bits could create ties.
Result<std::unique_ptr<PairScores>> given_scores(const TensorView& tensor);

}  // namespace saccade::lab
