// A collection as Weaviate's class, and its items as objects. Not for use outside this module.
//
// The class has the description {"saccade": 1, "collection": <the content of a folder's collection.json>}. Properties:
//
//   item                      all that is kept of the item, as JSON; not indexed
//   row                       the embedding: float32 in base64; not indexed. Reading it takes an eighth of the time of the
//                             object's vector, whose numbers GraphQL writes one by one
//   number                    the item's id: the first 53 bits of the object's UUID
//   path path_folded hash format caption camera lens place title keywords
//                             texts between "=" and "=" (kept_text in where.h), which filters are compared with; folded
//                             without regard to case, except in path, hash and format
//   words                     stems of the words of caption, name and folders, for BM25
//   width height pixels aspect size date taken added rating latitude longitude grain
//                             numbers; missing where they are not known
//
// The UUID of an object is made of the class's name and the stored path (address.h), so that every worker gives an image
// the same one. A second class, whose name ends in "Notes", keeps failures and removals: properties kind, path, note. It also
// keeps the score calibration data as a note of the kind "kept", whose path is its name and which has
// {"bytes": <in base64>}.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "saccade/collection/catalog/catalog.h"
#include "saccade/collection/catalog/item_facts.h"
#include "saccade/collection/catalog/item_store.h"
#include "saccade/collection/weaviate/address.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"

namespace saccade::weaviate {

std::string uuid_of(std::string_view class_name, std::string_view stored);
int64_t id_of(std::string_view uuid);

Json class_json(const Address& address, const CollectionInfo& info);
Json notes_class_json(const Address& address);
// Reads the description of a class. kMismatch for a class of another origin; errors of a broken collection.json.
Result<CollectionInfo> info_of_class(const Json& schema);

// Returns the properties of an item. words: its stems.
Json properties_of(const Address& address, const WholeItem& whole, std::string_view words);
// Returns the item of the property `item`, with its path on this host. The id and the row are those of the UUID.
Result<WholeItem> item_of(const Address& address, std::string_view uuid, const std::string& text);
// The same of an object in a listing: {"id", "properties": {"item"}}.
Result<WholeItem> item_of(const Address& address, const Json& object);
// Reads the property `row` of an object or of its properties.
Result<std::vector<float>> row_of(const Json& object);
Json vector_json(std::span<const float> row);

}  // namespace saccade::weaviate
