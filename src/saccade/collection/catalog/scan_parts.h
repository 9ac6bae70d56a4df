// Scans of the catalog on several processors. Not for use outside this module.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "saccade/collection/catalog/sqlite.h"
#include "saccade/core/error.h"

namespace saccade::store {

// Calls scan(connection, begin, end) for parts of [0, end): one for `database`, and one on a thread of its own for
// each of `others`, which see the same.
Status scan_parts(Database& database, std::span<Database> others, int64_t end,
                  const std::function<Status(Database&, int64_t, int64_t)>& scan);

}  // namespace saccade::store
