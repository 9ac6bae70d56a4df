#include "saccade/search/like.h"

namespace saccade {

Result<SearchAnswer> search_like(const Collection& collection, EncoderBackend& encoder, int64_t id, const SearchQuery& query,
                           ThreadPool& pool) {
  SACCADE_ASSIGN(const Item item, collection.item(id));
  SACCADE_TRY(collection.check_files().in("collection"));
  const auto row = collection.rows().row(item.row);
  SearchQuery like = query;
  ++like.k;
  like.text.clear();
  like.parts.clear();
  like.phrases.clear();
  like.more_images.clear();
  like.image_bytes.reset();
  like.image = item.path;
  like.image_weight = 1;
  EncodedQuery encoded;
  encoded.row.assign(row.begin(), row.end());
  SACCADE_ASSIGN(SearchAnswer answer, collection.has_late_rows()
                                    ? search_row(collection, encoded.row, like, pool)
                                    : search_encoded(collection, encoder, encoded, like, pool));
  std::erase_if(answer.hits, [&](const SearchHit& hit) { return hit.item.id == id; });
  if (std::ssize(answer.hits) > query.k) answer.hits.resize(static_cast<size_t>(query.k));
  for (size_t i = 0; i < answer.hits.size(); ++i) answer.hits[i].rank = static_cast<int64_t>(i) + 1;
  answer.query.k = query.k;
  return answer;
}

}  // namespace saccade
