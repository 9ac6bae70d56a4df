#include "saccade/search/like.h"

#include "saccade/search/query_rows.h"

namespace saccade {

Result<EncodedQuery> encode_like(const Collection& collection, EncoderBackend& encoder, int64_t id,
                                 SearchQuery& query) {
  SACCADE_ASSIGN(const Item item, collection.item(id));
  query.image = item.path;
  query.without = id;
  if (has_words(query)) return encode_query(collection, encoder, query);
  SACCADE_TRY(collection.check_files().in("collection"));
  const auto row = collection.rows().row(item.row);
  EncodedQuery encoded;
  encoded.row.assign(row.begin(), row.end());
  return encoded;
}

Result<SearchAnswer> search_like(const Collection& collection, EncoderBackend& encoder, int64_t id,
                                 const SearchQuery& query, ThreadPool& pool) {
  SearchQuery like = query;
  like.text.clear();
  like.parts.clear();
  like.phrases.clear();
  like.more_images.clear();
  like.image_bytes.reset();
  like.image_weight = 1;
  SACCADE_ASSIGN(const EncodedQuery encoded, encode_like(collection, encoder, id, like));
  return search_encoded(collection, encoder, encoded, like, pool);
}

}  // namespace saccade
