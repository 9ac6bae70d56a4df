// The write side: see collection_reader.h for the layout and the order of steps that crash safety rests on.
#include "saccade/collection/folder/folder_writer.h"

#include <algorithm>
#include <fcntl.h>
#include <mutex>
#include <set>
#include <unistd.h>
#include <utility>

#include "saccade/collection/catalog/descriptor.h"
#include "saccade/collection/catalog/store.h"
#include "saccade/collection/catalog/words/word_index.h"
#include "saccade/collection/collection_info.h"
#include "saccade/collection/rows/approximate_index.h"
#include "saccade/collection/rows/int8_file.h"
#include "saccade/collection/rows/late_file.h"
#include "saccade/core/files/file_lock.h"
#include "saccade/core/files/files.h"
#include "saccade/core/files/temporary_files.h"
#include "saccade/core/rows.h"
#include "saccade/version.h"

namespace saccade {
namespace {

Result<Descriptor> take_lock(const std::filesystem::path& folder) {
  return lock_file(folder / store::kLockName, "writing to this collection");
}

bool has_info(const std::filesystem::path& folder) {
  std::error_code error;
  return std::filesystem::exists(folder / store::kInfoName, error);
}

bool is_temporary(std::string_view name) {
  const auto becomes = temporary_of(name);
  return becomes &&
         (*becomes == store::kInfoName || *becomes == kBackgroundName || store::generation_of(*becomes) != 0);
}

// Files of a compaction or creation that a crash interrupted. Readers that have one mapped keep it.
void remove_debris(const std::filesystem::path& folder, int64_t generation) {
  std::error_code error;
  std::vector<std::filesystem::path> debris;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const int64_t other = store::generation_of(name);
    if ((other != 0 && other != generation) || is_temporary(name)) debris.push_back(entry->path());
  }
  for (const auto& path : debris) std::filesystem::remove(path, error);
}

bool is_catalog_file(std::string_view name) {
  if (!name.starts_with(store::kCatalogName)) return false;
  const std::string_view ending = name.substr(std::string_view(store::kCatalogName).size());
  return ending.empty() || ending == "-wal" || ending == "-shm" || ending == "-journal";
}

// Returns the files in `folder` that an interrupted creation left behind. Returns an error if the folder
// holds anything else. Changes nothing.
Result<std::vector<std::filesystem::path>> leftovers_of_creation(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> leftovers;
  std::string rows;  // a file with rows: a collection gets some only once it is made
  const auto not_empty = [&](const std::string& name) {
    return fail(ErrorCode::kUsage, "{}: not a collection, and not empty (it holds \"{}\")", folder.string(),
                name);
  };
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name == store::kLockName) continue;
    if (!is_catalog_file(name) && store::generation_of(name) == 0 && !is_temporary(name)) {
      return not_empty(name);
    }
    std::error_code gone;
    if (store::generation_of(name) != 0 && entry->file_size(gone) > 0) rows = name;
    leftovers.push_back(entry->path());
  }
  if (error) return fail(ErrorCode::kIo, "{}: {}", folder.string(), error.message());
  const std::filesystem::path catalog = folder / store::kCatalogName;
  if (std::filesystem::exists(catalog, error) && std::filesystem::file_size(catalog, error) > 0) {
    SACCADE_ASSIGN(Database database, Database::open(catalog, Database::Mode::kRead));
    SACCADE_ASSIGN(const int64_t entries, database.integer("SELECT count(*) FROM sqlite_schema"));
    SACCADE_ASSIGN(const int64_t application, database.integer("PRAGMA application_id"));
    if (entries > 0 && application != store::kApplicationId) {
      return fail(ErrorCode::kUsage, "{}: not a collection: its {} is a database of another program",
                  folder.string(), store::kCatalogName);
    }
    SACCADE_ASSIGN(
        const int64_t tables,
        database.integer("SELECT count(*) FROM sqlite_schema WHERE name = 'items' AND type = 'table'"));
    if (tables > 0) {
      SACCADE_ASSIGN(const int64_t items, database.integer("SELECT count(*) FROM items"));
      if (items > 0) {
        return fail(ErrorCode::kBadData, "{}: {} is missing beside a catalog of {} items", folder.string(),
                    store::kInfoName, items);
      }
    }
  }
  if (!rows.empty()) return not_empty(rows);
  for (const std::string_view ending : {"-wal", "-shm"})
    leftovers.emplace_back(catalog.string().append(ending));
  return leftovers;
}

