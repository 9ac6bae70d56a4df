#include "saccade/serve/served.h"

#include <algorithm>
#include <chrono>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "saccade/core/files/file_stamp.h"
#include "saccade/core/files/files.h"

namespace saccade::serve {
namespace {

constexpr int64_t kMostOfComposerFile = 1 << 20;

// Returns a string that changes with the collection: the stamps of the files that every change touches. It is
// empty while a further change might leave the stamps as they are. The collection must then be checked again
// the next time.
std::string state_of(const std::filesystem::path& folder) {
  std::string state;
  for (const std::string_view name :
       {std::string_view("collection.json"), std::string_view("catalog.sqlite"),
        std::string_view("catalog.sqlite-wal"), kBackgroundName, kCollectionComposerFile}) {
    auto stamp = file_stamp(folder / name);
    // Whenever root opens the catalog, SQLite sets the owner of its log: that alone is no change.
    if (stamp) stamp->ctime_ns = 0;
    if (stamp && !is_settled(*stamp)) return {};
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

Result<std::shared_ptr<const std::vector<NewestFirst::Place>>> NewestFirst::of(const Collection& collection) {
  const std::lock_guard lock(mutex_);
  if (order_) return order_;
  // Capture dates of items whose files have one, like the filter's `date`.
  std::unordered_map<int64_t, int64_t> taken;
  SACCADE_TRY(collection.for_each_facts([&](int64_t id, const ItemFacts& facts) -> Status {
    if (facts.picture.taken) taken.emplace(id, *facts.picture.taken * 1'000'000'000);
    return {};
  }));
  std::vector<std::tuple<int64_t, std::string, Place>> dated;
  SACCADE_TRY(collection.for_each_item([&](const Item& item) -> Status {
    const auto known = taken.find(item.id);
    dated.emplace_back(-(known == taken.end() ? item.mtime_ns : known->second), item.hash,
                       Place{item.id, item.row});
    return {};
  }));
  std::ranges::sort(dated, [](const auto& a, const auto& b) {
    return std::tie(std::get<0>(a), std::get<1>(a), std::get<2>(a).id) <
           std::tie(std::get<0>(b), std::get<1>(b), std::get<2>(b).id);
  });
  std::vector<Place> order;
  for (const auto& [date, hash, place] : dated) order.push_back(place);
  order_ = std::make_shared<const std::vector<Place>>(std::move(order));
  return order_;
}

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
    // Missing or damaged calibration is rebuilt by the next `saccade index`. Until then answers have no match
    // probabilities.
    if (auto read = read_background(collection))
      background = std::make_shared<const Background>(*std::move(read));
  }
  // The one that is open goes on where nothing else is named: some hold a text tower of their own, and a
  // collection that grows is read every second.
  std::string named = read_file(folder_ / kCollectionComposerFile, kMostOfComposerFile).value_or("");
  const std::shared_ptr<const Snapshot> last = now();
  std::shared_ptr<Composer> composer;
  if (last && !named.empty() && named == last->composer_named) {
    composer = last->composer;
  } else {
    SACCADE_ASSIGN(composer, open_collection_composer(collection));
  }
  auto rows = std::make_shared<SharedRows>(collection.alive());
  return std::make_shared<const Snapshot>(Snapshot{std::move(collection), std::move(background),
                                                   std::move(named), std::move(composer), std::move(rows),
                                                   std::make_shared<NewestFirst>()});
}

std::shared_ptr<const Snapshot> ServedCollection::now() const {
  const std::lock_guard lock(mutex_);
  return snapshot_;
}

Status ServedCollection::follow() {
  const std::lock_guard one_at_a_time(following_);
  const std::string state = state_of(folder_);
  if (!state.empty() && state == state_) return {};
  SACCADE_ASSIGN(std::shared_ptr<const Snapshot> snapshot, read());
  SACCADE_TRY(check_same_checkpoint(snapshot->collection.info(), model->id));
  {
    const std::lock_guard lock(mutex_);
    snapshot_ = std::move(snapshot);
  }
  state_ = state;
  return {};
}

Result<std::unique_ptr<Served>> Served::open(const ServedOptions& options) {
  std::unique_ptr<Served> served(new Served(options.models));
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
      SACCADE_ASSIGN(const auto checkpoint, find_checkpoint_of(info.checkpoint, options));
      BackendOptions encoder = options.encoder;
      encoder.precision = info.settings.precision;
      SACCADE_ASSIGN(collection->model, served->models_.add(checkpoint, encoder));
      SACCADE_TRY(check_same_checkpoint(info, collection->model->id));
      return collection;
    };
    SACCADE_ASSIGN(auto collection, opened().in(folder.string()));
    served->collections_.push_back(std::move(collection));
  }
  for (const std::string& checkpoint : options.checkpoints) {
    SACCADE_ASSIGN(const std::filesystem::path folder, find_checkpoint(checkpoint));
    SACCADE_TRY(served->models_.add(folder, options.encoder));
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
  if (!std::filesystem::exists((*found)->folder() / "collection.json", not_there)) {
    return fail(ErrorCode::kCancelled,
                "the collection {} is no longer where it was: it is served again once it is back",
                (*found)->name());
  }
  const Status whole = (*found)->now()->collection.check_files();
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
