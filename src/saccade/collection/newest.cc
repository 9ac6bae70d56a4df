#include "saccade/collection/newest.h"

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>

namespace saccade {

Result<std::vector<PlaceByDate>> newest_first(const CollectionReader& collection) {
  // Capture dates of items whose files have one, like the filter's `date`.
  std::unordered_map<int64_t, int64_t> taken;
  SACCADE_TRY(collection.for_each_facts([&](int64_t id, const ItemFacts& facts) -> Status {
    if (facts.picture.taken) taken.emplace(id, *facts.picture.taken * 1'000'000'000);
    return {};
  }));
  std::vector<std::tuple<int64_t, std::string, PlaceByDate>> dated;
  SACCADE_TRY(collection.for_each_item([&](const Item& item) -> Status {
    const auto known = taken.find(item.id);
    dated.emplace_back(known == taken.end() ? item.mtime_ns : known->second, item.hash,
                       PlaceByDate{item.id, item.row});
    return {};
  }));
  std::ranges::sort(dated, [](const auto& a, const auto& b) {
    // Dates are not negated, as the least one has no opposite.
    return std::tie(std::get<0>(b), std::get<1>(a), std::get<2>(a).id) <
           std::tie(std::get<0>(a), std::get<1>(b), std::get<2>(b).id);
  });
  std::vector<PlaceByDate> order;
  order.reserve(dated.size());
  for (const auto& [date, hash, place] : dated) order.push_back(place);
  return order;
}

Result<NearestItems> newest_in_index(const CollectionReader& collection, std::string_view filter,
                                     int64_t count) {
  const VectorIndex& index = *collection.index();
  if (count > index.most()) {
    return fail(ErrorCode::kUsage, "{} images are asked for, but {} lists at most {}", count, index.engine(),
                index.most());
  }
  std::optional<Filter> parsed;
  if (!filter.empty()) {
    SACCADE_ASSIGN(parsed, parse_filter(filter).in("filter"));
  }
  SACCADE_ASSIGN(NearestItems newest, index.newest(parsed ? &*parsed : nullptr, count));
  for (WholeItem& whole : newest.items) whole.item.path = index.path_here(whole.item.path);
  if (newest.exact) return newest;
  return fail(ErrorCode::kUsage, "filter: {} cannot list by a set of characters like [a-z]: use * or ?",
              index.engine());
}

Result<std::vector<int64_t>> passing_ids(const CollectionReader& collection,
                                         std::span<const PlaceByDate> order, std::string_view filter) {
  std::optional<std::vector<uint8_t>> allowed;
  if (!filter.empty()) {
    SACCADE_ASSIGN(const Filter parsed, parse_filter(filter).in("filter"));
    SACCADE_ASSIGN(allowed, collection.allowed(parsed));
  }
  std::vector<int64_t> ids;
  for (const PlaceByDate& place : order) {
    const auto row = static_cast<size_t>(place.row);
    if (!allowed || (row < allowed->size() && (*allowed)[row] != 0)) ids.push_back(place.id);
  }
  return ids;
}

}  // namespace saccade
