// JSON of datasets, as printed by `saccade dataset --json` (docs/cli.md).
#pragma once

#include <cstdint>
#include <span>

#include "lab/data/audit.h"
#include "lab/data/dataset.h"
#include "saccade/core/json.h"

namespace saccade::lab {

// Returns a list of {"reason", "count", "examples"}.
Json exclusions_json(std::span<const Exclusion> excluded);
// Returns {reason: count}.
Json exclusion_counts(std::span<const Exclusion> excluded);
// Returns the number of items if they are of this kind, else 0.
template <typename Kind>
int64_t count_of(const Dataset& dataset) {
  return dataset.find<Kind>() != nullptr ? dataset.size() : 0;
}
// Returns name, layout, hash, numbers of items, splits, lengths of captions, and the source files.
Json dataset_info_json(const Dataset& dataset);
// Returns {"visual", "non_visual", "ambiguous", "with_image"}: numbers of rated texts; null if there are
// none.
Json rated_texts_json(const Dataset& dataset);
// Returns {"queries", "galleries": {name: images}, "texts", ...}: counts of edit queries; null if there are
// none.
Json edits_json(const Dataset& dataset);
// Returns the whole report.
Json audit_json(const AuditReport& report);

}  // namespace saccade::lab
