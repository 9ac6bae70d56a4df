#include "saccade/collection/weaviate/weaviate_writer.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>

#include "saccade/collection/catalog/store.h"
#include "saccade/collection/catalog/words/word_index.h"
#include "saccade/collection/collection_info.h"
#include "saccade/collection/weaviate/objects.h"
#include "saccade/collection/weaviate/send_objects.h"
#include "saccade/collection/weaviate/weaviate_store.h"
#include "saccade/collection/weaviate/where.h"
#include "saccade/core/process/stoppable_wait.h"
#include "saccade/core/rows.h"
#include "saccade/version.h"

namespace saccade::weaviate {
namespace {

constexpr size_t kIdsPerRequest = 500;
constexpr size_t kItemsPerRemoval = 1'000;

bool is_under(std::string_view path, std::string_view folder) {
  while (folder.ends_with('/')) folder.remove_suffix(1);
  return path == folder || (path.starts_with(folder) && path.substr(folder.size()).starts_with('/'));
}

// Returns true for an item that is no longer there: any worker may remove it at any time.
bool is_gone(const Result<WholeItem>& found) {
  return !found && found.error().code == ErrorCode::kNotFound;
}

std::string class_url(std::string_view name) {
  return fmt::format("/v1/schema/{}", name);
}

// Creates a class, unless another worker has just done so.
Status create_class(const Client& client, const Json& schema, const std::stop_token& stop) {
  const auto name = schema["class"].get<std::string>();
  const auto made =
      client.call({.method = "POST", .path = "/v1/schema", .body = schema, .writes = true, .stop = stop});
  if (made) return {};
  if (made.error().code == ErrorCode::kCancelled) return fail(made.error());
  SACCADE_ASSIGN(const Json there, client.call({.path = class_url(name), .may_lack = true}));
  if (there.is_null()) return fail(made.error());
  return {};
}

}  // namespace

struct Writer::State {
  Opened opened;
  std::filesystem::path text;
  std::stop_token stop;
  mutable std::mutex mutex;
  // Results of looking up paths, by path, and the metadata of items that were found so, by id.
  mutable std::unordered_map<std::string, std::optional<WholeItem>> known;
  mutable std::unordered_map<int64_t, ItemFacts> facts;
  std::map<std::string, Failure, std::less<>> failures;
  std::map<std::string, std::string, std::less<>> removed;  // hashes by path
  std::optional<store::WordTexts> texts;
  std::optional<store::WordStems> stems;

  [[nodiscard]] const Client& client() const { return *opened.client; }
  [[nodiscard]] const Address& address() const { return client().address(); }
  [[nodiscard]] std::string uuid(std::string_view path) const {
    return uuid_of(address().name, stored_path(address(), path));
  }
  // Returns the UUID of an item's object. kMismatch if it is not that of the item's path.
  [[nodiscard]] Result<std::string> uuid_of_stored(const Item& item) const {
    std::string made = uuid(item.path);
    if (id_of(made) == item.id) return made;
    return fail(
        ErrorCode::kMismatch,
        "{}: its object was stored with other roots in the address, or under another name of the class",
        item.path);
  }
  [[nodiscard]] std::string notes() const { return address().name + std::string(kNotes); }

