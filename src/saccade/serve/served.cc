#include "saccade/serve/served.h"

#include <algorithm>
#include <chrono>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "saccade/collection/weaviate/address.h"
#include "saccade/core/files/file_stamp.h"
#include "saccade/core/process/stoppable_wait.h"
#include "saccade/core/seconds_since.h"
#include "saccade/model/options/precision_choice.h"
#include "saccade/model/options/precision_names.h"
#include "saccade/search/composed/collection_composer.h"
#include "saccade/serve/shared/shared_rows.h"

namespace saccade::serve {
namespace {

// Returns a string that changes with the collection: the stamps of the files that every change touches. It is
// empty while a further change might leave the stamps as they are. The collection must then be checked again
// the next time. An address's state is the class that is there, its number of images, and the time of
// its calibration data.
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

// Returns the names of collections or models, for people.
template <typename T>
std::string names_of(const std::vector<T>& all) {
  std::vector<std::string> names;
  for (const T& one : all) {
    if constexpr (std::is_same_v<T, ServedModel*>) {
      names.push_back(one->name);
    } else {
      names.push_back(one->name());
    }
  }
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

// Finds a collection's checkpoint by its fingerprint: at its remembered location, or among `options.checkpoints`.
// Another checkpoint at that location is not loaded.
Result<std::filesystem::path> find_checkpoint_of(const CheckpointId& made_with,
                                                 const ServedOptions& options) {
  auto found = checkpoint_of(made_with, {});
  if (found) {
    SACCADE_ASSIGN(const std::string there, checkpoint_fingerprint(*found, options.encoder.fingerprints));
    if (there == made_with.fingerprint) return found;
    found =
        fail(ErrorCode::kMismatch,
             "made with checkpoint \"{}\" (fingerprint {:.12}), but {} now holds another one (fingerprint "
             "{:.12})",
             made_with.name, made_with.fingerprint, found->string(), there);
  }
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
                                                                 int threads, NoteCallback note,
                                                                 ModelTies ties) {
  std::unique_ptr<ServedCollection> served(
      new ServedCollection(std::move(name), folder, threads, std::move(note), std::move(ties)));
  SACCADE_ASSIGN(served->state_, state_of(folder));
  SACCADE_ASSIGN(served->engine_, served->open_engine());
  return served;
}

// Opens the collection that is there now, with its model.
Result<std::shared_ptr<ServedEngine>> ServedCollection::open_engine() {
  auto engine = std::make_shared<ServedEngine>();
  EngineCoreOptions options;
  options.folder = folder_;
  options.threads = threads_;
  options.note = [this](const Note& told) { keep_note(told); };
  options.lend = [raw = engine.get()]() -> Result<EngineEncoder> {
    SACCADE_ASSIGN(std::shared_ptr<EncoderBackend> encoder, raw->model->encoder());
    return raw->model->engine_encoder(std::move(encoder));
  };
  options.row_finder = [](const CollectionReader& collection) {
    return std::make_unique<SharedRows>(collection.alive());
  };
  options.open_composer = true;
  SACCADE_ASSIGN(engine->core, EngineCore::open(std::move(options)));
  SACCADE_ASSIGN(const auto snapshot, engine->core->snapshot());  // that there is a collection
  const CollectionInfo& info = snapshot->collection.info();
  SACCADE_ASSIGN(engine->model, ties_.find(info));
  if (Status same = check_same_checkpoint(info, engine->model->id); !same) {
    ties_.left(*engine->model);
    return fail(std::move(same).error());
  }
  return engine;
}

std::shared_ptr<const ServedEngine> ServedCollection::engine() const {
  const std::lock_guard lock(mutex_);
  return engine_;
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
  return *engine()->core->snapshot();  // there is one from open() on
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
  if (left_ != nullptr) ties_.left(*std::exchange(left_, nullptr));
  SACCADE_ASSIGN(const std::string state, state_of(folder_));
  if (!state.empty() && state == state_) return {};
  const std::shared_ptr<const ServedEngine> engine = this->engine();
  SACCADE_ASSIGN(const CollectionInfo there, read_collection_info(folder_));
  const CollectionInfo held = now()->collection.info();
  if (!check_same_checkpoint(held, there.checkpoint) || held.settings.precision != there.settings.precision) {
    return take_other(there, state);
  }
  {
    const std::lock_guard lock(mutex_);
    warnings_.clear();  // of the last state: what still holds is noted again
  }
  SACCADE_TRY(engine->core->refresh());
  state_ = state;
  refused_.clear();
  return {};
}

// Opens a collection of another checkpoint, which is in the old one's place, and serves it from then on.
Status ServedCollection::take_other(const CollectionInfo& info, const std::string& state) {
  const std::string identity = info.checkpoint.fingerprint + std::string(enum_name(info.settings.precision));
  if (refused_ == identity && seconds_since(tried_) < kRetrySeconds) return fail(refusal_);
  std::vector<std::string> before;
  {
    const std::lock_guard lock(mutex_);
    before = std::exchange(warnings_, {});
  }
  auto fresh = open_engine();
  if (fresh) {
    // A model that was served before may have been unloaded: no request is to wait for it.
    auto loaded = (*fresh)->model->encoder();
    if (!loaded) {
      ties_.left(*(*fresh)->model);
      fresh = fail(std::move(loaded).error());
    }
  }
  if (!fresh) {
    Error refusal = {
        ErrorCode::kMismatch,
        fmt::format("a collection of another checkpoint, \"{}\", is there now and cannot be opened: {}",
                    info.checkpoint.name, fresh.error().message)};
    if (note_ && (refused_ != identity || refusal_.message != refusal.message)) {
      note_({fmt::format("collection {}: {}; the old one is served", name_, refusal.message), true});
    }
    refused_ = identity;
    tried_ = std::chrono::steady_clock::now();
    refusal_ = std::move(refusal);
    const std::lock_guard lock(mutex_);
    warnings_ = std::move(before);
    return fail(refusal_);
  }
  refused_.clear();
  state_ = state;
  ServedModel& model = *(*fresh)->model;
  std::shared_ptr<const ServedEngine> old = *std::move(fresh);
  {
    const std::lock_guard lock(mutex_);
    engine_.swap(old);
  }
  ties_.taken(model);
  if (old->model != &model) left_ = old->model;
  if (note_)
    note_({fmt::format("collection {}: another one is there, of {}; it is served now", name_, model.name),
           false});
  return {};
}

ModelTies Served::ties() {
  ModelTies ties;
  ties.find = [this](const CollectionInfo& info) -> Result<ServedModel*> {
    SACCADE_ASSIGN(const std::filesystem::path checkpoint, find_checkpoint_of(info.checkpoint, options_));
    BackendOptions encoder = options_.encoder;
    encoder.precision = info.settings.precision;
    return models_.add(checkpoint, encoder, options_.note);
  };
  ties.taken = [this](ServedModel& model) {
    const std::lock_guard lock(tying_);
    models_.restore(model);
  };
  ties.left = [this](ServedModel& model) {
    const std::lock_guard lock(tying_);
    const auto uses = [&](const auto& collection) { return collection->engine()->model == &model; };
    if (std::ranges::any_of(collections_, uses) || std::ranges::find(named_, &model) != named_.end()) return;
    models_.retire(model);
  };
  return ties;
}

Result<std::unique_ptr<Served>> Served::open(const ServedOptions& options) {
  std::unique_ptr<Served> served(new Served(options));
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
    SACCADE_ASSIGN(auto collection,
                   ServedCollection::open(name, whole, options.encoder.threads, options.note, served->ties())
                       .in(folder.string()));
    served->collections_.push_back(std::move(collection));
  }
  for (const std::string& checkpoint : options.checkpoints) {
    SACCADE_ASSIGN(const std::filesystem::path folder, find_checkpoint(checkpoint));
    BackendOptions encoder = options.encoder;
    if (encoder.precision == Precision::kAuto) {
      SACCADE_ASSIGN(const PrecisionChoice chosen,
                     choose_precision(folder, encoder, user_precision_memory()));
      if (options.note) options.note({precision_choice_text(chosen), false});
      encoder.precision = chosen.taken;
    }
    SACCADE_ASSIGN(const ServedModel* const named, served->models_.add(folder, encoder, options.note));
    served->named_.push_back(named);
  }
  if (served->models().empty()) {
    return fail(ErrorCode::kUsage, "nothing to serve: name a collection or a checkpoint");
  }
  const auto pause = std::chrono::duration<double>(options.follow_seconds);
  served->follower_ = std::jthread([raw = served.get(), pause](const std::stop_token& stop) {
    while (stoppable_wait(pause, stop)) {
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
    const std::string there = names_of(collections_);
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
  if (name.empty() && !collections_.empty()) return collections_.front()->engine()->model;
  const std::vector<ServedModel*> all = models();
  if (name.empty() && !all.empty()) return all.front();
  const auto found =
      std::ranges::find(all, name, [](const ServedModel* one) { return std::string_view(one->name); });
  if (found != all.end()) return *found;
  return fail(ErrorCode::kNotFound, "no model \"{}\"; there are: {}", name, names_of(all));
}

}  // namespace saccade::serve
