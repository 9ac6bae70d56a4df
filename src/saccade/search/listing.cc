#include "saccade/search/listing.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "saccade/collection/newest.h"

namespace saccade {

bool is_listing(const SearchQuery& query) {
  return !query.text.has_words() && query.images.empty();
}

Result<SearchAnswer> list_newest(const CollectionReader& collection, const SearchQuery& query) {
  if (query.k < 1) return fail(ErrorCode::kUsage, "k is {}, expected 1 or more", query.k);
  if (query.cut || query.explain) {
    return fail(ErrorCode::kUsage,
                "nothing to search for: images that are listed by date have no score to {}",
                query.cut ? "cut by" : "explain");
  }
  SACCADE_ASSIGN(const std::vector<PlaceByDate> order, newest_first(collection));
  SACCADE_ASSIGN(const std::vector<int64_t> ids, passing_ids(collection, order, query.filter));
  SearchAnswer answer;
  answer.query = query;
  answer.query.order = HitOrder::kDate;
  answer.searched = std::ssize(ids);
  for (int64_t i = 0; i < std::min(query.k, answer.searched); ++i) {
    SearchHit hit;
    hit.rank = i + 1;
    hit.score = std::numeric_limits<float>::quiet_NaN();
    SACCADE_ASSIGN(hit.item, collection.item(ids[static_cast<size_t>(i)]));
    SACCADE_ASSIGN(hit.facts, collection.facts(hit.item.id));
    answer.hits.push_back(std::move(hit));
  }
  return answer;
}

}  // namespace saccade
