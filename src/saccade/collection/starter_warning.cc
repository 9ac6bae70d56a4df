#include "saccade/collection/starter_warning.h"

namespace saccade {

std::string starter_warning(const CollectionInfo& collection, const CollectionSummary& summary) {
  if (collection.checkpoint.name != kStarterName) return {};
  // Few pictures say little: an album that begins with three photographs may become one of icons.
  constexpr int64_t kFewest = 8;
  if (summary.photographs < kFewest || 2 * summary.photographs < summary.looked_at) return {};
  return fmt::format(
      "{} of the {} pictures are photographs, and the starter has learned from drawings and icons alone: expect little of "
      "it here. `saccade model pull OWNER/NAME` brings another checkpoint, `saccade index -m` makes a collection with it",
      summary.photographs, summary.looked_at);
}

}  // namespace saccade
