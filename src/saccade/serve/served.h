// Open collections of a server, each a recent snapshot, and the encoders of their checkpoints.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "saccade/collection/collection_reader.h"
#include "saccade/collection/newest.h"
#include "saccade/core/error.h"
#include "saccade/engine/core.h"
#include "saccade/serve/served_models.h"

namespace saccade::serve {

// A collection's images, newest first (newest_first). Sorted at first use, and cached. Thread-safe.
class NewestFirst {
 public:
  // `collection` must be the same each time.
  Result<std::shared_ptr<const std::vector<PlaceByDate>>> of(const CollectionReader& collection);

 private:
  std::mutex mutex_;
  std::shared_ptr<const std::vector<PlaceByDate>> order_;
};

// An engine over a collection, and the model whose encoder it borrows. The two belong together: a collection of another
// checkpoint in its place gets another pair.
struct ServedEngine {
  std::unique_ptr<EngineCore> core;
  ServedModel* model = nullptr;
};

// Ties of a collection to the models of its server.
struct ModelTies {
  // Returns the model of a collection's checkpoint, in its precision; loaded if it was not.
  std::function<Result<ServedModel*>(const CollectionInfo&)> find;
  // Told of a model that was found, once the collection uses it: another collection may have left it since.
  std::function<void(ServedModel&)> taken;
  // Told of the model that the collection used before, once requests have had time to end, and of one that was found for
  // a collection that could not be opened.
  std::function<void(ServedModel&)> left;
};

// A collection that is served: an engine over it, which shares passes over the rows between searches.
class ServedCollection {
 public:
  // Errors are those of EngineCore::open and ModelTies::find.
  static Result<std::unique_ptr<ServedCollection>> open(std::string name, const std::filesystem::path& folder,
                                                        int threads, NoteCallback note, ModelTies ties);
  ServedCollection(const ServedCollection&) = delete;
  ServedCollection& operator=(const ServedCollection&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  // Returns the engine with its model. Both stay as they are while anybody holds them. Thread-safe.
  [[nodiscard]] std::shared_ptr<const ServedEngine> engine() const;
  // Returns the snapshot of the last check. It stays as it is while anybody holds it. Thread-safe.
  [[nodiscard]] std::shared_ptr<const CollectionSnapshot> now() const;
  // Returns the order of a snapshot's images, newest first. Thread-safe.
  Result<std::shared_ptr<const std::vector<PlaceByDate>>> newest(
      const std::shared_ptr<const CollectionSnapshot>& snapshot) const;
  // Reopens the collection if its files have changed since, or within the last two seconds; one in a Weaviate cluster if
  // its class or its number of images has changed. This also finds another
  // collection in its place, such as behind a link or an alias that now leads elsewhere. One of another checkpoint is opened
  // with its model beside the old one, on which requests end undisturbed. If it cannot be opened, returns the error
  // (kMismatch for one of another checkpoint, which is tried again after kRetrySeconds) and keeps what was open. Thread-safe.
  Status follow();
  // Returns the error of follow() if the last kPatience calls in a row have failed: what is served is no longer what lies
  // in the folder. Thread-safe.
  [[nodiscard]] Status following() const;
  static constexpr int kPatience = 3;
  static constexpr double kRetrySeconds = 10;
  // Takes the notes of the engine since the last call. Thread-safe.
  std::vector<std::string> take_notes();
  // Returns the engine's warnings about the collection as it is now, such as of damaged calibration data. Thread-safe.
  [[nodiscard]] std::vector<std::string> warnings() const;

  // Lock held by a request that changes the collection, so that requests of this server take turns.
  std::timed_mutex writing;

 private:
  ServedCollection(std::string name, std::filesystem::path folder, int threads, NoteCallback note,
                   ModelTies ties)
      : name_(std::move(name)),
        folder_(std::move(folder)),
        threads_(threads),
        note_(std::move(note)),
        ties_(std::move(ties)) {}
  void keep_note(const Note& note);
  Result<std::shared_ptr<ServedEngine>> open_engine();
  Status follow_files();
  Status take_other(const CollectionInfo& info, const std::string& state);

  const std::string name_;
  const std::filesystem::path folder_;
  const int threads_;
  const NoteCallback note_;
  const ModelTies ties_;
  std::mutex following_;
  // Guarded by following_:
  std::string state_;                            // of its files when it was opened, if they had settled
  ServedModel* left_ = nullptr;                  // the model used before, until the next look
  std::string refused_;                          // fingerprint of a collection that could not be opened
  std::chrono::steady_clock::time_point tried_;  // when that was
  Error refusal_;
  // Guarded by mutex_:
  mutable std::mutex mutex_;
  std::shared_ptr<const ServedEngine> engine_;
  mutable std::weak_ptr<const CollectionSnapshot> ordered_;  // whose order this is
  mutable std::shared_ptr<NewestFirst> newest_;
  std::vector<std::string> notes_;
  std::vector<std::string> warnings_;
  Status followed_;   // the last follow(), and
  int failures_ = 0;  // the number of those in a row that failed
};

struct ServedOptions {
  std::vector<std::filesystem::path> collections;
  // Served beside those of the collections (find_checkpoint); one may be
  // that of a collection, where that is no longer where it was.
  std::vector<std::string> checkpoints;
  BackendOptions encoder;  // its precision, which may be kAuto, is that of `checkpoints` alone
  ModelLimits models;
  double follow_seconds = 1;  // how often collections are looked at
  NoteCallback note = {};     // what the operator should know; called on any thread
};

class Served {
 public:
  // Loads all required checkpoints, each once. A collection's name is that of its folder, with "-2" and so on
  // if another has that name. Errors name the collection or checkpoint; kUsage if there is nothing to serve.
  static Result<std::unique_ptr<Served>> open(const ServedOptions& options);

  [[nodiscard]] const std::vector<std::unique_ptr<ServedCollection>>& collections() const {
    return collections_;
  }
  // Returns the models of the collections and those that were named. Thread-safe.
  [[nodiscard]] std::vector<ServedModel*> models() const { return models_.all(); }
  [[nodiscard]] const ServedModels& model_memory() const { return models_; }
  // Returns the collection of that name, or the only one if the name is empty. A collection in a vector database has the name
  // of its class. kNotFound lists the existing
  // names. kCancelled for one whose folder is gone, whose files another program has truncated, or whose
  // engine does not answer.
  [[nodiscard]] Result<ServedCollection*> collection(std::string_view name) const;
  // Likewise; that of the first collection, else the first, where the name is empty.
  [[nodiscard]] Result<ServedModel*> model(std::string_view name) const;

 private:
  explicit Served(const ServedOptions& options) : options_(options), models_(options.models) {}
  [[nodiscard]] ModelTies ties();

  const ServedOptions options_;
  ServedModels models_;
  std::mutex tying_;                       // between a look at who uses a model and what follows from it
  std::vector<const ServedModel*> named_;  // by ServedOptions::checkpoints
  std::vector<std::unique_ptr<ServedCollection>> collections_;
  std::jthread follower_;
};

}  // namespace saccade::serve
