// Choice of the duplicate that is kept. Not for use outside this module.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/collection/catalog/catalog.h"
#include "saccade/image/decode/raw.h"
#include "saccade/image/frame_name.h"

namespace saccade {

// An item that may be a duplicate. A video is represented by its first frame, under the video's path and
// hash.
struct DuplicateCandidate {
  Item item;
  std::optional<int64_t> taken = {};
  std::string camera = {};
  uint64_t look = 0;
  int rating = 0;
  bool photograph = false;
  bool looked_at = false;

  [[nodiscard]] bool raw() const { return item.format == kRawFormat; }
  [[nodiscard]] bool video() const { return item.format == kVideoFormat; }
};

// Returns true for names that programs give to copies: "a copy.jpg", "a - Copy (2).jpg", "Copy of a.jpg",
// "a(1).jpg", and the same in German, French, Spanish, Italian, Dutch and Portuguese. Ignores folders.
bool has_copy_mark(std::string_view path);

// Sorts the best to keep first: a file on this host, no link, the most pixels, the largest file, the highest rating, a caption, the oldest
// capture or file date, a name without a copy mark, the shortest path, the lowest id. Files count as equally large
// if the smaller has 95 % of the bytes of the largest with as many pixels: embedded metadata may make that difference.
void sort_best_first(std::vector<const DuplicateCandidate*>& candidates);
// Returns the criterion that puts the first of sorted candidates before the second, for people.
std::string why_best(const std::vector<const DuplicateCandidate*>& sorted);

}  // namespace saccade
