// A collection's captions, and the rows of texts: what measuring a collection and illustrating from it share.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "saccade/collection/collection_reader.h"
#include "saccade/core/error.h"
#include "saccade/matrix.h"
#include "saccade/model/encoder_backend.h"

namespace saccade {

// Captions by row; "" where an item has none, and for rows that no item has. Errors are
// those of reading the catalog.
Result<std::vector<std::string>> captions_by_row(const CollectionReader& collection);

// Captions by row. An item without one is described by the words of its file name, of three letters or more, that at
// most a tenth of such names have: "red-door_2.jpg" by "red door", "IMG_0003.jpg" by nothing. Errors are those of
// reading the catalog.
Result<std::vector<std::string>> descriptions_by_row(const CollectionReader& collection);

// A row of length 1 a text, 64 texts at a time. The encoder has
// a tokenizer. Errors are those of encoding; kCancelled.
Result<Matrix<float>> encode_all_texts(EncoderBackend& encoder, const std::vector<std::string>& texts,
                                       const std::stop_token& stop = {});

}  // namespace saccade
