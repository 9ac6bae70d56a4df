// Download of a checkpoint from a hub into the cache.
#pragma once

#include <cstdint>
#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/hub/client.h"
#include "saccade/hub/name.h"
#include "saccade/hub/settings.h"
#include "saccade/progress.h"

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
  bool downloaded = false;  // false if it was already present and correct
};

struct PullReport {
  ModelName name;
  std::string commit;
  std::filesystem::path path;  // the snapshot: a checkpoint's folder
  std::vector<PulledFile> files;
  int64_t downloaded_bytes = 0;
  int64_t resumed_bytes = 0;  // bytes of partial files from earlier downloads
};

// Converts to {"model", "revision", "commit", "path", "downloaded_bytes", "resumed_bytes", "files": [{"name",
// "bytes", "hash", "downloaded"}]}.
Json pull_json(const PullReport& report);

// Downloads the missing files among those of select_files. Checks the size and hash of every file, including
// those already present; only then the revision's ref points to the snapshot. Partial downloads are kept:
// after an error, a stop (kCancelled) or a crash, the same call resumes. Reads all of the checkpoint's bytes
// once. Offline, only checks that the snapshot is present and complete. Several processes may pull the same
// model at the same time.
Result<PullReport> pull(const ModelName& name, const PullOptions& options,
                        const ProgressCallback& progress = {}, std::stop_token stop = {});

}  // namespace saccade::hub
