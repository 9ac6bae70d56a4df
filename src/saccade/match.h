// Order of hits, and the strength of a match in words for people.
#pragma once

#include <optional>
#include <string_view>

#include "saccade/result.h"

#pragma GCC visibility push(default)
namespace saccade {

// Order of hits.
enum class Order {
  kScore,  // best first
  kDate,   // newest first: when the image was taken, else the file's date
};

// Returns "score" or "date". Thread-safe.
std::string_view name(Order order);
// Returns the order of that name. kUsage, which lists the names, for any other name. Thread-safe.
Result<Order> parse_order(std::string_view name);

// Strength of a match, by its calibrated probability of being right.
enum class Match {
  kUnknown,   // the collection has no calibration data
  kWeak,      // below 0.2: unrelated searches often look this good
  kPossible,  // 0.2 and above
  kLikely,    // 0.5 and above
  kStrong,    // 0.8 and above
};

// Returns "unknown", "weak match", "possible", "likely" or "strong match". Thread-safe.
std::string_view name(Match match);
// Returns the strength of a match of that probability; kUnknown without one. Thread-safe.
Match match_of(std::optional<double> probability);

}  // namespace saccade
#pragma GCC visibility pop
