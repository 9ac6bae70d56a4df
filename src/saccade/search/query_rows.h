// A query as an encoder's rows; not for use outside this module.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "saccade/collection/catalog/catalog.h"
#include "saccade/core/error.h"
#include "saccade/model/encoder_backend.h"
#include "saccade/search/encoded_query.h"
#include "saccade/search/search_answer.h"

namespace saccade {

// Puts hits that are in the order of their ranks into the one asked for.
void order_hits(SearchAnswer& answer);

// Returns the number of texts that the encoder reads for a text: 1, or its chunks. Errors as tokenize_query.
Result<int64_t> count_pieces(EncoderBackend& encoder, LongText long_text, const std::string& text);

// The text as the encoder reads it. kUnsupported where the checkpoint has no tokenizer.
Result<TokenizedText> tokenize_query(EncoderBackend& encoder, const SearchQuery& query);

// The picture as the encoder reads it, [1, 3 x height x width].
Result<Matrix<float>> query_pixels(const IngestSettings& settings, EncoderBackend& encoder,
                                   const QueryImage& image, const DecodeOptions& limits);

// The query's one row, and with `late` its rows of late interaction; errors as encode_query.
Result<EncodedQuery> encode_query_rows(const IngestSettings& settings, EncoderBackend& encoder,
                                       const SearchQuery& query, bool late);

// Encodes the query once for each list of parts, which replaces its own texts if the query has words; a part
// without words is encoded as the model does it. With late interaction, kUnsupported for an unwanted part and
// for several images. Different texts are encoded together; equal ones, and images, once.
Result<std::vector<EncodedQuery>> encode_query_parts(const IngestSettings& settings, EncoderBackend& encoder,
                                                     const SearchQuery& query, bool late,
                                                     std::span<const std::vector<QueryPart>> queries);

}  // namespace saccade
