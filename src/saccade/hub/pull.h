// Brings a checkpoint from a hub into the cache.
#pragma once

#include <cstdint>
#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/progress.h"
#include "saccade/hub/client.h"
#include "saccade/hub/name.h"
#include "saccade/hub/settings.h"

namespace saccade::hub {

struct PullOptions {
  Settings settings;
  RetryPolicy retry;
  HttpOptions http;
};

struct PulledFile {
  std::string name;
  int64_t size = 0;
  std::string hash;
  bool downloaded = false;  // false: it was there, and is what it should be
};

struct PullReport {
  ModelName name;
  std::string commit;
  std::filesystem::path path;  // the snapshot: a checkpoint's folder
  std::vector<PulledFile> files;
  int64_t downloaded_bytes = 0;
  int64_t resumed_bytes = 0;  // of files begun before
};

// {"model", "revision", "commit", "path", "downloaded_bytes", "resumed_bytes",
// "files": [{"name", "bytes", "hash", "downloaded"}]}
Json pull_json(const PullReport& report);

// Downloads what select_files names and is not there yet, checks every file's size and hash, those already
// there too, and only then lets the revision's ref stand for the snapshot. What was begun is kept: the same
// call goes on from there, after an error, a stop (kCancelled) or a crash. Reads all of the checkpoint's
// bytes once. Offline, only looks whether the snapshot is there and whole. Several processes may pull the
// same at a time.
Result<PullReport> pull(const ModelName& name, const PullOptions& options,
                        const ProgressCallback& progress = {}, std::stop_token stop = {});

}  // namespace saccade::hub