  [[nodiscard]] Result<Json> object_of(const WholeItem& whole);
  Status send(std::vector<Json> objects) const { return send_objects(client(), std::move(objects), stop); }
  Status remove_objects(const std::string& class_name, const std::vector<std::string>& uuids) const;
  void remember(std::string path, std::optional<WholeItem> whole) const;
  Status look_up(std::span<const std::string> paths) const;
  [[nodiscard]] Json note_object(const std::string& kind, const std::string& path, const Json& note) const;
  [[nodiscard]] std::string note_uuid(const std::string& kind, const std::string& path) const;
  Status commit_items(const CollectionChange& change);
  Status commit_notes(const CollectionChange& change);
  Status remove_items(const std::vector<WholeItem>& items);
  Result<int64_t> remove_where(const std::string& where);
};

Writer::Writer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Writer::Writer(Writer&&) noexcept = default;
Writer& Writer::operator=(Writer&&) noexcept = default;
Writer::~Writer() = default;

Result<Writer> Writer::create(const std::filesystem::path& text, const CheckpointId& checkpoint,
                              const IngestSettings& settings, const std::stop_token& stop,
                              const std::string& copy_of) {
  const auto created = [&]() -> Status {
    if (settings.late) {
      return fail(ErrorCode::kUnsupported,
                  "rows of late interaction are kept in folders alone: name another encoder");
    }
    SACCADE_ASSIGN(const Opened opened, open_cluster(text));
    CollectionInfo info;
    info.product_version = version();
    info.created = store::utc_now();
    info.checkpoint = checkpoint;
    info.settings = settings;
    info.copy_of = copy_of;
    const Address& address = opened.client->address();
    // The notes first: a class without them would be taken for a whole one.
    SACCADE_TRY(create_class(*opened.client, notes_class_json(address), stop));
    SACCADE_TRY(create_class(*opened.client, class_json(address, info), stop));
    return {};
  };
  SACCADE_TRY(created().in(fmt::format("make collection {}", text.string())));
  SACCADE_ASSIGN(Writer writer, open(text, stop));
  SACCADE_TRY(
      check_same_checkpoint(writer.info(), checkpoint).in(fmt::format("collection {}", text.string())));
  return writer;
}

Result<Writer> Writer::open(const std::filesystem::path& text, const std::stop_token& stop) {
  auto state = std::make_unique<State>();
  SACCADE_ASSIGN(state->opened, open_class(text));
  state->text = text;
  state->stop = stop;
  SACCADE_TRY(
      for_each_note(state->client(),
                    [&](const std::string& kind, const std::string& path, const Json& note) -> Status {
                      if (kind == "failure") {
                        state->failures.emplace(path, failure_of_note(path, note));
                      } else {
                        SACCADE_ASSIGN(const auto hash, json_field<std::string>(note, "hash"));
                        state->removed.emplace(path, hash);
                      }
                      return {};
                    })
          .in("open collection for writing"));
  SACCADE_ASSIGN(state->texts, store::WordTexts::make());
  SACCADE_ASSIGN(state->stems, store::WordStems::make());
  return Writer(std::move(state));
}

const std::filesystem::path& Writer::folder() const {
  return state_->text;
}
const CollectionInfo& Writer::info() const {
  return state_->opened.info;
}
std::string Writer::shard_key(const std::string& path) const {
  return stored_path(state_->address(), path);
}

Result<Json> Writer::State::object_of(const WholeItem& whole) {
  SACCADE_ASSIGN(const store::WordText words_of,
                 texts->of(stored_path(address(), whole.item.path), whole.item.caption));
  SACCADE_ASSIGN(const std::vector<std::string> found, stems->of(words_of));
  const std::string words = fmt::format("{}", fmt::join(found, " "));
  return Json{{"class", address().name},
              {"id", uuid(whole.item.path)},
              {"properties", properties_of(address(), whole, words)},
              {"vector", vector_json(whole.values)}};
}

Status Writer::State::remove_objects(const std::string& class_name,
                                     const std::vector<std::string>& uuids) const {
  for (size_t begin = 0; begin < uuids.size(); begin += kItemsPerRemoval) {
    const std::vector<std::string> some(
        uuids.begin() + static_cast<std::ptrdiff_t>(begin),
        uuids.begin() + static_cast<std::ptrdiff_t>(std::min(begin + kItemsPerRemoval, uuids.size())));
    const Json where = {{"path", {"id"}}, {"operator", "ContainsAny"}, {"valueTextArray", some}};
    for (int tries = 0;; ++tries) {
      SACCADE_ASSIGN(const Json answer,
                     client().call({.method = "DELETE",
                                    .path = "/v1/batch/objects?consistency_level=QUORUM",
                                    .body = Json{{"match", {{"class", class_name}, {"where", where}}},
                                                 {"output", "minimal"}},
                                    .writes = true,
                                    .stop = stop}));
      SACCADE_ASSIGN(const int64_t failed, json_field<int64_t>(member(answer, "results"), "failed"));
      if (failed == 0) break;
      if (tries == kWriting.rounds)
        return fail(ErrorCode::kIo, "Weaviate could not remove {} objects", failed);
      SACCADE_TRY(stoppable_wait(kWriting.first_wait * (tries + 1), stop));
    }
  }
  return {};
}

void Writer::State::remember(std::string path, std::optional<WholeItem> whole) const {
  if (whole) facts[whole->item.id] = whole->facts;
  known[std::move(path)] = std::move(whole);
}

Status Writer::State::look_up(std::span<const std::string> paths) const {
  for (size_t begin = 0; begin < paths.size(); begin += kIdsPerRequest) {
    const auto some = paths.subspan(begin, std::min(kIdsPerRequest, paths.size() - begin));
    std::vector<std::string> uuids;
    for (const std::string& path : some) uuids.push_back(uuid(path));
    SACCADE_ASSIGN(std::vector<WholeItem> found,
                   items_where(client(), any_of_ids(uuids), std::ssize(uuids), false));
    const std::lock_guard lock(mutex);
    for (const std::string& path : some) remember(path, std::nullopt);
    for (WholeItem& whole : found) {
      std::string path = whole.item.path;
      remember(std::move(path), std::move(whole));
    }
  }
  return {};
}

Status Writer::expect(std::span<const std::string> paths) const {
  {
    const std::lock_guard lock(state_->mutex);
    state_->known.clear();
    state_->facts.clear();
  }
  return state_->look_up(paths).in("look up items");
}

Result<std::optional<Item>> Writer::find_path(std::string_view path) const {
  const std::string key(path);
  for (int tries = 0;; ++tries) {
    {
      const std::lock_guard lock(state_->mutex);
      const auto found = state_->known.find(key);
      if (found != state_->known.end()) {
        return found->second ? std::optional<Item>(found->second->item) : std::nullopt;
      }
    }
    if (tries == 1) return std::optional<Item>();
    SACCADE_TRY(state_->look_up({&key, 1}).in("look up an item"));
  }
}

Result<std::vector<PathUse>> Writer::path_uses(std::span<const std::string_view> paths) const {
  const std::vector<std::string> keys(paths.begin(), paths.end());
  SACCADE_TRY(expect(keys));
  std::vector<PathUse> uses;
  const std::lock_guard lock(state_->mutex);
  for (const std::string& path : keys) {
    const auto found = state_->known.find(path);
    const bool is_item = found != state_->known.end() && found->second;
    uses.push_back(state_->removed.contains(path) ? PathUse::kRemoved
                   : is_item                      ? PathUse::kItem
                                                  : PathUse::kFree);
  }
  return uses;
}

Result<std::vector<Item>> Writer::find_hash(std::string_view hash, int64_t after_id) const {
  constexpr int64_t kMost = 32;
  SACCADE_ASSIGN(
      const std::vector<WholeItem> found,
      items_where(state_->client(),
                  both(equals("hash", kept_text(hash)),
                       fmt::format("{{path:[\"number\"],operator:GreaterThan,valueNumber:{}}}", after_id)),
                  kMost, false)
          .in("look up a hash"));
  std::vector<Item> items;
  for (const WholeItem& whole : found) items.push_back(whole.item);
  return items;
}

Result<std::optional<Failure>> Writer::find_failure(std::string_view path) const {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->failures.find(path);
  return found == state_->failures.end() ? std::nullopt : std::optional<Failure>(found->second);
}

Result<ItemFacts> Writer::find_facts(int64_t id) const {
  {
    const std::lock_guard lock(state_->mutex);
    const auto found = state_->facts.find(id);
    if (found != state_->facts.end()) return found->second;
  }
  auto whole = whole_of_id(state_->client(), id, false);
  if (whole) return std::move(whole->facts);
  if (whole.error().code == ErrorCode::kNotFound) return ItemFacts{};
  return fail(std::move(whole).error());
}

Result<bool> Writer::was_removed(std::string_view path) const {
  const std::lock_guard lock(state_->mutex);
  return state_->removed.contains(path);
}

Result<std::vector<std::string>> Writer::removed_of_hash(std::string_view hash) const {
  const std::lock_guard lock(state_->mutex);
  std::vector<std::string> paths;
  for (const auto& [path, of_path] : state_->removed) {
    if (of_path == hash) paths.push_back(path);
  }
  return paths;
}

Status Writer::for_each_item_under(std::string_view path,
                                   const std::function<Status(const Item&)>& visit) const {
  return for_each_object(state_->client(), state_->address().name, [&](const Json& object) -> Status {
    SACCADE_ASSIGN(const WholeItem whole, item_of(state_->address(), object));
    return is_under(whole.item.path, path) ? visit(whole.item) : Status{};
  });
}

Status Writer::for_each_failure_under(std::string_view path,
                                      const std::function<Status(const Failure&)>& visit) const {
  std::vector<Failure> under;
  {
    const std::lock_guard lock(state_->mutex);
    for (const auto& [of, failure] : state_->failures) {
      if (is_under(of, path)) under.push_back(failure);
    }
  }
  for (const Failure& failure : under) SACCADE_TRY(visit(failure));
  return {};
}

Result<std::vector<float>> Writer::row_values(int64_t row) const {
  SACCADE_ASSIGN(WholeItem whole, whole_of_id(state_->client(), row, true));
  return std::move(whole.values);
}

Result<std::vector<std::byte>> Writer::late_values(int64_t /*row*/) const {
  return std::vector<std::byte>{};
}

Status Writer::update_int8_rows(const ProgressCallback& /*progress*/, std::stop_token /*stop*/) {
  return {};
}

Status Writer::State::commit_items(const CollectionChange& change) {
  std::vector<Json> objects;
  std::vector<std::string> gone;  // UUIDs
  std::set<std::string> written;  // UUIDs
  std::vector<std::string> touched;
  for (const CollectionChange::Put& put : change.puts) {
    if (std::ssize(put.values) != opened.info.checkpoint.dim) {
      return fail(ErrorCode::kBadData, "{}: a row of {} columns, expected {}", put.item.path,
                  put.values.size(), opened.info.checkpoint.dim);
    }
    SACCADE_TRY(check_unit_row(put.values).in(put.item.path));
    WholeItem whole{put.item, put.facts.value_or(ItemFacts{}), put.values};
    if (!put.facts && put.item.id != 0) {
      auto before = whole_of_id(client(), put.item.id, false);
      if (is_gone(before)) continue;
      if (!before) return fail(std::move(before).error());
      whole.facts = std::move(before->facts);
    }
    SACCADE_ASSIGN(objects.emplace_back(), object_of(whole));
    written.insert(uuid(put.item.path));
    touched.push_back(put.item.path);
    if (objects.size() == kObjectsPerBatch) SACCADE_TRY(send(std::exchange(objects, {})));
  }
  // Changes of items whose rows stay, each read once. nullptr for one that another worker has removed. An object of
  // another UUID would get a second one beside it.
  std::map<int64_t, WholeItem> edits;
  const auto edit = [&](int64_t id) -> Result<WholeItem*> {
    const auto found = edits.find(id);
    if (found != edits.end()) return &found->second;
    auto whole = whole_of_id(client(), id, true);
    if (is_gone(whole)) return nullptr;
    if (!whole) return fail(std::move(whole).error());
    SACCADE_TRY(uuid_of_stored(whole->item));
    if (std::ssize(whole->values) != opened.info.checkpoint.dim) {
      return fail(ErrorCode::kBadData, "{}: a row of {} columns is stored, expected {}", whole->item.path,
                  whole->values.size(), opened.info.checkpoint.dim);
    }
    return &edits.emplace(id, *std::move(whole)).first->second;
  };
  for (const Item& item : change.updates) {
    SACCADE_ASSIGN(WholeItem* const whole, edit(item.id));
    if (whole == nullptr) continue;
    std::string before = uuid(whole->item.path);
    if (before != uuid(item.path))
      gone.push_back(std::move(before));  // moved: the object of the other path replaces it
    touched.push_back(whole->item.path);
    touched.push_back(item.path);
    whole->item = item;
  }
  for (const auto& [id, facts_of] : change.facts) {
    SACCADE_ASSIGN(WholeItem* const whole, edit(id));
    if (whole == nullptr) continue;
    whole->facts = facts_of;
    touched.push_back(whole->item.path);
  }
  for (const auto& [id, whole] : edits) {
    SACCADE_ASSIGN(objects.emplace_back(), object_of(whole));
    written.insert(uuid(whole.item.path));
  }
  // Another item may have got the path that an item had.
  std::erase_if(gone, [&](const std::string& moved) { return written.contains(moved); });
  SACCADE_TRY(send(std::move(objects)));
  for (const int64_t id : change.removals) {
    const auto whole = whole_of_id(client(), id, false);
    if (is_gone(whole)) continue;
    if (!whole) return fail(whole.error());
    SACCADE_ASSIGN(gone.emplace_back(), uuid_of_stored(whole->item));
    touched.push_back(whole->item.path);
  }
  SACCADE_TRY(remove_objects(address().name, gone));
  const std::lock_guard lock(mutex);
  for (const std::string& path : touched) {
    const auto found = known.find(path);
    if (found == known.end()) continue;
    if (found->second) facts.erase(found->second->item.id);
    known.erase(found);
  }
  return {};
}

std::string Writer::State::note_uuid(const std::string& kind, const std::string& path) const {
  return uuid_of(notes(), kind + "\n" + stored_path(address(), path));
}

Json Writer::State::note_object(const std::string& kind, const std::string& path, const Json& note) const {
  return {{"class", notes()},
          {"id", note_uuid(kind, path)},
          {"properties",
           {{"kind", kept_text(kind)}, {"path", stored_path(address(), path)}, {"note", dump_json(note)}}}};
}

Status Writer::State::commit_notes(const CollectionChange& change) {
  std::vector<Json> notes_made;
  std::vector<std::string> gone;
  std::vector<std::string> no_failures;  // paths
  std::vector<Failure> failed = change.failures;
  {
    const std::lock_guard lock(mutex);
    const auto forget_failure = [&](const std::string& path) {
      if (!failures.contains(path)) return;
      gone.push_back(note_uuid("failure", path));
      no_failures.push_back(path);
    };
    for (const auto& put : change.puts) forget_failure(put.item.path);
    for (const Item& item : change.updates) forget_failure(item.path);
    for (const std::string& path : change.forget_failures) forget_failure(path);
    for (const std::string& path : change.forget_removed) {
      if (removed.contains(path)) gone.push_back(note_uuid("removed", path));
    }
    for (Failure& failure : failed) {
      const auto before = failures.find(failure.path);
      if (before != failures.end()) failure.tries = before->second.tries + 1;
      notes_made.push_back(note_object("failure", failure.path, failure_note(failure)));
    }
    for (const RemovedPicture& picture : change.removed) {
      notes_made.push_back(note_object("removed", picture.path, {{"hash", picture.hash}}));
    }
  }
  SACCADE_TRY(remove_objects(notes(), gone));
  SACCADE_TRY(send(std::move(notes_made)));
  // Kept here only once the cluster has it.
  const std::lock_guard lock(mutex);
  for (const std::string& path : no_failures) failures.erase(path);
  for (const std::string& path : change.forget_removed) removed.erase(path);
  for (Failure& failure : failed) {
    std::string path = failure.path;
    failures.insert_or_assign(std::move(path), std::move(failure));
  }
  for (const RemovedPicture& picture : change.removed) {
    removed.insert_or_assign(picture.path, picture.hash);
  }
  return {};
}

Status Writer::commit(const CollectionChange& change) {
  SACCADE_TRY(state_->commit_items(change).in("write to collection"));
  return state_->commit_notes(change).in("write to collection");
}

Status Writer::State::remove_items(const std::vector<WholeItem>& items) {
  std::vector<std::string> uuids;
  CollectionChange change;
  for (const WholeItem& whole : items) {
    SACCADE_ASSIGN(uuids.emplace_back(), uuid_of_stored(whole.item));
    change.removed.push_back({whole.item.path, whole.item.hash});
  }
  // Noted first, so that no other worker takes in what is being removed.
  SACCADE_TRY(commit_notes(change));
  SACCADE_TRY(remove_objects(address().name, uuids));
  const std::lock_guard lock(mutex);
  known.clear();
  facts.clear();
  return {};
}

// Removes the items that meet a condition, and returns their number. A replica that lags may list an item again, which
// counts once.
Result<int64_t> Writer::State::remove_where(const std::string& where) {
  std::set<int64_t> ids;
  for (int tries = 0;;) {
    SACCADE_ASSIGN(const std::vector<WholeItem> items, items_where(client(), where, kItemsPerRemoval, false));
    if (items.empty()) return std::ssize(ids);
    const size_t before = ids.size();
    for (const WholeItem& whole : items) ids.insert(whole.item.id);
    if (ids.size() == before) {
      if (++tries == kWriting.rounds) {
        return fail(ErrorCode::kIo, "{} and {} more are still there after their removal",
                    items.front().item.path, items.size() - 1);
      }
      SACCADE_TRY(stoppable_wait(kWriting.first_wait * tries, stop));
    }
    SACCADE_TRY(remove_items(items));
  }
}

Result<int64_t> Writer::remove_ids(std::span<const int64_t> ids) {
  std::vector<WholeItem> items;
  for (const int64_t id : ids) {
    auto whole = whole_of_id(state_->client(), id, false);
    if (is_gone(whole)) continue;
    if (!whole) return fail(std::move(whole).error().in("remove"));
    items.push_back(*std::move(whole));
  }
  SACCADE_TRY(state_->remove_items(items).in("remove"));
  return std::ssize(items);
}

Result<int64_t> Writer::remove_path(const std::filesystem::path& path) {
  const std::string stored = stored_path(state_->address(), path.string());
  return state_->remove_where(path_under(stored)).in("remove");
}

Result<int64_t> Writer::remove_matching(const Filter& filter) {
  const Where where = where_of(filter.tree);
  if (!where.exact) {
    return fail(
        ErrorCode::kUnsupported,
        "remove: a filter with a set of characters, like [a-z], cannot be used to remove from a Weaviate "
        "cluster: name the ids or paths");
  }
  return state_->remove_where(where.graphql).in("remove");
}

Result<int64_t> Writer::forget_removed(const std::filesystem::path& path) {
  CollectionChange change;
  {
    const std::lock_guard lock(state_->mutex);
    for (const auto& [of, hash] : state_->removed) {
      if (is_under(of, path.string())) change.forget_removed.push_back(of);
    }
  }
  SACCADE_TRY(state_->commit_notes(change).in("forget what was removed"));
  return std::ssize(change.forget_removed);
}

Result<int64_t> Writer::compact(const ProgressCallback& /*progress*/, std::stop_token /*stop*/) {
  return 0;  // Weaviate compacts its files itself
}

}  // namespace saccade::weaviate
