// Warning about the limits of the bundled checkpoint.
#pragma once

#include <string>
#include <string_view>

#include "saccade/collection/catalog/catalog.h"

namespace saccade {

// Name of the checkpoint in collections.
inline constexpr std::string_view kStarterName = "starter";

// Returns a warning, with advice, if the collection was made with the starter and most of its analyzed images
// are photographs (image/metadata/look.h). The starter has learned from drawings and icons. Empty otherwise,
// and if few images were analyzed.
std::string starter_warning(const CollectionInfo& collection, int64_t looked_at, int64_t photographs);

}  // namespace saccade
