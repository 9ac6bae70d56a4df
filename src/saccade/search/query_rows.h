// A query as an encoder's rows; not for use outside this module.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "saccade/collection/catalog/catalog.h"
#include "saccade/core/error.h"
#include "saccade/model/encoder.h"
#include "saccade/search/search.h"

namespace saccade {

bool has_words(const SearchQuery& query);

// Puts hits that are in the order of their ranks into the one asked for.
void order_hits(SearchAnswer& answer);

// The text as the encoder reads it. kUnsupported where the checkpoint has no tokenizer.
Result<TokenizedText> tokenize_query(EncoderBackend& encoder, const SearchQuery& query);

// The picture as the encoder reads it, [1, 3 x height x width].
Result<Matrix<float>> query_pixels(const IngestSettings& settings, EncoderBackend& encoder,
                                   const SearchQuery& query);

// The query's one row, and with `late` its rows of late interaction; errors as encode_query.
Result<EncodedQuery> encode_query_rows(const IngestSettings& settings, EncoderBackend& encoder,
                                       const SearchQuery& query, bool late);

// Encodes the query once for each list of parts, which replaces its own texts if the query has words. With
// late interaction, kUnsupported for an unwanted part and for several images. All texts are encoded together,
// an image once.
Result<std::vector<EncodedQuery>> encode_query_parts(const IngestSettings& settings, EncoderBackend& encoder,
                                                     const SearchQuery& query, bool late,
                                                     std::span<const std::vector<QueryPart>> queries);

// Encodes the query once for each of `texts`, which replaces its own. `texts` may be empty; a text of length
// 0 is encoded as the model does it. All texts are encoded together, an image once.
Result<std::vector<EncodedQuery>> encode_query_texts(const IngestSettings& settings, EncoderBackend& encoder,
                                                     const SearchQuery& query, bool late,
                                                     std::span<const std::string> texts);

}  // namespace saccade
