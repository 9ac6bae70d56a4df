// Search: encodes a query, scores the rows that the filter allows,
// folds near-duplicates, and returns the best hits.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "saccade/collection/collection.h"
#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/matrix.h"
#include "saccade/model/encoder.h"
#include "saccade/search/answer.h"
#include "saccade/search/query.h"

namespace saccade {

// A query as a row of the encoder's space.
struct EncodedQuery {
  std::vector<float> row;            // [dim], of length 1
  std::optional<TokenCount> tokens;  // of the text, where there is one
  // Rows of late interaction where the collection keeps such, [n, dim]: the text's, then the picture's. If
  // the query has both, each part's rows are divided by their number.
  Matrix<float> late;
  int64_t text_rows = 0;          // the first of them
  float text_weight = 1;          // the factor on the text's rows: its share times its weight
  std::vector<int32_t> text_ids;  // the tokens of the text's rows, where each row is one token's
  std::shared_ptr<const Composition> composition = {};  // how a composer made the row; nullptr: none did
};

// Encodes all of the query that the collection can use. kUsage for a query with neither text nor image,
// beyond the bounds of query_language.h, with k < 1 or with weights that are not finite. kMismatch if
// `encoder` is not the collection's. kUnsupported for text if the checkpoint has no tokenizer. The errors of
// decode_image for the image. kBadData for a text and an image whose rows cancel out, and for a row of the
// encoder that is not finite or not of length 1. kCancelled when query.stop requests it. Thread-safe.
Result<EncodedQuery> encode_query(const Collection& collection, EncoderBackend& encoder,
                                  const SearchQuery& query);

// Returns the hits for one row of the collection's space, ordered by score, then by id. Ignores query.text,
// query.image, query.background and query.cut. kUsage for k < 1, a broken filter or a row that is not finite;
// kMismatch for a row of another width; kBadData for a collection whose files were truncated since it was
// opened. Thread-safe. Cost: one pass over all rows (find_rows) and a catalog look-up for each image shown.
// Many near-duplicates at the top need another pass each time the number of candidates grows fourfold.
Result<SearchAnswer> search_row(const Collection& collection, std::span<const float> row,
                                const SearchQuery& query, ThreadPool& pool);

// Searches by an encoded query. If the collection keeps late interaction rows, the mean of the query's rows
// finds candidates, and all its rows rank them. If every image is a candidate, the first stage is skipped. A
// query without such rows is compared by the one row alone. Cost: also MaxSim (max_sim.h) of the candidates.
// With query.background hits have a match probability, and those below query.cut are dropped. A cut without
// calibration returns kUnsupported, with the reason. This costs a fraction of a millisecond.
Result<SearchAnswer> search_encoded(const Collection& collection, EncoderBackend& encoder,
                                    const EncodedQuery& encoded, const SearchQuery& query, ThreadPool& pool);

// encode_query, then search_encoded.
Result<SearchAnswer> search(const Collection& collection, EncoderBackend& encoder, const SearchQuery& query,
                            ThreadPool& pool);

// Removes the hits that show an item of `shown`, grouped items included. After a search with a larger k, this
// leaves the additional hits, in their order.
void drop_shown(const std::set<int64_t>& shown, SearchAnswer& answer);

}  // namespace saccade
