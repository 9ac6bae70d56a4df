// Advisory file locks shared with other programs: flock, as in Python's filelock. lock_file (files.h) is
// built on these; use it for an operation that only one process may do at a time.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>

#include "saccade/core/error.h"
#include "saccade/core/files/files.h"

namespace saccade {

// Creates `path` if necessary and locks it for the lifetime of the descriptor; nullopt while another process
// holds it. The file is not deleted, because others may be waiting on it; a file removed by its holder is
// created again. Returns kUnsupported if the file system has no such locks. Some network file systems grant
// them to everybody.
Result<std::optional<Descriptor>> try_lock_file(const std::filesystem::path& path);

// Waits for the lock; kCancelled on a stop request. Calls `waiting` (may be empty) from time to time. Best
// effort: on a file system without locks it continues without one, so the protected operation must not depend
// on it. Creates the folder, too.
Result<Descriptor> wait_for_lock_file(const std::filesystem::path& path, const std::stop_token& stop,
                                      const std::function<void()>& waiting);

}  // namespace saccade
