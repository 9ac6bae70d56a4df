// Open collections of a server, each a recent snapshot, and the encoders of their checkpoints.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "saccade/collection/collection.h"
#include "saccade/core/error.h"
#include "saccade/search/background.h"
#include "saccade/search/composed/collection_composer.h"
#include "saccade/serve/served_models.h"
#include "saccade/serve/shared_rows.h"

namespace saccade::serve {

// Order of a collection's images, newest first, by the date they were taken, or the file's time if that is
// unknown. Files of one date, such as from an archive, are shuffled by their hashes, which do not depend on
// their content's look. Sorted at first use, and cached. Thread-safe.
class NewestFirst {
 public:
  struct Place {
    int64_t id = 0;
    int64_t row = 0;
  };
  // `collection` must be the same each time.
  Result<std::shared_ptr<const std::vector<Place>>> of(const Collection& collection);

 private:
  std::mutex mutex_;
  std::shared_ptr<const std::vector<Place>> order_;
};

// A collection at one moment; it stays as it is while anybody holds it.
struct Snapshot {
  Collection collection;
  std::shared_ptr<const Background> background;  // nullptr: nothing was measured
  std::string composer_named;                    // what its composer.json says; empty: nothing
  std::shared_ptr<Composer> composer;            // that it names; nullptr: none
  std::shared_ptr<SharedRows> rows;              // its searches share passes
  std::shared_ptr<NewestFirst> newest;
};

class ServedCollection {
 public:
  // Errors are Collection::open's.
  static Result<std::unique_ptr<ServedCollection>> open(std::string name,
                                                        const std::filesystem::path& folder);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  // Returns the snapshot of the last check. Thread-safe.
  [[nodiscard]] std::shared_ptr<const Snapshot> now() const;
  // Reopens the collection if its files have changed since, or within the last two seconds. If that fails,
  // returns the error and keeps the old snapshot. Thread-safe.
  Status follow();

  ServedModel* model = nullptr;  // of its checkpoint
  // Lock held by a request that changes the collection, so that requests of this server take turns.
  std::timed_mutex writing;

 private:
  ServedCollection(std::string name, std::filesystem::path folder)
      : name_(std::move(name)), folder_(std::move(folder)) {}
  [[nodiscard]] Result<std::shared_ptr<const Snapshot>> read() const;

  const std::string name_;
  const std::filesystem::path folder_;
  std::mutex following_;
  std::string state_;  // of its files when it was opened, if they had settled; guarded by following_
  mutable std::mutex mutex_;
  std::shared_ptr<const Snapshot> snapshot_;
};

struct ServedOptions {
  std::vector<std::filesystem::path> collections;
  // Served beside those of the collections (find_checkpoint); one may be
  // that of a collection, where that is no longer where it was.
  std::vector<std::string> checkpoints;
  BackendOptions encoder;
  ModelLimits models;
  double follow_seconds = 1;  // how often collections are looked at
};

class Served {
 public:
  // Loads all required checkpoints, each once. A collection's name is that of its folder, with "-2" and so on
  // if another has that name. Errors name the collection or checkpoint; kUsage if there is nothing to serve.
  static Result<std::unique_ptr<Served>> open(const ServedOptions& options);

  [[nodiscard]] const std::vector<std::unique_ptr<ServedCollection>>& collections() const {
    return collections_;
  }
  [[nodiscard]] const std::vector<std::unique_ptr<ServedModel>>& models() const { return models_.all(); }
  [[nodiscard]] const ServedModels& model_memory() const { return models_; }
  // Returns the collection of that name, or the only one if the name is empty. kNotFound lists the existing
  // names. kCancelled for one whose folder is gone, or whose files another program has truncated.
  [[nodiscard]] Result<ServedCollection*> collection(std::string_view name) const;
  // Likewise; the first where the name is empty.
  [[nodiscard]] Result<ServedModel*> model(std::string_view name) const;

 private:
  explicit Served(const ModelLimits& limits) : models_(limits) {}

  ServedModels models_;
  std::vector<std::unique_ptr<ServedCollection>> collections_;
  std::jthread follower_;
};

}  // namespace saccade::serve
