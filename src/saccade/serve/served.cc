#include "saccade/serve/served.h"

#include <algorithm>
#include <chrono>
#include <sys/stat.h>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "saccade/model/fingerprint.h"
#include "saccade/model/precision.h"

namespace saccade::serve {
namespace {

// What shows that a collection has changed: size, time and inode of the files that every change touches.
std::string state_of(const std::filesystem::path& folder) {
  std::string state;
  for (const std::string_view name :
       {std::string_view("collection.json"), std::string_view("catalog.sqlite"),
        std::string_view("catalog.sqlite-wal"), kBackgroundName, kCollectionComposerFile}) {
    struct stat file = {};
    const bool there = ::stat((folder / name).c_str(), &file) == 0;
    state += there ? fmt::format("{}:{}:{}.{:09};", file.st_ino, file.st_size, file.st_mtim.tv_sec,
                                 file.st_mtim.tv_nsec)
                   : ";";
  }
  return state;
}

template <typename T>
std::string names_of(const std::vector<std::unique_ptr<T>>& all, const std::string& (*name)(const T&)) {
  std::vector<std::string> names;
  for (const auto& one : all) names.push_back(name(*one));
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

Result<std::unique_ptr<ServedCollection>> ServedCollection::open(std::string name,
                                                                 const std::filesystem::path& folder) {
  std::unique_ptr<ServedCollection> served(new ServedCollection(std::move(name), folder));
  served->state_ = state_of(folder);
  SACCADE_ASSIGN(served->snapshot_, served->read());
  return served;
}

Result<std::shared_ptr<const Snapshot>> ServedCollection::read() const {
  SACCADE_ASSIGN(Collection collection, Collection::open(folder_));
  std::shared_ptr<const Background> background;
  if (!collection.has_late_rows()) {
    // What is missing or damaged is measured anew by the next `saccade index`;
    // until then nothing can be told.
    if (auto read = read_background(collection))
      background = std::make_shared<const Background>(*std::move(read));
  }
  SACCADE_ASSIGN(std::shared_ptr<Composer> composer, open_collection_composer(collection));
  return std::make_shared<const Snapshot>(
      Snapshot{std::move(collection), std::move(background), std::move(composer)});
}

std::shared_ptr<const Snapshot> ServedCollection::now() const {
  const std::lock_guard lock(mutex_);
  return snapshot_;
}

Status ServedCollection::follow() {
  const std::string state = state_of(folder_);
  if (state == state_) return {};
  SACCADE_ASSIGN(std::shared_ptr<const Snapshot> snapshot, read());
  SACCADE_TRY(check_same_checkpoint(snapshot->collection.info(), model->id));
  {
    const std::lock_guard lock(mutex_);
    snapshot_ = std::move(snapshot);
  }
  state_ = state;
  return {};
}

Result<ServedModel*> Served::load(const std::filesystem::path& checkpoint, const EncoderOptions& options,
                                  const BatchLimits& batches) {
  SACCADE_ASSIGN(const std::string fingerprint, checkpoint_fingerprint(checkpoint, options.fingerprints));
  for (const auto& model : models_) {
    if (model->id.fingerprint == fingerprint && model->encoder->info().precision == options.precision) {
      return model.get();
    }
  }
  SACCADE_ASSIGN(LoadedEncoder loaded, load_checkpoint(checkpoint.string(), options));
  auto model = std::make_unique<ServedModel>();
  model->name = loaded.id.name;
  if (this->model(model->name)) model->name += fmt::format("@{}", word_of(options.precision));
  if (const auto measured = read_measured_lengths(loaded.id.path, loaded.id.fingerprint)) {
    model->measured_length = longest_measured(*measured);
  }
  model->encoder = std::make_unique<SharedEncoder>(std::move(loaded.encoder), batches);
  model->id = std::move(loaded.id);
  models_.push_back(std::move(model));
  return models_.back().get();
}

Result<std::unique_ptr<Served>> Served::open(const ServedOptions& options) {
  std::unique_ptr<Served> served(new Served());
  for (const std::filesystem::path& folder : options.collections) {
    std::error_code error;
    const std::filesystem::path whole = std::filesystem::absolute(folder, error).lexically_normal();
    const std::string base =
        whole.has_filename() ? whole.filename().string() : whole.parent_path().filename().string();
    std::string name = base;
    for (int number = 2; served->collection(name).has_value(); ++number)
      name = fmt::format("{}-{}", base, number);
    const auto opened = [&]() -> Result<std::unique_ptr<ServedCollection>> {
      SACCADE_ASSIGN(auto collection, ServedCollection::open(name, whole));
      const CollectionInfo& info = collection->now()->collection.info();
      SACCADE_ASSIGN(const auto checkpoint, checkpoint_of(info.checkpoint, {}));
      EncoderOptions encoder = options.encoder;
      encoder.precision = info.settings.precision;
      SACCADE_ASSIGN(collection->model, served->load(checkpoint, encoder, options.batches));
      SACCADE_TRY(check_same_checkpoint(info, collection->model->id));
      return collection;
    };
    SACCADE_ASSIGN(auto collection, opened().in(folder.string()));
    served->collections_.push_back(std::move(collection));
  }
  for (const std::string& checkpoint : options.checkpoints) {
    SACCADE_ASSIGN(const std::filesystem::path folder, find_checkpoint(checkpoint));
    SACCADE_TRY(served->load(folder, options.encoder, options.batches));
  }
  if (served->models_.empty()) {
    return fail(ErrorCode::kUsage, "nothing to serve: name a collection or a checkpoint");
  }
  const auto pause = std::chrono::duration<double>(options.follow_seconds);
  served->follower_ = std::jthread([raw = served.get(), pause](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any stopped;
    std::unique_lock lock(mutex);
    while (!stopped.wait_for(lock, stop, pause, [] { return false; }) && !stop.stop_requested()) {
      // A collection that cannot be read now is answered from as it was.
      for (const auto& collection : raw->collections_) (void)collection->follow();
    }
  });
  return served;
}

Result<ServedCollection*> Served::collection(std::string_view name) const {
  if (name.empty() && collections_.size() == 1) return collections_.front().get();
  const auto found = std::ranges::find(collections_, name, [](const auto& one) { return one->name(); });
  if (found != collections_.end()) return found->get();
  return fail(ErrorCode::kNotFound, "no collection \"{}\"; there are: {}", name,
              names_of<ServedCollection>(collections_, [](const ServedCollection& one) -> const std::string& {
                return one.name();
              }));
}

Result<ServedModel*> Served::model(std::string_view name) const {
  if (name.empty() && !models_.empty()) return models_.front().get();
  const auto found =
      std::ranges::find(models_, name, [](const auto& one) { return std::string_view(one->name); });
  if (found != models_.end()) return found->get();
  return fail(
      ErrorCode::kNotFound, "no model \"{}\"; there are: {}", name,
      names_of<ServedModel>(models_, [](const ServedModel& one) -> const std::string& { return one.name; }));
}

}  // namespace saccade::serve
