#include "saccade/collection/starter_warning.h"

namespace saccade {

std::string starter_warning(const CollectionInfo& collection, int64_t looked_at, int64_t photographs) {
  if (collection.checkpoint.name != kStarterName) return {};
  // Few pictures say little: an album that begins with three photographs may become one of icons.
  constexpr int64_t kFewest = 8;
  if (photographs < kFewest || 2 * photographs < looked_at) return {};
  return fmt::format(
      "{} of {} images are photographs, and the starter was trained on drawings and icons only: its answers about "
      "photographs are poor. `saccade model pull OWNER/NAME` downloads another checkpoint, and `saccade index PATH "
      "-c NEW -m OWNER/NAME` makes a collection with it",
      photographs, looked_at);
}

}  // namespace saccade
