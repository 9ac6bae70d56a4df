// A query as an encoder's rows; not for use outside this module.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
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

// A text's part of a query, encoded.
struct EncodedText {
  std::vector<float> row;  // [dim], of length 1
  Matrix<float> late;      // rows of late interaction
  TokenCount tokens;
  std::vector<int32_t> ids;  // one a row of late interaction, or none
};
// Encoded texts by their content, as one LongText has them read.
struct EncodedTexts {
  LongText long_text = LongText::kTruncate;
  std::map<std::string, EncodedText, std::less<>> texts;

  // Returns a text's part; `nullptr` if it was not encoded.
  [[nodiscard]] const EncodedText* find(std::string_view text) const {
    const auto found = texts.find(text);
    return found == texts.end() ? nullptr : &found->second;
  }
};

// Encodes the texts of queries, each text once, in batches of similar lengths. Left out are texts that cannot be encoded,
// those that a composer reads, and those of queries with another LongText than the first. Ends at the stop of the first one.
EncodedTexts encode_texts_ahead(EncoderBackend& encoder, std::span<const SearchQuery* const> queries,
                                bool late);

// The query's one row, and with `late` its rows of late interaction; errors as encode_query. Texts that are in `ahead` are
// not encoded again; `nullptr`: none are.
Result<EncodedQuery> encode_query_rows(const IngestSettings& settings, EncoderBackend& encoder,
                                       const SearchQuery& query, bool late,
                                       const EncodedTexts* ahead = nullptr);

// Encodes the query once for each list of parts, which replaces its own texts if the query has words; a part
// without words is encoded as the model does it. With late interaction, kUnsupported for an unwanted part and
// for several images. Different texts are encoded together; equal ones, and images, once. `ahead`: as above.
Result<std::vector<EncodedQuery>> encode_query_parts(const IngestSettings& settings, EncoderBackend& encoder,
                                                     const SearchQuery& query, bool late,
                                                     std::span<const std::vector<QueryPart>> queries,
                                                     const EncodedTexts* ahead = nullptr);

}  // namespace saccade