Status clear_for_creation(const std::filesystem::path& folder) {
  SACCADE_ASSIGN(const auto leftovers, leftovers_of_creation(folder));
  for (const auto& path : leftovers) {
    std::error_code error;
    std::filesystem::remove(path, error);
    if (error) return fail(ErrorCode::kIo, "{}: {}", path.string(), error.message());
  }
  return {};
}

}  // namespace

struct FolderWriter::State {
  std::filesystem::path folder;  // as it was named
  std::filesystem::path files;   // what it led to when it was opened (store::files_of)
  CollectionInfo info;
  WriterOptions options;
  Descriptor lock;
  Database database;
  Descriptor rows_file;
  store::LateWriter late;                 // where the collection keeps such rows
  std::optional<store::Int8Writer> int8;  // opened by the first change
  store::Meta meta;
  bool broken = false;  // a write failed half-way: only a fresh open knows what the disk holds
  mutable std::mutex mutex;

  State(std::filesystem::path path, std::filesystem::path resolved, CollectionInfo what, WriterOptions how,
        Descriptor held, Database opened)
      : folder(std::move(path)),
        files(std::move(resolved)),
        info(std::move(what)),
        options(std::move(how)),
        lock(std::move(held)),
        database(std::move(opened)) {}

  void step(std::string_view name) const {
    if (options.on_step) options.on_step(name);
  }
  [[nodiscard]] int64_t bytes_a_row() const {
    return info.checkpoint.dim * static_cast<int64_t>(sizeof(float));
  }
  [[nodiscard]] std::string rows_name() const { return store::rows_path(files, meta.generation).string(); }

  [[nodiscard]] Status usable() const {
    if (!broken) return {};
    return fail(ErrorCode::kIo, "{}: an earlier write failed; open the collection anew", folder.string());
  }

  // Look-ups that ingest makes for each file, prepared once, and reset when they have
  // been read: none holds a snapshot.
  mutable std::optional<Statement> path_lookup;
  mutable std::optional<Statement> removed_lookup;
  mutable std::optional<Statement> facts_lookup;
  // Binds, steps once and reads; `nullopt` if there is no row.
  template <typename T, typename V>
  Result<std::optional<T>> look_up(std::optional<Statement>& statement, std::string_view sql, const V& value,
                                   T (*read)(const Statement&)) {
    if (!statement) {
      SACCADE_ASSIGN(statement, database.prepare(sql));
    }
    SACCADE_ASSIGN(const bool row, statement->bind(value).step());
    if (!row) return std::optional<T>();
    std::optional<T> found(read(*statement));
    statement->reset();
    return found;
  }

  Status append_rows(const CollectionChange& change);
  Status append_late(const CollectionChange& change);
  [[nodiscard]] Status check_put(const CollectionChange::Put& put) const;
  Status change_catalog(const CollectionChange& change);
  Result<int64_t> insert(const CollectionChange::Put& put, int64_t row, Statement& add, Statement& replace,
                         Statement& has_id);
  Status forget(Statement& statement, std::string_view path);
  Status commit(const CollectionChange& change);
  Status update_int8(const ProgressCallback& progress, const std::stop_token& stop);
  Status write_compacted(std::span<const std::pair<int64_t, int64_t>> items, AtomicFile& file,
                         const ProgressCallback& progress, const std::stop_token& stop) const;
  Status compact_late(std::span<const std::pair<int64_t, int64_t>> items, int64_t generation,
                      const ProgressCallback& progress, const std::stop_token& stop) const;
  Status mend_words();
  Status add_removals(const Filter& filter, CollectionChange& change);
  Result<int64_t> remove_where(const Filter& filter);
};

FolderWriter::FolderWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
FolderWriter::FolderWriter(FolderWriter&&) noexcept = default;
FolderWriter& FolderWriter::operator=(FolderWriter&&) noexcept = default;
FolderWriter::~FolderWriter() = default;

