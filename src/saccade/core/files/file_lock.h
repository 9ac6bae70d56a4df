// Advisory file locks shared with other programs: flock, as in Python's filelock.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string_view>

#include "saccade/core/error.h"
#include "saccade/core/files/files.h"

namespace saccade {

// Creates `path` if necessary and locks it for the lifetime of the descriptor; nullopt while another process
// holds it. The file is not deleted, because others may be waiting on it; a file removed by its holder is
// created again. Returns kUnsupported if the file system has no such locks. Some network file systems grant
// them to everybody.
Result<std::optional<Descriptor>> try_lock_file(const std::filesystem::path& path);

// Creates `path` if necessary and holds an advisory lock on it for the lifetime of the descriptor. The kernel
// releases it when the process ends. Returns kCancelled if another process holds it, with its id, the folder and
// what it is `doing` ("writing to this collection"). Returns kUsage for a file that holds more than a process
// id: it is not a lock file and is kept.
Result<Descriptor> lock_file(const std::filesystem::path& path, std::string_view doing);

// Waits for the lock; kCancelled on a stop request. Calls `waiting` (may be empty) from time to time. Best
// effort: on a file system without locks it continues without one, so the protected operation must not depend
// on it. Creates the folder, too.
Result<Descriptor> wait_for_lock_file(const std::filesystem::path& path, const std::stop_token& stop,
                                      const std::function<void()>& waiting);

}  // namespace saccade
