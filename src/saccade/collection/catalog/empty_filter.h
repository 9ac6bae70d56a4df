// Why a filter leaves no image, for people.
#pragma once

#include <string>
#include <string_view>

#include "saccade/collection/collection_reader.h"
#include "saccade/core/error.h"

namespace saccade {

// Returns true if a condition of the filter uses the field, in any case of its letters.
bool asks_for(const Filter& filter, std::string_view field);

// Returns a sentence if the filter asks for `place` and no list of towns is installed, by which places are named. Empty
// otherwise.
std::string without_towns(const Filter& filter, bool have_towns);

// Returns the reason why `filter` (parse_filter) leaves no image of the collection. Empty if it leaves some and for the
// empty filter. kUsage for a broken filter. Cost: one scan of the catalog a condition.
Result<std::string> why_filter_is_empty(const CollectionReader& collection, std::string_view filter,
                                        bool have_towns);

}  // namespace saccade