Result<FolderWriter> FolderWriter::create(const std::filesystem::path& folder, const CheckpointId& checkpoint,
                                          const IngestSettings& settings, const WriterOptions& options) {
  const auto created = [&]() -> Result<FolderWriter> {
    SACCADE_TRY(make_folders(folder));
    const std::filesystem::path files = store::files_of(folder);
    CollectionInfo info;
    info.product_version = version();
    info.created = store::utc_now();
    info.checkpoint = checkpoint;
    info.settings = settings;
    info.copy_of = options.copy_of;
    info.format_version = settings.late ? 2 : 1;
    {
      // Before the lock file is made: another's folder stays as it is.
      if (!has_info(files)) SACCADE_TRY(leftovers_of_creation(files));
      SACCADE_ASSIGN(const Descriptor lock, take_lock(files));
      if (has_info(files))
        return fail(ErrorCode::kUsage, "{}: there is a collection already", folder.string());
      SACCADE_TRY(clear_for_creation(files));
      if (options.on_step) options.on_step("creating");
      SACCADE_TRY(write_file_atomic(store::rows_path(files, store::Meta{}.generation), ""));
      if (settings.late) SACCADE_TRY(store::LateWriter::create(files, store::Meta{}.generation));
      if (options.on_step) options.on_step("rows made");
      SACCADE_ASSIGN(Database database,
                     Database::open(files / store::kCatalogName, Database::Mode::kCreate).in("catalog"));
      SACCADE_TRY(store::create_schema(database, info).in("catalog"));
      if (options.on_step) options.on_step("catalog made");
      SACCADE_TRY(store::write_info(files, info));  // last: from here on it is a collection
      if (options.on_step) options.on_step("created");
    }
    return open(folder, files, options);
  };
  return created().in("make collection");
}

Result<FolderWriter> FolderWriter::open(const std::filesystem::path& folder, const WriterOptions& options) {
  return open(folder, store::files_of(folder), options);
}

Result<FolderWriter> FolderWriter::open(const std::filesystem::path& folder,
                                        const std::filesystem::path& files, const WriterOptions& options) {
  const auto opened = [&]() -> Result<FolderWriter> {
    // Before the lock file is made: a folder that is no collection stays as it is.
    SACCADE_ASSIGN(CollectionInfo info, store::read_info(files));
    SACCADE_ASSIGN(Descriptor lock, take_lock(files));
    SACCADE_ASSIGN(Database database, store::open_catalog(files, info, Database::Mode::kWrite));
    auto state = std::make_unique<State>(folder, files, std::move(info), options, std::move(lock),
                                         std::move(database));
    SACCADE_ASSIGN(state->meta, store::read_meta(state->database));
    SACCADE_ASSIGN(const int64_t bytes, store::row_bytes(state->meta, state->info.checkpoint.dim));
    if (state->info.settings.late) {
      SACCADE_ASSIGN(state->late, store::LateWriter::open(files, state->meta.generation, state->meta.rows,
                                                          store::late_layout(state->info)));
    }
    SACCADE_ASSIGN(state->rows_file,
                   store::open_grown(store::rows_path(files, state->meta.generation), bytes, "rows"));
    remove_debris(files, state->meta.generation);
    return FolderWriter(std::move(state));
  };
  return opened().in("open collection for writing");
}

const std::filesystem::path& FolderWriter::folder() const {
  return state_->folder;
}
const CollectionInfo& FolderWriter::info() const {
  return state_->info;
}

Status FolderWriter::State::append_rows(const CollectionChange& change) {
  if (change.puts.empty()) return {};
  const std::string name = rows_name();
  // In blocks, so that the rows of an import are not in memory twice.
  constexpr size_t kBlockRows = 4'096;
  std::vector<float> values;
  int64_t offset = meta.rows * bytes_a_row();
  const auto write_values = [&](size_t first, size_t count) -> Status {
    const auto bytes = std::as_bytes(std::span(values).subspan(first, count));
    SACCADE_TRY(store::write_at(rows_file.get(), bytes, offset, name));
    offset += static_cast<int64_t>(bytes.size());
    return {};
  };
  step("writing rows");
  const std::span<const CollectionChange::Put> puts(change.puts);
  for (size_t begin = 0; begin < puts.size(); begin += kBlockRows) {
    values.clear();
    for (const auto& put : puts.subspan(begin, std::min(kBlockRows, puts.size() - begin)))
      values.insert(values.end(), put.values.begin(), put.values.end());
    // In two parts, so that a test may end the process within a row.
    const size_t half = values.size() / 2;
    SACCADE_TRY(write_values(0, half));
    if (begin == 0) step("half of the rows written");
    SACCADE_TRY(write_values(half, values.size() - half));
  }
  step("rows written");
  if (info.settings.late) SACCADE_TRY(append_late(change));
  if (::fdatasync(rows_file.get()) != 0) return fail_errno(errno, name + ": flush");
  step("rows flushed");
  return {};
}

Status FolderWriter::State::append_late(const CollectionChange& change) {
  std::vector<std::span<const std::byte>> items;
  for (const auto& put : change.puts) items.emplace_back(put.late);
  SACCADE_TRY(late.append_rows(items, [this] { step("half of the late rows written"); }));
  step("late rows written");
  SACCADE_TRY(late.append_ends());
  step("late ends written");
  SACCADE_TRY(late.flush());
  step("late rows flushed");
  return {};
}

