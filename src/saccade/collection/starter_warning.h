// Warning about the limits of the bundled checkpoint.
#pragma once

#include <string>
#include <string_view>

#include "saccade/collection/catalog/catalog.h"

namespace saccade {

// Name of the checkpoint in collections.
inline constexpr std::string_view kStarterName = "starter";

// A line where the collection was made with the starter, which has learned from drawings and icons,
// and most of its pictures that were looked at are photographs (image/metadata/look.h): what to do. Empty
// otherwise, and where few were.
std::string starter_warning(const CollectionInfo& collection, int64_t looked_at, int64_t photographs);

}  // namespace saccade
