#include "saccade/collection/starter_warning.h"

namespace saccade {

std::string starter_warning(const CollectionInfo& collection, int64_t looked_at, int64_t photographs) {
  if (collection.checkpoint.name != kStarterName) return {};
  // Few pictures say little: an album that begins with three photographs may become one of icons.
  constexpr int64_t kFewest = 8;
  if (photographs < kFewest || 2 * photographs < looked_at) return {};
  return fmt::format(
      "{} of {} images looked at are photographs, and the starter has learned from drawings and icons alone: expect little of "
      "it here. `saccade model pull OWNER/NAME` brings another checkpoint, `saccade index -m` makes a collection with it",
      photographs, looked_at);
}

}  // namespace saccade
