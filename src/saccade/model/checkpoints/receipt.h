// Accuracy report of reduced precision: similarity of an encoder's embeddings to those of the same checkpoint
// in fp32.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/matrix.h"
#include "saccade/model/encoder_backend.h"
#include "saccade/model/options/wide_layers.h"

namespace saccade {

// Cosines between embeddings and their references.
struct RowAgreement {
  int64_t rows = 0;
  double mean = 1;
  double first_percentile = 1;  // one row in a hundred is farther off; of fewer than 100, the worst
  double worst = 1;
};
// Computes the agreement of two matrices [n, dim]. A row that is not finite, or is 0 while the other is not,
// has cosine -1.
RowAgreement agreement_of(MatrixView<const float> rows, MatrixView<const float> references);

struct PrecisionReceipt {
  Precision precision = Precision::kFp32;
  std::optional<RowAgreement> pictures;  // nothing: the encoder takes none
  std::optional<RowAgreement> texts;
  WideLayers wide_layers = {};
};
// Minimum mean cosine similarity for an encoder in reduced precision.
inline constexpr double kLeastMeanCosine = 0.995;
bool keeps_rows(const PrecisionReceipt& receipt);

// Images and texts built into the program, as an encoder takes them.
struct BundledInputs {
  Matrix<float> pixels;              // [n, 3 * height * width]; no rows if the encoder takes no images
  std::vector<TokenizedText> texts;  // empty if the encoder has no tokenizer
};
inline constexpr int64_t kBundledInputs = 32;
// Returns the first `count` of the kBundledInputs images and as many texts. Returns the errors of preprocessing.
Result<BundledInputs> bundled_inputs(const EncoderBackend& encoder, int64_t count = kBundledInputs);
// Encodes all of them once, and drops the embeddings. Returns the errors of encoding.
Status encode_inputs(EncoderBackend& encoder, const BundledInputs& inputs);

// Measures the agreement on images and texts built into the program: 32 drawings (gradients, discs, stripes,
// noise) and 32 short texts. `reference` is the same checkpoint in fp32. Returns the errors of encoding.
// Cost: encoding all of them with both.
Result<PrecisionReceipt> bundled_receipt(EncoderBackend& encoder, EncoderBackend& reference);
// Measures the agreement on the caller's pixels, [n, 3 * height * width] as written by `preprocess`, and
// texts.
Result<RowAgreement> picture_agreement(EncoderBackend& encoder, EncoderBackend& reference,
                                       MatrixView<const float> pixels);

// Formats as "mean 0.9991, 1st percentile 0.9982, worst 0.9979 (32 pictures)".
std::string agreement_text(const RowAgreement& agreement, std::string_view what);
// Formats as "3 layers in bf16, as their inputs have outliers: vision_model.embeddings.patch_embedding, ...";
// empty if there are none.
std::string wide_layers_text(const WideLayers& layers);
// Converts to {"precision", "images", "texts", "wide_layers" {"count", "precision", "names"}, "kept"};
// missing parts are null.
Json receipt_json(const PrecisionReceipt& receipt);

}  // namespace saccade
