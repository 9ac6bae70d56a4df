// A collection's images by date.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "saccade/collection/collection_reader.h"
#include "saccade/core/error.h"

namespace saccade {

struct PlaceByDate {
  int64_t id = 0;
  int64_t row = 0;
};

// Returns all images, newest first: by the date they were taken, else by the file's time, as the filter's `date`. Files
// of one date, such as from an archive, are shuffled by their hashes, which do not depend on their content's look.
// Thread-safe. Cost: one scan of the catalog.
Result<std::vector<PlaceByDate>> newest_first(const CollectionReader& collection);

// Returns the ids of those that pass `filter` (parse_filter), in the same order; "" passes all. kUsage for a broken filter.
Result<std::vector<int64_t>> passing_ids(const CollectionReader& collection,
                                         std::span<const PlaceByDate> order, std::string_view filter);

// Returns the newest `count` items of a vector database that pass `filter`, in the same order but for equal dates, and the
// number of all that do. kUsage for a broken filter, for one with a set of characters ("[a-z]"), which the engine cannot
// express, and for a count beyond the engine's limit.
Result<NearestItems> newest_in_index(const CollectionReader& collection, std::string_view filter,
                                     int64_t count);

}  // namespace saccade
