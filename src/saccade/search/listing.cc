#include "saccade/search/listing.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "saccade/collection/newest.h"

namespace saccade {

bool is_listing(const SearchQuery& query) {
  return !query.text.has_words() && query.images.empty();
}

Result<SearchAnswer> list_newest(const CollectionReader& collection, const SearchQuery& query) {
  if (query.k < 1) return fail(ErrorCode::kUsage, "k is {}, expected 1 or more", query.k);
  if (query.min_probability || query.explain) {
    return fail(ErrorCode::kUsage,
                "nothing to search for: images that are listed by date have no score to {}",
                query.min_probability ? "cut by" : "explain");
  }
  SearchAnswer answer;
  answer.query = query;
  answer.query.order = Order::kDate;
  const auto add = [&](Item item, ItemFacts facts) {
    SearchHit hit;
    hit.rank = std::ssize(answer.hits) + 1;
    hit.score = std::numeric_limits<float>::quiet_NaN();
    hit.item = std::move(item);
    hit.facts = std::move(facts);
    answer.hits.push_back(std::move(hit));
  };
  if (collection.index() != nullptr) {
    SACCADE_ASSIGN(NearestItems newest, newest_in_index(collection, query.filter, query.k));
    answer.searched = newest.searched;
    for (WholeItem& whole : newest.items) add(std::move(whole.item), std::move(whole.facts));
    return answer;
  }
  SACCADE_ASSIGN(const std::vector<PlaceByDate> order, newest_first(collection));
  SACCADE_ASSIGN(const std::vector<int64_t> ids, passing_ids(collection, order, query.filter));
  answer.searched = std::ssize(ids);
  for (int64_t i = 0; i < std::min(query.k, answer.searched); ++i) {
    SACCADE_ASSIGN(Item item, collection.item(ids[static_cast<size_t>(i)]));
    SACCADE_ASSIGN(ItemFacts facts, collection.facts(item.id));
    add(std::move(item), std::move(facts));
  }
  return answer;
}

}  // namespace saccade
