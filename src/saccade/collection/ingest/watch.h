// Watch mode: a collection follows its folders and indexes changes reported by the kernel (inotify).
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
  // Delay without changes, in seconds, before changes are indexed. They are also indexed when the first of
  // them is `longest_seconds` old. A file that is being copied, or a thousand of them, are thus one change.
  double settle_seconds = 2;
  double longest_seconds = 30;
  // Time between looks at folders that cannot be watched (the kernel's table is full), and at those that are
  // away (unmounted) for coming back.
  double look_seconds = 60;
  // Time between tries to write to the collection while another process does, its disk is full or nodes of its cluster
  // are down.
  double retry_seconds = 5;
  // Maximum number of watched folders; the others are polled. 0: as many as the kernel allows.
  int64_t most_watches = 0;
};

// Something that has happened, for people to read.
struct WatchNews {
  std::string text;  // one line, empty where the report says it
  bool warning = false;
  std::optional<IngestReport> report;  // of what was taken in just now
};

// Indexes new files below `inputs`, then follows changes until stopped, which is no error. The collection is
// opened for writing only while files are indexed, so that others may write between. A kill at any moment
// loses nothing, as with ingest, and the next call begins with a full scan. Lost kernel events also cause a
// full scan. A folder that disappears with its file system keeps its images, whatever the value of
// options.ingest.prune, and is watched again when it returns. Deleted files are removed from the collection
// unless options.ingest.prune is false.
//
// Errors: kNotFound if there is no collection or none of the inputs; kMismatch for another checkpoint's
// encoder; errors that end ingest, except kIo and another writer's kCancelled, after which it is tried again.
// Idle cost: only checks of missing and unwatched folders. Runs on one thread, which also calls `news`.
Status watch(const std::filesystem::path& collection, const EncoderSource& encoder,
             std::span<const std::filesystem::path> inputs, const WatchOptions& options, ThreadPool& pool,
             const std::function<void(const WatchNews&)>& news, std::stop_token stop);

}  // namespace saccade
