#include "saccade/match.h"

#include "saccade/core/enum_names.h"
#include "saccade/search/search_query.h"

namespace saccade {

std::string_view name(Order order) {
  return enum_name(order);
}
Result<Order> parse_order(std::string_view name) {
  return parse_name<Order>("order", name);
}

std::string_view name(Match match) {
  switch (match) {
    case Match::kUnknown:
      return "unknown";
    case Match::kWeak:
      return "weak match";
    case Match::kPossible:
      return "possible";
    case Match::kLikely:
      return "likely";
    case Match::kStrong:
      return "strong match";
  }
  return "unknown";
}

Match match_of(std::optional<double> probability) {
  if (!probability) return Match::kUnknown;
  if (*probability >= 0.8) return Match::kStrong;
  if (*probability >= 0.5) return Match::kLikely;
  return *probability >= 0.2 ? Match::kPossible : Match::kWeak;
}

}  // namespace saccade
