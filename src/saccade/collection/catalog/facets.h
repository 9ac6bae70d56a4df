// Facets: how many images of a collection share a property, as choices for a filter.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/collection/collection_reader.h"
#include "saccade/core/error.h"

namespace saccade {

struct FacetValue {
  std::string name;    // for people: "jpeg", "2024-05", "birds"
  std::string filter;  // that leaves these pictures (filter.h)
  int64_t items = 0;   // at least 1
};

struct Facet {
  std::string name;  // "folder", "format", "date", "size", "shape", "place", "camera" or "keyword"
  std::vector<FacetValue>
      values;  // dates newest first, sizes and shapes ascending, others most pictures first
};

inline constexpr size_t kMostFacetValues = 40;

// Facets of the pictures that `filter` leaves; "" is all of them. Folders are those below the deepest one
// that holds all of these pictures. Dates are those of the filter's `date`: years, months where there is one
// year, days where there is one month. A facet of one value that all pictures have says nothing and is left
// out. At most kMostFacetValues each: of dates the newest, else those of most pictures. kUsage for a broken
// filter. None for a vector database. Cost: one scan of the catalog, and one more for a filter. Thread-safe.
Result<std::vector<Facet>> collection_facets(const CollectionReader& collection, std::string_view filter);

}  // namespace saccade
