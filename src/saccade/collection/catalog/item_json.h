// Items as JSON, for exports and vector databases.
#pragma once

#include "saccade/collection/catalog/catalog.h"
#include "saccade/collection/catalog/item_facts.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"

namespace saccade {

// Returns an item as a line of items.jsonl has it.
Json item_json(const Item& item, const ItemFacts& facts);
// Parses the metadata in such a line beside the item's own fields. The features of its look are those of the exported
// catalog's image. Without them the next `index` reads the image. Imported metadata is then kept for fields that the file
// leaves empty.
Result<ItemFacts> facts_of_item(const Json& json);

}  // namespace saccade
