// Options of the audit of datasets (audit.h).
#pragma once

#include <cstdint>
#include <functional>

#include "saccade/core/error.h"
#include "saccade/image/image_codec.h"
#include "saccade/image/preprocess.h"
#include "saccade/matrix.h"
#include "saccade/tokenizer.h"

namespace saccade::lab {

struct AuditOptions {
  // Tokenizer for caption lengths in tokens; `nullptr` to skip them.
  const Tokenizer* tokenizer = nullptr;
  int64_t context = 0;
  // Encoder for near-duplicate images: pixels [n, 3 * height * width] -> [n, dim], normalized. If empty,
  // difference hashes are used.
  std::function<Result<Matrix<float>>(MatrixView<const float>)> encode;
  Preprocessing preprocessing;       // preprocessing of that encoder
  double near_cosine = 0.98;         // rows at least this close are near-duplicates
  DecoderPool* processes = nullptr;  // decoder processes; nullptr: threads decode (DecodeOptions)
};

}  // namespace saccade::lab
