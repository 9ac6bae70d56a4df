// Texts that an approximate index is tuned with and measured on (collection/rows/approximate_index.h).
#pragma once

#include <cstdint>
#include <stop_token>

#include "saccade/collection/collection_reader.h"
#include "saccade/core/error.h"
#include "saccade/matrix.h"
#include "saccade/model/encoder_backend.h"

namespace saccade {

inline constexpr int64_t kTuningTexts = 750;

// Returns embeddings of up to `count` different texts that people may search this collection by: parts and words of captions,
// drawn from a sample of its images, and everyday words; a third of the texts at least are everyday words. They are mixed, so
// that any stretch is as varied as the whole. Empty if the encoder reads no texts. Deterministic. kMismatch for another encoder
// than the collection's; errors of encoding; kCancelled.
Result<Matrix<float>> tuning_texts(const CollectionReader& collection, EncoderBackend& encoder, int64_t count,
                                   const std::stop_token& stop = {});

}  // namespace saccade
