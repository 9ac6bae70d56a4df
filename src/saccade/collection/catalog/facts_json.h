// What the catalog keeps of a picture beside its row, as JSON: in answers, and in exports.
#pragma once

#include <string_view>

#include "saccade/collection/catalog/item_facts.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"

namespace saccade {

// An object of what is known: "taken" ("2024-05-31T23:30:59", by the clock on the wall there),
// "zone_minutes", "camera", "lens", "latitude", "longitude", "place", "rating", "title",
// "description", "keywords".
Json facts_json(const ItemFacts& facts);

// Which of the two a filter's and an order's `date` is for such a picture: "taken" where its file says when,
// "file" for that file's own time.
std::string_view dated_by(const ItemFacts& facts);

// What facts_json has, read back from an object that may have other keys too, with the caption that is made
// of it; how the picture looks, and how far it was looked into, are not of it. What cannot be true is left
// out, as of a file (image/metadata/facts.h). kBadData for a field of another kind, and a date that is none.
Result<ItemFacts> facts_of_json(const Json& json);

}  // namespace saccade
