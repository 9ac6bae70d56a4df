// Advisory locks on files that other programs take too: flock, as Python's filelock has it. What one process
// may do at a time, and says so, takes its lock with lock_file (files.h), which is made of these.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>

#include "saccade/core/error.h"
#include "saccade/core/files/files.h"

namespace saccade {

// Makes `path` if need be and locks it as long as the descriptor lives; none while another holds it. The file
// stays, as others may be waiting on it; one that its holder removed is made anew. kUnsupported where the
// file system has no such locks; some network file systems say yes to everybody.
Result<std::optional<Descriptor>> try_lock_file(const std::filesystem::path& path);

// Waits until it is free, kCancelled when asked to stop; `waiting` is called now and then meanwhile and may
// be empty. Best effort: where there are no locks it goes on without, so what is done under it must not break
// then. Makes the folder, too.
Result<Descriptor> wait_for_lock_file(const std::filesystem::path& path, const std::stop_token& stop,
                                      const std::function<void()>& waiting);

}  // namespace saccade