Status FolderWriter::State::check_put(const CollectionChange::Put& put) const {
  if (static_cast<int64_t>(put.values.size()) != info.checkpoint.dim) {
    return fail(ErrorCode::kBadData, "a row of {} columns, expected {}", put.values.size(),
                info.checkpoint.dim);
  }
  SACCADE_TRY(check_unit_row(put.values));
  if (!info.settings.late) {
    if (put.late.empty()) return {};
    return fail(ErrorCode::kBadData, "{} bytes of late rows for a collection that keeps none",
                put.late.size());
  }
  const int64_t width = stored_row_bytes(store::late_layout(info));
  if (put.late.empty() || static_cast<int64_t>(put.late.size()) % width != 0) {
    return fail(ErrorCode::kBadData, "{} bytes of late rows, expected rows of {}", put.late.size(), width);
  }
  return {};
}

Status FolderWriter::State::forget(Statement& statement, std::string_view path) {
  return statement.bind(path).run();
}

// The item's id.
Result<int64_t> FolderWriter::State::insert(const CollectionChange::Put& put, int64_t row, Statement& add,
                                            Statement& replace, Statement& has_id) {
  std::optional<int64_t> id;  // `nullopt`: the catalog gives the next
  if (put.item.id != 0) {
    id = put.item.id;
  } else if (put.wanted_id > 0) {
    SACCADE_ASSIGN(const bool taken, has_id.bind(put.wanted_id).step());
    if (taken) {
      has_id.reset();
    } else {
      id = put.wanted_id;
    }
  }
  Statement& statement = put.item.id == 0 ? add : replace;
  store::bind_fields(statement, put.item);
  statement.bind(row).bind(id);
  SACCADE_TRY(statement.run().in(put.item.path));
  if (database.changes() != 1) return fail(ErrorCode::kUsage, "{}: no item {}", put.item.path, put.item.id);
  return put.item.id == 0 ? database.last_id() : put.item.id;
}

