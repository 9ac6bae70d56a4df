// What is known of a dataset, as JSON: what `saccade dataset --json` prints (docs/cli.md).
#pragma once

#include <span>

#include "saccade/core/json.h"
#include "lab/data/audit.h"
#include "lab/data/dataset.h"

namespace saccade::lab {

// A list of {"reason", "count", "examples"}.
Json exclusions_json(std::span<const Exclusion> excluded);
// Name, layout, hash, numbers of items, splits, lengths of captions, and the files it came from.
Json dataset_info_json(const Dataset& dataset);
// {"visual", "non_visual", "ambiguous", "with_picture"}: numbers of rated texts; null where there are none.
Json rated_texts_json(const Dataset& dataset);
// {"queries", "galleries": {name: pictures}, "texts", ...}: what edit queries are made
// of; null where there are none.
Json edits_json(const Dataset& dataset);
// All of the report.
Json audit_json(const AuditReport& report);

}  // namespace saccade::lab
