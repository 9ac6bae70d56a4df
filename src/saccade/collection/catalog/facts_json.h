// Image metadata of the catalog as JSON, for answers and exports.
#pragma once

#include <string_view>

#include "saccade/collection/catalog/catalog.h"
#include "saccade/collection/catalog/item_facts.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"

namespace saccade {

// Returns an object of the known fields: "taken" ("2024-05-31T23:30:59", local time of the place),
// "zone_minutes", "camera", "lens", "latitude", "longitude", "place", "rating", "title", "description",
// "keywords".
Json facts_json(const ItemFacts& facts);

// Returns the time of the item's file, in seconds since 1970; null if it is not known.
Json file_date_json(const Item& item);

// Returns the source of the `date` that filters and orders use for such an image. It is "taken" if its file
// records when it was taken, and "file" if the file's own time is used.
std::string_view dated_by(const ItemFacts& facts);

// Parses the fields that facts_json writes from an object that may have other keys too, and the caption built
// from them. The visual features and FactsRead are not parsed. Impossible values are dropped, as for a file
// (image/metadata/facts.h). Returns kBadData for a field of another type and for an invalid date.
Result<ItemFacts> facts_of_json(const Json& json);

}  // namespace saccade