Status FolderWriter::State::change_catalog(const CollectionChange& change) {
  constexpr std::string_view kFields =
      "path = ?, hash = ?, size = ?, mtime_ns = ?, width = ?, height = ?, format = ?, caption = ?, added = ?, "
      "device = ?, inode = ?, folder_device = ?, linked = ?";
  SACCADE_ASSIGN(Statement remove, database.prepare("DELETE FROM items WHERE id = ?"));
  SACCADE_ASSIGN(Statement update,
                 database.prepare(fmt::format("UPDATE items SET {} WHERE id = ?", kFields)));
  SACCADE_ASSIGN(Statement replace,
                 database.prepare(fmt::format("UPDATE items SET {}, row = ? WHERE id = ?", kFields)));
  SACCADE_ASSIGN(Statement add,
                 database.prepare("INSERT INTO items (path, hash, size, mtime_ns, width, height, "
                                  "format, caption, added, device, inode, folder_device, linked, row, id) "
                                  "VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"));
  SACCADE_ASSIGN(Statement has_id, database.prepare("SELECT 1 FROM items WHERE id = ?"));
  SACCADE_ASSIGN(Statement forget_failure, database.prepare("DELETE FROM failures WHERE path = ?"));
  SACCADE_ASSIGN(
      Statement remember,
      database.prepare("INSERT INTO failures VALUES (?, ?, ?, ?, ?, ?, 1) ON CONFLICT (path) DO UPDATE SET "
                       "code = excluded.code, reason = excluded.reason, size = excluded.size, "
                       "mtime_ns = excluded.mtime_ns, failed_at = excluded.failed_at, tries = tries + 1"));
  SACCADE_ASSIGN(store::WordWriter words, store::WordWriter::make(database));
  SACCADE_ASSIGN(Statement remove_facts, database.prepare("DELETE FROM facts WHERE id = ?"));
  SACCADE_ASSIGN(Statement set_facts,
                 database.prepare(fmt::format("INSERT OR REPLACE INTO facts ({}) VALUES "
                                              "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                                              store::kFactsColumns)));
  const auto keep_facts = [&](int64_t id, const ItemFacts& facts) {
    store::bind_facts(set_facts, id, facts);
    return set_facts.run();
  };
  for (const int64_t id : change.removals) {
    SACCADE_TRY(remove.bind(id).run());
    SACCADE_TRY(remove_facts.bind(id).run());
    SACCADE_TRY(words.remove(id));
  }
  for (const Item& item : change.updates) {
    store::bind_fields(update, item);
    SACCADE_TRY(update.bind(item.id).run().in(item.path));
    if (database.changes() != 1) return fail(ErrorCode::kUsage, "{}: no item {}", item.path, item.id);
    SACCADE_TRY(words.put(item.id, item.path, item.caption));
    SACCADE_TRY(forget(forget_failure, item.path));
  }
  int64_t row = meta.rows;
  SACCADE_ASSIGN(const int64_t failures, database.integer("SELECT EXISTS (SELECT 1 FROM failures)"));
  for (const auto& put : change.puts) {
    SACCADE_ASSIGN(const int64_t id, insert(put, row++, add, replace, has_id));
    if (put.item.id != 0) SACCADE_TRY(words.remove(id));
    SACCADE_TRY(put.words ? words.add(id, *put.words) : words.add(id, put.item.path, put.item.caption));
    if (put.facts) SACCADE_TRY(keep_facts(id, *put.facts));
    if (failures > 0) SACCADE_TRY(forget(forget_failure, put.item.path));
  }
  // Forgotten first: one that follows its file may come to a path that another has just left.
  for (const std::string& path : change.forget_failures) SACCADE_TRY(forget(forget_failure, path));
  for (const Failure& failure : change.failures) {
    remember.bind(std::string_view(failure.path))
        .bind(name(failure.code))
        .bind(std::string_view(failure.reason));
    SACCADE_TRY(remember.bind(failure.size).bind(failure.mtime_ns).bind(failure.when).run().in(failure.path));
  }
  for (const auto& [id, facts] : change.facts) SACCADE_TRY(keep_facts(id, facts));
  SACCADE_ASSIGN(Statement identify,
                 database.prepare("UPDATE items SET device = ?, inode = ?, folder_device = ?, "
                                  "linked = ? WHERE id = ?"));
  for (const auto& [id, file] : change.identities) {
    store::bind_identity(identify, file);
    SACCADE_TRY(identify.bind(id).run());
  }
  SACCADE_ASSIGN(Statement forget_removed, database.prepare("DELETE FROM removed WHERE path = ?"));
  for (const std::string& path : change.forget_removed) SACCADE_TRY(forget(forget_removed, path));
  SACCADE_ASSIGN(Statement stay_out, database.prepare("INSERT OR REPLACE INTO removed VALUES (?, ?)"));
  for (const RemovedPicture& picture : change.removed) {
    SACCADE_TRY(stay_out.bind(std::string_view(picture.path)).bind(std::string_view(picture.hash)).run());
  }
  return store::write_meta(database, store::Meta{row, meta.generation});
}

Status FolderWriter::State::commit(const CollectionChange& change) {
  SACCADE_TRY(usable());
  for (const auto& put : change.puts) SACCADE_TRY(check_put(put).in(put.item.path));
  if (change.empty()) return {};
  const auto before_commit = [&]() -> Result<Transaction> {
    SACCADE_TRY(append_rows(change));
    SACCADE_ASSIGN(Transaction transaction, Transaction::begin(database));
    SACCADE_TRY(change_catalog(change));
    return transaction;
  };
  auto transaction = before_commit();
  if (!transaction) {
    // The rows are not in the catalog, whatever else: give
    // their room back. The next open does it if this fails.
    if (::ftruncate(rows_file.get(), meta.rows * bytes_a_row()) != 0) broken = true;
    if (info.settings.late && !late.cut()) broken = true;
    broken = broken || transaction.error().code != ErrorCode::kUsage;
    return fail(std::move(transaction).error());
  }
  step("catalog changed");
  if (auto committed = transaction->commit(); !committed) {
    broken = true;  // it may yet be on the disk: the rows must stay
    return committed;
  }
  meta.rows += static_cast<int64_t>(change.puts.size());
  late.committed();
  step("committed");
  // The change is made whether this succeeds or not: what is missing is made up for by the next one.
  static_cast<void>(update_int8({}, {}).has_value());
  return {};
}

Status FolderWriter::State::update_int8(const ProgressCallback& progress, const std::stop_token& stop) {
  const Int8Policy policy = info.settings.int8_rows;
  if (policy == Int8Policy::kOff || (policy == Int8Policy::kAuto && meta.rows < options.int8_auto_rows))
    return {};
  if (!int8) {
    SACCADE_ASSIGN(int8, store::Int8Writer::open(files, meta.generation, rows_file.get(), meta.rows,
                                                 info.checkpoint.dim));
  }
  auto updated = int8->update(
      rows_file.get(), meta.rows, [this](std::string_view name) { step(name); }, progress, stop);
  if (!updated) int8.reset();  // what is on the disk is looked at anew before more is written
  return updated;
}

Status FolderWriter::update_int8_rows(const ProgressCallback& progress, std::stop_token stop) {
  const std::lock_guard lock(state_->mutex);
  SACCADE_TRY(state_->usable());
  return state_->update_int8(progress, stop).in("rows in eight bits");
}

Status FolderWriter::commit(const CollectionChange& change) {
  const std::lock_guard lock(state_->mutex);
  return state_->commit(change).in("write to collection");
}

Result<std::optional<Item>> FolderWriter::find_path(std::string_view path) const {
  const std::lock_guard lock(state_->mutex);
  static const std::string sql = fmt::format("SELECT {} FROM items WHERE path = ?", store::kItemColumns);
  return state_->look_up(state_->path_lookup, sql, path, store::read_item);
}

Result<std::vector<PathUse>> FolderWriter::path_uses(std::span<const std::string_view> paths) const {
  const std::lock_guard lock(state_->mutex);
  Database& database = state_->database;
  std::vector<PathUse> uses(paths.size(), PathUse::kFree);
  // A catalog that is being filled has often none of either.
  for (const auto& [table, use] : {std::pair("items", PathUse::kItem), {"removed", PathUse::kRemoved}}) {
    SACCADE_ASSIGN(const int64_t any,
                   database.integer(fmt::format("SELECT EXISTS (SELECT 1 FROM {})", table)));
    if (any == 0) continue;
    SACCADE_ASSIGN(Statement look_up,
                   database.prepare(fmt::format("SELECT 1 FROM {} WHERE path = ?", table)));
    for (size_t i = 0; i < paths.size(); ++i) {
      SACCADE_ASSIGN(const bool found, look_up.bind(paths[i]).step());
      if (!found) continue;
      uses[i] = use;
      look_up.reset();
    }
  }
  return uses;
}

Result<std::vector<Item>> FolderWriter::find_hash(std::string_view hash, int64_t after_id) const {
  const std::lock_guard lock(state_->mutex);
  SACCADE_ASSIGN(
      Statement statement,
      state_->database.prepare(fmt::format(
          "SELECT {} FROM items WHERE hash = ? AND id > ? ORDER BY id LIMIT 32", store::kItemColumns)));
  statement.bind(hash).bind(after_id);
  std::vector<Item> items;
  SACCADE_TRY(statement.for_each([&] { items.push_back(store::read_item(statement)); }));
  return items;
}

Result<std::optional<Failure>> FolderWriter::find_failure(std::string_view path) const {
  const std::lock_guard lock(state_->mutex);
  SACCADE_ASSIGN(Statement statement, state_->database.prepare(fmt::format(
                                          "SELECT {} FROM failures WHERE path = ?", store::kFailureColumns)));
  SACCADE_ASSIGN(const bool row, statement.bind(path).step());
  return row ? std::optional<Failure>(store::read_failure(statement)) : std::nullopt;
}

Result<ItemFacts> FolderWriter::find_facts(int64_t id) const {
  const std::lock_guard lock(state_->mutex);
  static const std::string sql = fmt::format("SELECT {} FROM facts WHERE id = ?", store::kFactsColumns);
  SACCADE_ASSIGN(std::optional<ItemFacts> facts,
                 state_->look_up(state_->facts_lookup, sql, id, store::read_facts));
  return facts ? *std::move(facts) : ItemFacts{};
}

Result<bool> FolderWriter::was_removed(std::string_view path) const {
  const std::lock_guard lock(state_->mutex);
  const auto any = +[](const Statement&) { return true; };
  SACCADE_ASSIGN(const std::optional<bool> removed,
                 state_->look_up(state_->removed_lookup, "SELECT 1 FROM removed WHERE path = ?", path, any));
  return removed.has_value();
}

Result<std::vector<std::string>> FolderWriter::removed_of_hash(std::string_view hash) const {
  const std::lock_guard lock(state_->mutex);
  SACCADE_ASSIGN(Statement statement,
                 state_->database.prepare("SELECT path FROM removed WHERE hash = ? ORDER BY path LIMIT 32"));
  statement.bind(hash);
  std::vector<std::string> paths;
  SACCADE_TRY(statement.for_each([&] { paths.push_back(statement.text(0)); }));
  return paths;
}

Status FolderWriter::for_each_item_under(std::string_view path,
                                         const std::function<Status(const Item&)>& visit) const {
  const std::lock_guard lock(state_->mutex);
  const Filter filter = store::under(path);
  SACCADE_ASSIGN(Statement statement, state_->database.prepare(fmt::format("SELECT {} FROM items WHERE {}",
                                                                           store::kItemColumns, filter.sql)));
  for (const SqlValue& value : filter.values) statement.bind(value);
  return statement.for_each([&] { return visit(store::read_item(statement)); });
}

Status FolderWriter::for_each_failure_under(std::string_view path,
                                            const std::function<Status(const Failure&)>& visit) const {
  const std::lock_guard lock(state_->mutex);
  const Filter filter = store::under(path);
  SACCADE_ASSIGN(Statement statement,
                 state_->database.prepare(
                     fmt::format("SELECT {} FROM failures WHERE {}", store::kFailureColumns, filter.sql)));
  for (const SqlValue& value : filter.values) statement.bind(value);
  return statement.for_each([&] { return visit(store::read_failure(statement)); });
}

Result<std::vector<float>> FolderWriter::row_values(int64_t row) const {
  const std::lock_guard lock(state_->mutex);
  if (row < 0 || row >= state_->meta.rows) {
    return fail(ErrorCode::kNotFound, "row {} of {}", row, state_->meta.rows);
  }
  std::vector<float> values(static_cast<size_t>(state_->info.checkpoint.dim));
  SACCADE_TRY(store::read_at(state_->rows_file.get(), std::as_writable_bytes(std::span(values)),
                             row * state_->bytes_a_row(), state_->rows_name()));
  return values;
}

Result<std::vector<std::byte>> FolderWriter::late_values(int64_t row) const {
  const std::lock_guard lock(state_->mutex);
  if (!state_->info.settings.late) return std::vector<std::byte>{};
  return state_->late.read(row);
}

// The items for which the filter holds, to be removed and to stay out.
Status FolderWriter::State::add_removals(const Filter& filter, CollectionChange& change) {
  SACCADE_ASSIGN(Statement statement,
                 database.prepare(fmt::format("SELECT items.id, path, hash FROM {} WHERE {}",
                                              filter_tables(filter.sql), filter.sql)));
  for (const SqlValue& value : filter.values) statement.bind(value);
  return statement.for_each([&] {
    change.removals.push_back(statement.integer(0));
    change.removed.push_back({statement.text(1), statement.text(2)});
  });
}

Result<int64_t> FolderWriter::State::remove_where(const Filter& filter) {
  CollectionChange change;
  SACCADE_TRY(add_removals(filter, change));
  SACCADE_TRY(commit(change));
  return static_cast<int64_t>(change.removals.size());
}

Result<int64_t> FolderWriter::remove_ids(std::span<const int64_t> ids) {
  const std::lock_guard lock(state_->mutex);
  CollectionChange change;
  for (const int64_t id : std::set(ids.begin(), ids.end())) {
    SACCADE_TRY(state_->add_removals(Filter{"items.id = ?", {id}}, change));
  }
  SACCADE_TRY(state_->commit(change).in("remove"));
  return static_cast<int64_t>(change.removals.size());
}

Result<int64_t> FolderWriter::remove_path(const std::filesystem::path& path) {
  const std::lock_guard lock(state_->mutex);
  return state_->remove_where(store::under(path.string())).in("remove");
}

Result<int64_t> FolderWriter::remove_matching(const Filter& filter) {
  const std::lock_guard lock(state_->mutex);
  return state_->remove_where(filter).in("remove");
}

Result<int64_t> FolderWriter::forget_removed(const std::filesystem::path& path) {
  const std::lock_guard lock(state_->mutex);
  const Filter filter = store::under(path.string());
  SACCADE_ASSIGN(Statement statement,
                 state_->database.prepare(fmt::format("SELECT path FROM removed WHERE {}", filter.sql)));
  for (const SqlValue& value : filter.values) statement.bind(value);
  CollectionChange change;
  SACCADE_TRY(statement.for_each([&] { change.forget_removed.push_back(statement.text(0)); }));
  SACCADE_TRY(state_->commit(change).in("forget what was removed"));
  return static_cast<int64_t>(change.forget_removed.size());
}

// The rows of `items`, (row, id) by row, as a new rows file, not yet in place.
Status FolderWriter::State::write_compacted(std::span<const std::pair<int64_t, int64_t>> items,
                                            AtomicFile& file, const ProgressCallback& progress,
                                            const std::stop_token& stop) const {
  constexpr size_t kBlock = size_t{1} << 20;
  const auto width = static_cast<size_t>(bytes_a_row());
  std::vector<std::byte> block;
  block.reserve(kBlock + width);
  for (size_t i = 0; i < items.size(); ++i) {
    block.resize(block.size() + width);
    SACCADE_TRY(store::read_at(rows_file.get(), std::span(block).last(width), items[i].first * bytes_a_row(),
                               rows_name()));
    if (block.size() < kBlock && i + 1 < items.size()) continue;
    if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "asked to stop; nothing has changed");
    SACCADE_TRY(file.write(block));
    block.clear();
    if (progress)
      progress({"compacting", static_cast<int64_t>(i) + 1, static_cast<int64_t>(items.size()), {}});
  }
  return {};
}

// Likewise the rows of late interaction; these are put in place.
Status FolderWriter::State::compact_late(std::span<const std::pair<int64_t, int64_t>> items,
                                         int64_t generation, const ProgressCallback& progress,
                                         const std::stop_token& stop) const {
  std::vector<int64_t> rows;
  for (const auto& [row, id] : items) rows.push_back(row);
  int64_t done = 0;
  return late.write_compacted(files, generation, rows, [&]() -> Status {
    if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "asked to stop; nothing has changed");
    if (progress) progress({"compacting late rows", ++done, static_cast<int64_t>(rows.size()), {}});
    return {};
  });
}

// Rebuilds the word index if it does not match the items.
Status FolderWriter::State::mend_words() {
  const auto faults = store::word_faults(database);
  if (faults && faults->count == 0) return {};
  SACCADE_ASSIGN(Transaction transaction, Transaction::begin(database));
  SACCADE_TRY(store::fill_word_index(database));
  return transaction.commit();
}

Result<int64_t> FolderWriter::compact(const ProgressCallback& progress, std::stop_token stop) {
  const std::lock_guard lock(state_->mutex);
  State& state = *state_;
  const auto compacted = [&]() -> Result<int64_t> {
    SACCADE_TRY(state.usable());
    SACCADE_TRY(state.mend_words());
    std::vector<std::pair<int64_t, int64_t>> items;  // (row, id), by row
    SACCADE_ASSIGN(Statement select, state.database.prepare("SELECT row, id FROM items ORDER BY row"));
    SACCADE_TRY(select.for_each([&] { items.emplace_back(select.integer(0), select.integer(1)); }));
    const auto kept = static_cast<int64_t>(items.size());
    const int64_t dropped = state.meta.rows - kept;
    if (dropped == 0) {
      static_cast<void>(state.update_int8(progress, stop).has_value());  // as after a commit
      return 0;
    }

    const store::Meta next{kept, state.meta.generation + 1};
    const std::filesystem::path new_path = store::rows_path(state.files, next.generation);
    SACCADE_ASSIGN(AtomicFile file, AtomicFile::create(new_path));
    SACCADE_TRY(state.write_compacted(items, file, progress, stop));
    const bool with_late = state.info.settings.late.has_value();
    if (with_late) SACCADE_TRY(state.compact_late(items, next.generation, progress, stop));
    state.step("new rows written");
    SACCADE_TRY(file.commit());
    state.step("new rows in place");
    SACCADE_ASSIGN(Descriptor rows_file, store::open_grown(new_path, kept * state.bytes_a_row(), "rows"));

    store::LateWriter late;
    if (with_late) {
      SACCADE_ASSIGN(
          late, store::LateWriter::open(state.files, next.generation, kept, store::late_layout(state.info)));
    }

    SACCADE_ASSIGN(Transaction transaction, Transaction::begin(state.database));
    // Moves rows in rising order. A row moves down only to a free place or one that has moved already, so
    // none ever clash.
    SACCADE_ASSIGN(Statement move, state.database.prepare("UPDATE items SET row = ? WHERE id = ?"));
    for (int64_t i = 0; i < kept; ++i) {
      const auto [row, id] = items[static_cast<size_t>(i)];
      if (row != i) SACCADE_TRY(move.bind(i).bind(id).run());
    }
    SACCADE_TRY(store::write_meta(state.database, next));
    state.step("catalog compacted");
    if (auto committed = transaction.commit(); !committed) {
      state.broken = true;
      return fail(std::move(committed).error());
    }
    const int64_t old = state.meta.generation;
    state.meta = next;
    state.rows_file = std::move(rows_file);
    state.late = std::move(late);
    state.int8.reset();
    state.step("compacted");
    // If not now, then when next opened for writing.
    std::error_code error;
    std::filesystem::remove(store::rows_path(state.files, old), error);
    std::filesystem::remove(store::late_rows_path(state.files, old), error);
    std::filesystem::remove(store::late_ends_path(state.files, old), error);
    std::filesystem::remove(store::int8_path(state.files, old), error);
    std::filesystem::remove(approximate_path(state.files, old), error);
    static_cast<void>(state.update_int8(progress, stop).has_value());  // as after a commit
    return dropped;
  };
  return compacted().in("compact collection");
}

}  // namespace saccade
