// A collection that follows its folders: changes are taken in as the kernel tells of them (inotify).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>

#include "saccade/collection/ingest/ingest.h"
#include "saccade/core/error.h"
#include "saccade/core/threads.h"

namespace saccade {

// Returns ingest options with `prune`.
inline IngestOptions following_deletions() {
  IngestOptions options;
  options.prune = true;
  return options;
}

struct WatchOptions {
  IngestOptions ingest = following_deletions();
  // Changes are taken in once nothing has changed for so long, or when the first of them is `longest_seconds`
  // old: a file that is being copied, or a thousand of them, are one change.
  double settle_seconds = 2;
  double longest_seconds = 30;
  // Time between looks at folders that cannot be watched (the kernel's table is full), and at those that are
  // away (unmounted) for coming back.
  double look_seconds = 60;
  // Time between tries to open the collection while another process writes to it.
  double retry_seconds = 5;
  // Folders watched at most; the others are looked at. 0: as many as the kernel lets.
  int64_t most_watches = 0;
};

// Something that has happened, for people to read.
struct WatchNews {
  std::string text;  // one line, empty where the report says it
  bool warning = false;
  std::optional<IngestReport> report;  // of what was taken in just now
};

// Takes in what is new below `inputs`, then follows them until asked to stop, which is no error. The
// collection is opened for writing only while something is taken in, so that others may write between;
// killed at any moment it loses nothing, as ingest does, and the next call begins with a full look. Events
// that the kernel had no room for are made up for by a full look. A folder that goes away with its file
// system keeps its pictures, whatever options.ingest.prune says, and is taken up again when it is back.
// Deleted files are removed from the collection unless options.ingest.prune is false.
//
// Errors: kNotFound if there is no collection or none of the inputs; kMismatch for another checkpoint's
// encoder; what ingest ends with. Idle cost: nothing but a look at away and unwatched folders. From one
// thread; `news` is called there.
Status watch(const std::filesystem::path& collection, const EncoderSource& encoder,
             std::span<const std::filesystem::path> inputs, const WatchOptions& options, ThreadPool& pool,
             const std::function<void(const WatchNews&)>& news, std::stop_token stop);

}  // namespace saccade
