#include "saccade/serve/served.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "saccade/collection/weaviate/address.h"
#include "saccade/core/files/file_stamp.h"
#include "saccade/search/composed/collection_composer.h"
#include "saccade/serve/shared/shared_rows.h"

namespace saccade::serve {
namespace {

// Returns a string that changes with the collection: the stamps of the files that every change touches. It is
// empty while a further change might leave the stamps as they are. The collection must then be checked again
// the next time. For an address: the class that is there, its number of images, and the time of its
// calibration data.
Result<std::string> state_of(const std::filesystem::path& folder) {
  if (weaviate::is_address(folder)) {
    SACCADE_ASSIGN(const CollectionReader there, CollectionReader::open(folder));
    const CollectionInfo& info = there.info();
    SACCADE_ASSIGN(const std::string measured, there.index()->kept_state(kBackgroundName));
    return fmt::format("{};{};{};{}", info.created, info.checkpoint.fingerprint, there.item_count(),
                       measured);
  }
  std::string state;
  for (const std::string_view name :
       {std::string_view("collection.json"), std::string_view("catalog.sqlite"),
        std::string_view("catalog.sqlite-wal"), kBackgroundName, kCollectionComposerFile}) {
    auto stamp = file_stamp(folder / name);
    // Whenever root opens the catalog, SQLite sets the owner of its log: that alone is no change.
    if (stamp) stamp->ctime_ns = 0;
    if (stamp && !is_settled(*stamp)) return std::string();
    state += (stamp ? stamp->text() : "") + ";";
  }
  return state;
}

template <typename T>
std::string names_of(const std::vector<std::unique_ptr<T>>& all, const std::string& (*name)(const T&)) {
  std::vector<std::string> names;
  for (const auto& one : all) names.push_back(name(*one));
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

// Finds a collection's checkpoint: at its remembered location, or the identical one among
// `options.checkpoints`.
Result<std::filesystem::path> find_checkpoint_of(const CheckpointId& made_with,
                                                 const ServedOptions& options) {
  auto found = checkpoint_of(made_with, {});
  if (found) return found;
  for (const std::string& named : options.checkpoints) {
    SACCADE_ASSIGN(const std::filesystem::path folder, find_checkpoint(named));
    SACCADE_ASSIGN(const std::string fingerprint,
                   checkpoint_fingerprint(folder, options.encoder.fingerprints));
    if (fingerprint == made_with.fingerprint) return folder;
  }
  if (options.checkpoints.empty()) return found;
  return fail(found.error().code, "{} (none of those named is it)", found.error().message);
}

}  // namespace

Result<std::shared_ptr<const std::vector<PlaceByDate>>> NewestFirst::of(const CollectionReader& collection) {
  const std::lock_guard lock(mutex_);
  if (order_) return order_;
  SACCADE_ASSIGN(std::vector<PlaceByDate> order, newest_first(collection));
  order_ = std::make_shared<const std::vector<PlaceByDate>>(std::move(order));
  return order_;
}

Result<std::unique_ptr<ServedCollection>> ServedCollection::open(std::string name,
                                                                 const std::filesystem::path& folder,
                                                                 int threads, NoteCallback note) {
  std::unique_ptr<ServedCollection> served(new ServedCollection(std::move(name), std::move(note)));
  EngineCoreOptions options;
  options.folder = folder;
  options.threads = threads;
  options.note = [raw = served.get()](const Note& told) { raw->keep_note(told); };
  options.lend = [raw = served.get()]() -> Result<EngineEncoder> {
    SACCADE_ASSIGN(std::shared_ptr<EncoderBackend> encoder, raw->model->encoder());
    return raw->model->engine_encoder(std::move(encoder));
  };
  options.row_finder = [](const CollectionReader& collection) {
    return std::make_unique<SharedRows>(collection.alive());
  };
  options.open_composer = true;
  SACCADE_ASSIGN(served->state_, state_of(folder));
  SACCADE_ASSIGN(served->core_, EngineCore::open(std::move(options)));
  SACCADE_TRY(served->core_->snapshot());  // that there is a collection
  return served;
}

void ServedCollection::keep_note(const Note& note) {
  if (note_) note_({fmt::format("collection {}: {}", name_, note.text), note.warning});
  constexpr size_t kMostNotes = 64;
  const std::lock_guard lock(mutex_);
  if (notes_.size() < kMostNotes) notes_.push_back(note.text);
  if (note.warning && warnings_.size() < kMostNotes) warnings_.push_back(note.text);
}

std::vector<std::string> ServedCollection::warnings() const {
  const std::lock_guard lock(mutex_);
  return warnings_;
}

std::vector<std::string> ServedCollection::take_notes() {
  const std::lock_guard lock(mutex_);
  return std::exchange(notes_, {});
}

std::shared_ptr<const CollectionSnapshot> ServedCollection::now() const {
  return *core_->snapshot();  // there is one from open() on
}

Result<std::shared_ptr<const std::vector<PlaceByDate>>> ServedCollection::newest(
    const std::shared_ptr<const CollectionSnapshot>& snapshot) const {
  std::shared_ptr<NewestFirst> newest;
  {
    const std::lock_guard lock(mutex_);
    if (ordered_.lock() != snapshot) {
      ordered_ = snapshot;
      newest_ = std::make_shared<NewestFirst>();
    }
    newest = newest_;
  }
  return newest->of(snapshot->collection);
}

Status ServedCollection::follow() {
  const std::lock_guard one_at_a_time(following_);
  Status followed = follow_files();
  const std::lock_guard lock(mutex_);
  failures_ = followed ? 0 : failures_ + 1;
  followed_ = followed;
  return followed;
}

Status ServedCollection::following() const {
  const std::lock_guard lock(mutex_);
  return failures_ < kPatience ? Status() : followed_;
}

Status ServedCollection::follow_files() {
  SACCADE_ASSIGN(const std::string state, state_of(folder()));
  if (!state.empty() && state == state_) return {};
  {
    const std::lock_guard lock(mutex_);
    warnings_.clear();  // of the last state: what still holds is noted again
  }
  SACCADE_TRY(core_->refresh());
  state_ = state;
  return {};
}

Result<std::unique_ptr<Served>> Served::open(const ServedOptions& options) {
  std::unique_ptr<Served> served(new Served(options.models));
  for (const std::filesystem::path& folder : options.collections) {
    std::filesystem::path whole = folder;
    std::string base;
    if (weaviate::is_address(folder)) {
      SACCADE_ASSIGN(const weaviate::Address address, weaviate::parse_address(folder));
      base = address.name;
    } else {
      std::error_code error;
      whole = std::filesystem::absolute(folder, error).lexically_normal();
      base = whole.has_filename() ? whole.filename().string() : whole.parent_path().filename().string();
    }
    std::string name = base;
    for (int number = 2; served->collection(name).has_value(); ++number)
      name = fmt::format("{}-{}", base, number);
    const auto opened = [&]() -> Result<std::unique_ptr<ServedCollection>> {
      SACCADE_ASSIGN(auto collection,
                     ServedCollection::open(name, whole, options.encoder.threads, options.note));
      const CollectionInfo& info = collection->now()->collection.info();
      SACCADE_ASSIGN(const auto checkpoint, find_checkpoint_of(info.checkpoint, options));
      BackendOptions encoder = options.encoder;
      encoder.precision = info.settings.precision;
      SACCADE_ASSIGN(collection->model, served->models_.add(checkpoint, encoder, options.note));
      SACCADE_TRY(check_same_checkpoint(info, collection->model->id));
      return collection;
    };
    SACCADE_ASSIGN(auto collection, opened().in(folder.string()));
    served->collections_.push_back(std::move(collection));
  }
  for (const std::string& checkpoint : options.checkpoints) {
    SACCADE_ASSIGN(const std::filesystem::path folder, find_checkpoint(checkpoint));
    SACCADE_TRY(served->models_.add(folder, options.encoder, options.note));
  }
  if (served->models().empty()) {
    return fail(ErrorCode::kUsage, "nothing to serve: name a collection or a checkpoint");
  }
  const auto pause = std::chrono::duration<double>(options.follow_seconds);
  served->follower_ = std::jthread([raw = served.get(), pause](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any stopped;
    std::unique_lock lock(mutex);
    while (!stopped.wait_for(lock, stop, pause, [] { return false; }) && !stop.stop_requested()) {
      // A collection that cannot be read now is answered from as it was.
      for (const auto& collection : raw->collections_) {
        try {
          (void)collection->follow();
        } catch (const std::exception&) {  // no memory: in a second there may be
        }
      }
    }
  });
  return served;
}

Result<ServedCollection*> Served::collection(std::string_view name) const {
  const auto found = name.empty() && collections_.size() == 1
                         ? collections_.begin()
                         : std::ranges::find(collections_, name, [](const auto& one) { return one->name(); });
  if (found == collections_.end()) {
    const std::string there = names_of<ServedCollection>(
        collections_, [](const ServedCollection& one) -> const std::string& { return one.name(); });
    if (name.empty() && !collections_.empty())
      return fail(ErrorCode::kUsage, "several collections are served: name one of {}", there);
    return fail(ErrorCode::kNotFound, "no collection \"{}\"; there are: {}", name, there);
  }
  // The open collection could still answer, but with images that the user has deleted.
  std::error_code not_there;
  const bool in_folder = !weaviate::is_address((*found)->folder());
  if (in_folder && !std::filesystem::exists((*found)->folder() / "collection.json", not_there)) {
    return fail(ErrorCode::kCancelled,
                "the collection {} is no longer where it was: it is served again once it is back",
                (*found)->name());
  }
  // A cluster that does not answer is noticed by follow(): no request waits for it here.
  const Status whole = in_folder ? (*found)->now()->collection.check_files() : (*found)->following();
  if (!whole && !in_folder) {
    return fail(ErrorCode::kCancelled, "the collection {} cannot be searched now: {}", (*found)->name(),
                whole.error().message);
  }
  if (!whole) {
    return fail(ErrorCode::kCancelled, "the collection {} is not whole, and is served again once it is: {}",
                (*found)->name(), whole.error().message);
  }
  return found->get();
}

Result<ServedModel*> Served::model(std::string_view name) const {
  const auto& all = models();
  if (name.empty() && !all.empty()) return all.front().get();
  const auto found =
      std::ranges::find(all, name, [](const auto& one) { return std::string_view(one->name); });
  if (found != all.end()) return found->get();
  return fail(
      ErrorCode::kNotFound, "no model \"{}\"; there are: {}", name,
      names_of<ServedModel>(all, [](const ServedModel& one) -> const std::string& { return one.name; }));
}

}  // namespace saccade::serve
