// Changes of collections that clients request. Folders that the operator named are indexed in the background,
// one after the other. Images are added and removed while the client waits.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "saccade/collection/ingest/ingest.h"
#include "saccade/core/error.h"
#include "saccade/core/files/files.h"
#include "saccade/core/json.h"
#include "saccade/serve/files/uploads.h"
#include "saccade/serve/served.h"

namespace saccade::serve {

struct JobOptions {
  // Folders that may be indexed. A client names one by its own last part ("pictures" for /srv/pictures), with
  // "-2" and so on if another has that name.
  std::vector<std::filesystem::path> folders;
  // Folder of uploaded images, with a subfolder for each collection. If empty, images can be neither added
  // nor removed.
  std::filesystem::path uploads;
  // Maximum total size of these files in bytes; further uploads are refused. 0: no limit.
  int64_t uploads_bytes = 0;
  IngestOptions ingest;      // limits and places
  size_t waiting = 16;       // jobs that have not begun
  size_t finished = 64;      // jobs that are remembered
  double turn_seconds = 10;  // that a picture waits while the collection is changed by another request
};

struct JobState {
  int64_t id = 0;
  std::string collection;
  std::string folder;
  std::string state;  // "waiting", "running", "done", "cancelled", "failed"
  std::string what;   // that it does now: "indexing"
  int64_t done = 0;
  int64_t total = 0;               // 0: not known
  double seconds = 0;              // since it began, or that it took
  std::string error;               // why it failed
  Json report;                     // ingest_json; null before the end
  std::vector<std::string> notes;  // of the engine, once it has ended
  int64_t version = 0;             // grows with each change

  [[nodiscard]] bool ended() const { return state != "waiting" && state != "running"; }
};

// Background jobs of a server. Thread-safe. The collections must outlive it. Its destructor stops the running
// job: indexed files are kept, and another job continues from there.
class Jobs {
 public:
  explicit Jobs(JobOptions options);
  Jobs(const Jobs&) = delete;
  Jobs& operator=(const Jobs&) = delete;
  ~Jobs();

  [[nodiscard]] std::vector<std::string> folders() const;
  [[nodiscard]] bool takes_pictures() const { return !options_.uploads.empty(); }

  // The job, or the one that waits or runs for that folder already. kNotFound names the folders;
  // kCancelled where too many wait already.
  Result<JobState> start(ServedCollection& collection, std::string_view folder, bool prune,
                         bool retry_failed);
  [[nodiscard]] std::vector<JobState> all() const;  // newest first
  [[nodiscard]] Result<JobState> job(int64_t id) const;
  // Asks it to stop; one that has ended stays as it is. kNotFound.
  Result<JobState> cancel(int64_t id);

  // Stores the image's bytes as a file and adds it to the collection, also if it was removed before. Returns
  // its id. An image that is already present is no error.
  //
  // Errors: those of decode_image and of ingest. kUnsupported for a format that `saccade index` would not
  // accept; kLimit if there is no room for it. kCancelled if the collection is being changed, here or by
  // another process, for longer than a client should wait. After an error its file is deleted.
  Result<int64_t> add_picture(ServedCollection& collection, std::string_view bytes,
                              const std::string& caption, const DecodeOptions& limits);
  // Removes an image from the collection permanently, and its file if add_picture stored it. kNotFound,
  // kCancelled as above. On a full disk a file stored by add_picture is deleted first, so that there is room
  // for the change. kCancelled if that is not enough; the same call continues from there.
  Status remove_picture(ServedCollection& collection, int64_t id);
  // Removes the files of interrupted changes: a killed server had stored them without adding the image, or
  // had removed it. kCancelled, without changes, while others write to the collection.
  Status remove_unfinished(ServedCollection& collection);

 private:
  struct Job {
    JobState state;
    ServedCollection* collection = nullptr;
    std::filesystem::path path;
    IngestOptions options;
    std::stop_source stop;
    std::chrono::steady_clock::time_point began;
  };
  void work(const std::stop_token& stop);
  Status run(Job& job);
  void end(Job& job, const Status& status);
  [[nodiscard]] JobState seen(const Job& job) const;
  // A collection that nobody else changes meanwhile, neither in this process nor in another. Others may write to a
  // Weaviate cluster, but no other server with the same folder of uploads.
  struct Turn {
    std::unique_lock<std::timed_mutex> lock;
    CollectionWriter writer;
    std::optional<Descriptor> uploads;
  };
  // kCancelled if others change it for longer than that.
  [[nodiscard]] Result<Turn> turn(ServedCollection& collection, double seconds) const;

  const JobOptions options_;
  std::vector<std::pair<std::string, std::filesystem::path>> folders_;  // by name
  mutable std::mutex mutex_;
  std::condition_variable_any news_;
  std::deque<std::unique_ptr<Job>> jobs_;  // oldest first
  int64_t last_id_ = 0;
  Uploads uploads_;
  std::jthread worker_;
};

}  // namespace saccade::serve
