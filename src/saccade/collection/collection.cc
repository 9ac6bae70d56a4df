#include "saccade/collection/collection.h"

#include <mutex>

#include "saccade/collection/int8_file.h"
#include "saccade/collection/late_file.h"
#include "saccade/collection/store.h"
#include "saccade/collection/word_index.h"
#include "saccade/core/files.h"

namespace saccade {

bool is_collection(const std::filesystem::path& folder) {
  std::error_code error;
  return std::filesystem::exists(folder / store::kInfoName, error);
}

Result<CollectionInfo> read_collection_info(const std::filesystem::path& folder) {
  return store::read_info(folder);
}

Status check_same_checkpoint(const CollectionInfo& collection, const CheckpointId& checkpoint) {
  const CheckpointId& made = collection.checkpoint;
  if (made.fingerprint == checkpoint.fingerprint && made.dim == checkpoint.dim) return {};
  return fail(
      ErrorCode::kMismatch,
      "made with checkpoint \"{}\" (fingerprint {:.12}), cannot be used with \"{}\" (fingerprint {:.12})",
      made.name, made.fingerprint, checkpoint.name, checkpoint.fingerprint);
}

std::string catalog_path(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::path absolute = std::filesystem::absolute(path, error).lexically_normal();
  if (!absolute.has_filename()) absolute = absolute.parent_path();  // "folder/"
  if (std::filesystem::is_directory(absolute, error)) {
    const std::filesystem::path resolved = std::filesystem::weakly_canonical(absolute, error);
    return error ? absolute.string() : resolved.string();
  }
  const std::filesystem::path parent = std::filesystem::weakly_canonical(absolute.parent_path(), error);
  return error ? absolute.string() : (parent / absolute.filename()).string();
}

// What one catalog transaction sees, and the rows that go with it.
struct Snapshot {
  store::Meta meta;
  MappedFile file;
  store::Int8Reader int8;
  store::LateReader late;
  std::vector<uint8_t> alive;
  std::vector<int64_t> ids;
  int64_t items = 0;
};

struct Collection::State {
  std::filesystem::path folder;
  CollectionInfo info;
  // The connection holds a read transaction open, so that every look-up sees the snapshot.
  mutable std::mutex mutex;
  mutable Database database;
  Snapshot snapshot;

  State(std::filesystem::path path, CollectionInfo what, Database opened)
      : folder(std::move(path)), info(std::move(what)), database(std::move(opened)) {}

