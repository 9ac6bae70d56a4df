#include "saccade/collection/catalog/empty_filter.h"

#include <algorithm>

#include "saccade/core/ascii.h"

namespace saccade {

bool asks_for(const Filter& filter, std::string_view field) {
  return std::ranges::any_of(filter.conditions, [&](const Filter::Condition& condition) {
    const std::string_view name(condition.text.begin(),
                                std::ranges::find_if_not(condition.text, is_ascii_letter));
    return equal_in_any_case(name, field);
  });
}

std::string without_towns(const Filter& filter, bool have_towns) {
  if (have_towns || !asks_for(filter, "place")) return {};
  return "no list of towns is installed to name places by: ./dev build makes it, for images indexed after";
}

Result<std::string> why_filter_is_empty(const CollectionReader& collection, std::string_view filter,
                                        bool have_towns) {
  if (filter.empty()) return std::string();
  SACCADE_ASSIGN(const Filter parsed, parse_filter(filter).in("filter"));
  SACCADE_ASSIGN(std::string why, collection.why_empty(parsed));
  const std::string towns = without_towns(parsed, have_towns);
  if (!why.empty() && !towns.empty()) why += "; " + towns;
  return why;
}

}  // namespace saccade
