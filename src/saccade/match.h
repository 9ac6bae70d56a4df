// Order of hits, and the strength of a match in words for people.
#pragma once

#include <optional>
#include <string_view>

#pragma GCC visibility push(default)
namespace saccade {

// Order of hits.
enum class Order {
  kScore,  // best first
  kDate,   // newest first: when the image was taken, else the file's date
};

// Strength of a match, by its calibrated probability of being right.
enum class Match {
  kUnknown,   // the collection has no calibration data
  kWeak,      // below 0.2: unrelated searches often look this good
  kPossible,  // 0.2 and above
  kLikely,    // 0.5 and above
  kStrong,    // 0.8 and above
};

// Returns "unknown", "weak match", "possible", "likely" or "strong match".
std::string_view name(Match match);
// Returns the strength of a match of that probability; kUnknown without one.
Match match_of(std::optional<double> probability);

}  // namespace saccade
#pragma GCC visibility pop