  [[nodiscard]] Result<Item> one(std::string_view condition, const SqlValue& value,
                                 std::string_view what) const {
    const std::lock_guard lock(mutex);
    SACCADE_ASSIGN(Statement statement, database.prepare(fmt::format("SELECT {} FROM items WHERE {}",
                                                                     store::kItemColumns, condition)));
    statement.bind(value);
    SACCADE_ASSIGN(const bool row, statement.step());
    if (!row) return fail(ErrorCode::kNotFound, "{}: no such item", what);
    return store::read_item(statement);
  }
};

namespace {

Result<Snapshot> read_snapshot(Database& database, const std::filesystem::path& folder,
                               const CollectionInfo& info) {
  const int64_t dim = info.checkpoint.dim;
  Snapshot snapshot;
  SACCADE_ASSIGN(snapshot.meta, store::read_meta(database));
  SACCADE_ASSIGN(const int64_t bytes, store::row_bytes(snapshot.meta, dim));
  const std::filesystem::path path = store::rows_path(folder, snapshot.meta.generation);
  SACCADE_ASSIGN(snapshot.file, MappedFile::open(path));
  if (static_cast<int64_t>(snapshot.file.bytes().size()) < bytes) {
    return fail(ErrorCode::kBadData, "{}: {} bytes, but the catalog's {} rows of {} columns are {}",
                path.string(), snapshot.file.bytes().size(), snapshot.meta.rows, dim, bytes);
  }
  snapshot.int8 = store::Int8Reader::open(folder, snapshot.meta.generation, snapshot.meta.rows, dim);
  if (info.settings.late) {
    SACCADE_ASSIGN(snapshot.late, store::LateReader::open(folder, snapshot.meta.generation,
                                                          snapshot.meta.rows, store::late_layout(info)));
  }
  snapshot.alive.resize(static_cast<size_t>(snapshot.meta.rows));
  snapshot.ids.resize(static_cast<size_t>(snapshot.meta.rows));
  SACCADE_ASSIGN(Statement statement, database.prepare("SELECT id, row FROM items"));
  for (;;) {
    SACCADE_ASSIGN(const bool more, statement.step().in("catalog"));
    if (!more) return snapshot;
    const int64_t id = statement.integer(0);
    const int64_t row = statement.integer(1);
    if (row < 0 || row >= snapshot.meta.rows) {
      return fail(ErrorCode::kBadData, "catalog: item {} has row {}, but there are {} rows", id, row,
                  snapshot.meta.rows);
    }
    snapshot.alive[static_cast<size_t>(row)] = 1;
    snapshot.ids[static_cast<size_t>(row)] = id;
    ++snapshot.items;
  }
}

Result<Snapshot> take_snapshot(Database& database, const std::filesystem::path& folder,
                               const CollectionInfo& info) {
  // `compact` may replace the rows file between our reading its name and opening it: look again then.
  for (int attempt = 1;; ++attempt) {
    SACCADE_TRY(database.execute("BEGIN").in("catalog"));
    auto snapshot = read_snapshot(database, folder, info);
    if (snapshot) return snapshot;
    static_cast<void>(database.execute("ROLLBACK").has_value());
    if (snapshot.error().code != ErrorCode::kNotFound || attempt == store::kSnapshotTries) return snapshot;
  }
}

}  // namespace

Collection::Collection(std::unique_ptr<State> state) : state_(std::move(state)) {}
Collection::Collection(Collection&&) noexcept = default;
Collection& Collection::operator=(Collection&&) noexcept = default;
Collection::~Collection() = default;

Result<Collection> Collection::open(const std::filesystem::path& folder) {
  const auto opened = [&]() -> Result<Collection> {
    SACCADE_ASSIGN(CollectionInfo info, store::read_info(folder));
    SACCADE_ASSIGN(Database database, store::open_catalog(folder, info, Database::Mode::kRead));
    auto state = std::make_unique<State>(folder, std::move(info), std::move(database));
    SACCADE_ASSIGN(state->snapshot, take_snapshot(state->database, folder, state->info));
    return Collection(std::move(state));
  };
  return opened().in("open collection");
}

const std::filesystem::path& Collection::folder() const {
  return state_->folder;
}
const CollectionInfo& Collection::info() const {
  return state_->info;
}

MatrixView<const float> Collection::rows() const {
  return {reinterpret_cast<const float*>(state_->snapshot.file.bytes().data()), state_->snapshot.meta.rows,
          state_->info.checkpoint.dim};
}

Int8Rows Collection::int8_rows() const {
  return state_->snapshot.int8.rows();
}

StoredRows Collection::late_rows(int64_t row) const {
  return state_->snapshot.late.of(row);
}

std::span<const uint8_t> Collection::alive() const {
  return state_->snapshot.alive;
}
std::span<const int64_t> Collection::ids() const {
  return state_->snapshot.ids;
}
int64_t Collection::item_count() const {
  return state_->snapshot.items;
}

Status Collection::check_files() const {
  const store::Meta& meta = state_->snapshot.meta;
  const auto check = [](const std::filesystem::path& path, int64_t bytes) -> Status {
    std::error_code error;
    const auto size = static_cast<int64_t>(std::filesystem::file_size(path, error));
    // One that `compact` has removed meanwhile lives on in what is mapped.
    if (error || size >= bytes) return {};
    return fail(ErrorCode::kBadData, "{}: cut off to {} bytes since it was opened, {} are needed",
                path.string(), size, bytes);
  };
  SACCADE_TRY(check(store::rows_path(state_->folder, meta.generation),
                    meta.rows * state_->info.checkpoint.dim * static_cast<int64_t>(sizeof(float))));
  if (const Int8Rows int8 = int8_rows(); int8.count > 0) {
    SACCADE_TRY(
        check(store::int8_path(state_->folder, meta.generation), store::int8_offset(int8.count, int8.dim)));
  }
  if (!has_late_rows()) return {};
  SACCADE_TRY(check(store::late_ends_path(state_->folder, meta.generation),
                    meta.rows * static_cast<int64_t>(sizeof(int64_t))));
  return check(store::late_rows_path(state_->folder, meta.generation),
               state_->snapshot.late.stored_rows() * stored_row_bytes(store::late_layout(state_->info)));
}

Result<Item> Collection::item(int64_t id) const {
  return state_->one("id = ?", id, fmt::format("id {}", id));
}

Result<Item> Collection::item_of_row(int64_t row) const {
  return state_->one("row = ?", row, fmt::format("row {}", row));
}

Result<Item> Collection::item_of_path(const std::filesystem::path& path) const {
  return state_->one("path = ?", catalog_path(path), path.string());
}

Status Collection::for_each_item(const std::function<Status(const Item&)>& visit) const {
  const std::lock_guard lock(state_->mutex);
  SACCADE_ASSIGN(Statement statement, state_->database.prepare(fmt::format("SELECT {} FROM items ORDER BY id",
                                                                           store::kItemColumns)));
  for (;;) {
    SACCADE_ASSIGN(const bool row, statement.step());
    if (!row) return {};
    SACCADE_TRY(visit(store::read_item(statement)));
  }
}

Result<std::vector<uint8_t>> Collection::allowed(const Filter& filter) const {
  const std::lock_guard lock(state_->mutex);
  SACCADE_ASSIGN(Statement statement,
                 state_->database.prepare(fmt::format("SELECT row FROM items WHERE {}", filter.sql)));
  for (const SqlValue& value : filter.values) statement.bind(value);
  std::vector<uint8_t> mask(state_->snapshot.alive.size());
  for (;;) {
    SACCADE_ASSIGN(const bool row, statement.step());
    if (!row) return mask;
    mask[static_cast<size_t>(statement.integer(0))] = 1;  // in range: checked with the snapshot
  }
}

Result<WordMatches> Collection::match_words(std::span<const std::string> terms) const {
  const std::lock_guard lock(state_->mutex);
  SACCADE_ASSIGN(const int64_t version, state_->database.integer("PRAGMA user_version"));
  if (version < store::kWordsSince) {
    WordMatches none;
    none.reason = "the collection has no words to search yet: the next `saccade index` makes them";
    return none;
  }
  return store::match_words(state_->database, terms, state_->snapshot.items, state_->snapshot.meta.rows)
      .in("words of the catalog");
}

Result<std::vector<uint8_t>> Collection::word_fields(int64_t id, std::span<const std::string> terms) const {
  const std::lock_guard lock(state_->mutex);
  return store::word_fields(state_->database, id, terms).in("words of the catalog");
}

Result<CollectionSummary> Collection::summary() const {
  const std::lock_guard lock(state_->mutex);
  Database& database = state_->database;
  CollectionSummary summary;
  summary.items = state_->snapshot.items;
  summary.rows = state_->snapshot.meta.rows;
  summary.dead_rows = summary.rows - summary.items;
  summary.generation = state_->snapshot.meta.generation;
  summary.row_bytes = summary.rows * state_->info.checkpoint.dim * static_cast<int64_t>(sizeof(float));
  if (const Int8Rows int8 = int8_rows(); int8.count > 0) {
    summary.int8_rows = int8.count;
    summary.int8_bytes = store::int8_offset(int8.count, int8.dim);
  }
  if (state_->info.settings.late) {
    summary.late_rows = state_->snapshot.late.stored_rows();
    summary.late_bytes = state_->snapshot.late.bytes();
  }
  SACCADE_ASSIGN(summary.failures, database.integer("SELECT count(*) FROM failures"));
  SACCADE_ASSIGN(summary.captions, database.integer("SELECT count(*) FROM items WHERE caption <> ''"));
  SACCADE_ASSIGN(summary.distinct_contents, database.integer("SELECT count(DISTINCT hash) FROM items"));
  SACCADE_ASSIGN(summary.file_bytes, database.integer("SELECT coalesce(sum(size), 0) FROM items"));
  for (const std::string_view ending : {"", "-wal"}) {
    std::error_code error;
    const auto path = (state_->folder / store::kCatalogName).string().append(ending);
    const auto size = std::filesystem::file_size(path, error);
    if (!error) summary.catalog_bytes += static_cast<int64_t>(size);
  }
  SACCADE_ASSIGN(Statement formats, database.prepare("SELECT format, count(*) FROM items GROUP BY format"));
  for (;;) {
    SACCADE_ASSIGN(const bool row, formats.step());
    if (!row) return summary;
    summary.formats[formats.text(0)] = formats.integer(1);
  }
}

Result<std::vector<Failure>> Collection::failures() const {
  const std::lock_guard lock(state_->mutex);
  SACCADE_ASSIGN(Statement statement, state_->database.prepare(fmt::format(
                                          "SELECT {} FROM failures ORDER BY path", store::kFailureColumns)));
  std::vector<Failure> failures;
  for (;;) {
    SACCADE_ASSIGN(const bool row, statement.step());
    if (!row) return failures;
    failures.push_back(store::read_failure(statement));
  }
}

Status Collection::refresh() {
  const std::lock_guard lock(state_->mutex);
  // A second connection first: if anything fails, the old snapshot is as it was.
  SACCADE_ASSIGN(
      Database database,
      store::open_catalog(state_->folder, state_->info, Database::Mode::kRead).in("refresh collection"));
  SACCADE_ASSIGN(Snapshot snapshot, take_snapshot(database, state_->folder, state_->info));
  state_->database = std::move(database);
  state_->snapshot = std::move(snapshot);
  return {};
}

}  // namespace saccade
