// A collection's captions, and the rows of texts: what measuring a collection and illustrating from it share.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "saccade/collection/collection.h"
#include "saccade/core/error.h"
#include "saccade/matrix.h"
#include "saccade/model/encoder.h"

namespace saccade {

// Captions by row; "" where an item has none, and for rows that no item has. Errors are
// those of reading the catalog.
Result<std::vector<std::string>> captions_by_row(const Collection& collection);

// A row of length 1 a text, 64 texts at a time. The encoder has
// a tokenizer. Errors are those of encoding; kCancelled.
Result<Matrix<float>> encode_all_texts(EncoderBackend& encoder, const std::vector<std::string>& texts,
                                       const std::stop_token& stop = {});

}  // namespace saccade
