// Search: encodes a query, scores the rows that the filter allows,
// folds near-duplicates, and returns the best hits.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "saccade/collection/collection_reader.h"
#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/model/encoder_backend.h"
#include "saccade/search/search_answer.h"
#include "saccade/search/search_query.h"

namespace saccade {

class RowFinder;  // row_finder.h

// Returns item `id` of the collection as an image to search by. kNotFound if there is no such item.
Result<QueryImage> stored_image(const CollectionReader& collection, int64_t id);

// Looks up which items pass the query's filter and which have its words. The collection keeps the answers for the search that
// follows, so this can be done while the encoder is loaded. Errors are left to the search. Thread-safe.
void look_ahead(const CollectionReader& collection, const SearchQuery& query);

// Encodes all of the query that the collection can use. A stored image alone needs no encoding: its stored
// embedding is the query, without rows of late interaction. kUsage for a query with neither text nor image,
// beyond the bounds of query_language.h, with k < 1 or with weights that are not finite. kMismatch if
// `encoder` is not the collection's. kUnsupported for text if the checkpoint has no tokenizer. The errors of
// decode_image for the image. kBadData for a text and an image whose rows cancel out, and for a row of the
// encoder that is not finite or not of length 1. kCancelled when query.stop requests it. Thread-safe.
Result<EncodedQuery> encode_query(const CollectionReader& collection, EncoderBackend& encoder,
                                  const SearchQuery& query);

// Encodes queries, each as encode_query does, with an error of its own. Their texts are encoded together, in batches. On
// x86-64 processors without AVX-512 the last digits of an embedding depend on the batch. Thread-safe. Memory: a batch, and the
// encoded queries.
std::vector<Result<EncodedQuery>> encode_queries(const CollectionReader& collection, EncoderBackend& encoder,
                                                 std::span<const SearchQuery* const> queries);

// Returns the hits for one row of the collection's space, ordered by score, then by id. Ignores query.text,
// query.background and query.min_probability; of query.images, stored ones are excluded. kUsage for k < 1, a broken filter or a row that is not finite;
// kMismatch for a row of another width; kBadData for a collection whose files were truncated since it was
// opened. Thread-safe. Cost: one pass over all rows (find_rows) and a catalog look-up for each image shown.
// Many near-duplicates at the top need another pass each time the number of candidates grows fourfold.
Result<SearchAnswer> search_row(const CollectionReader& collection, std::span<const float> row,
                                const SearchQuery& query, ThreadPool& pool);

// Searches by an encoded query. If the collection keeps late interaction rows, the mean of the query's rows
// finds candidates, and all its rows rank them. If every image is a candidate, the first stage is skipped. A
// query without such rows is compared by the one row alone. Cost: also MaxSim (max_sim.h) of the candidates.
// With query.background hits have a match probability, and those below query.min_probability are dropped. A cut without
// calibration returns kUnsupported, with the reason. This costs a fraction of a millisecond.
Result<SearchAnswer> search_encoded(const CollectionReader& collection, EncoderBackend& encoder,
                                    const EncodedQuery& encoded, const SearchQuery& query, ThreadPool& pool);
// Likewise, with the same answer; `finder` scores the rows.
Result<SearchAnswer> search_encoded(const CollectionReader& collection, EncoderBackend& encoder,
                                    const EncodedQuery& encoded, const SearchQuery& query, ThreadPool& pool,
                                    RowFinder& finder);

// Number of searches that share a pass over the rows.
inline constexpr int64_t kSearchesTogether = 64;

// Search of search_encoded_all(). Borrowed.
struct EncodedSearch {
  const EncodedQuery* encoded = nullptr;
  const SearchQuery* query = nullptr;
};
// Answers searches as search_encoded does, in their order, each with an error of its own. Answers are the same to the bit, but
// for SearchAnswer::rescored. Up to kSearchesTogether searches with the same filter share a pass over the rows. The stop token
// of one of them ends it. Searches in a vector database or by an approximate index share nothing. Thread-safe. Cost: a pass
// is that of find_rows for many queries; keywords, grouping and judging cost as much as for each alone.
std::vector<Result<SearchAnswer>> search_encoded_all(const CollectionReader& collection,
                                                     EncoderBackend& encoder,
                                                     std::span<const EncodedSearch> searches,
                                                     ThreadPool& pool);

// encode_query, then search_encoded.
Result<SearchAnswer> search(const CollectionReader& collection, EncoderBackend& encoder,
                            const SearchQuery& query, ThreadPool& pool);

// Removes the hits that show an item of `shown`, grouped items included. After a search with a larger k, this
// leaves the additional hits, in their order.
void drop_shown(const std::set<int64_t>& shown, SearchAnswer& answer);

}  // namespace saccade
