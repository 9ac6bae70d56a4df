#include "saccade/collection/folder/folder_reader.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>

#include "saccade/collection/catalog/id_rows.h"
#include "saccade/collection/catalog/scan_parts.h"
#include "saccade/collection/catalog/sql_text.h"
#include "saccade/collection/catalog/store.h"
#include "saccade/collection/catalog/words/word_index.h"
#include "saccade/collection/rows/approximate_index.h"
#include "saccade/collection/rows/int8_file.h"
#include "saccade/collection/rows/late_file.h"
#include "saccade/core/files/file_stamp.h"
#include "saccade/core/files/files.h"
#include "saccade/core/threads.h"
#include "saccade/image/metadata/look.h"

namespace saccade {

// Rows of the items that meet a filter.
struct Filtered {
  std::string sql;
  std::vector<SqlValue> values;
  std::vector<uint8_t> mask;  // one byte a row
};

// Snapshot of one catalog transaction, with the matching rows.
struct Snapshot {
  store::Meta meta;
  MappedFile file;
  store::Int8Reader int8;
  store::LateReader late;
  std::unique_ptr<const ApproximateIndex> approximate;
  std::string why_not_approximate;
  std::vector<uint8_t> alive;
  std::vector<int64_t> ids;
  int64_t items = 0;
  int64_t catalog_bytes = 0;                   // of the catalog's file, which only grows
  int64_t version = 0;                         // of the catalog's schema
  int64_t last_id = 0;                         // the largest one
  std::vector<Database> others;                // more connections that see the same; empty for few items
  std::unique_ptr<const store::IdRows> by_id;  // made when it is first needed
  std::unique_ptr<store::TermLookup> terms;    // likewise
  std::optional<Matrix<float>> sample;         // likewise
  std::optional<Filtered> filtered;            // by the last filter: pages of an answer ask for it again
  std::optional<Matrix<float>> own_rows;       // of a reader that is made in memory, which has no files
  WordStatistics words;                        // likewise
};

struct FolderReader::State {
  std::filesystem::path folder;
  std::filesystem::path files;  // of the snapshot: what `folder` led to then, if it is a link
  CollectionInfo info;
  // The connection holds a read transaction open, so that every look-up sees the snapshot.
  mutable std::mutex mutex;
  mutable Database database;
  mutable Snapshot snapshot;  // all but what is made when it is needed changes in refresh() alone

  State(std::filesystem::path path, std::filesystem::path resolved, CollectionInfo what, Database opened)
      : folder(std::move(path)),
        files(std::move(resolved)),
        info(std::move(what)),
        database(std::move(opened)) {}

  // what(): the item, for people.
  template <typename What>
  [[nodiscard]] Result<Item> one(std::string_view condition, const SqlValue& value, const What& what) const {
    const std::lock_guard lock(mutex);
    SACCADE_ASSIGN(const KeptStatement statement, database.kept(fmt::format("SELECT {} FROM items WHERE {}",
                                                                            store::kItemColumns, condition)));
    SACCADE_ASSIGN(const bool row, statement->bind(value).step());
    if (!row) return fail(ErrorCode::kNotFound, "{}: no such item", what());
    return store::read_item(*statement);
  }
  // Both with the mutex held.
  [[nodiscard]] const store::IdRows& by_id() const {
    if (!snapshot.by_id) snapshot.by_id = std::make_unique<const store::IdRows>(snapshot.ids);
    return *snapshot.by_id;
  }
  [[nodiscard]] store::TermLookup& terms() const {
    if (!snapshot.terms) {
      snapshot.terms = std::make_unique<store::TermLookup>(
          by_id(), snapshot.own_rows ? std::optional(snapshot.words) : std::nullopt);
    }
    return *snapshot.terms;
  }
};

namespace {

// Opens more connections for scans on several processors, as far as they see the same as one that has read
// `meta`: a writer may have committed since.
std::vector<Database> others_alike(const std::filesystem::path& folder, const CollectionInfo& info,
                                   const store::Meta& meta) {
  constexpr int64_t kFewRows = 30'000;  // whose scan takes little more than the connections and threads
  constexpr int kMost = 4;
  std::vector<Database> others;
  if (meta.rows < kFewRows || meta.changes == 0) return others;
  for (int i = 1; i < std::min(available_processors(), kMost); ++i) {
    auto other = store::open_catalog(folder, info, Database::Mode::kRead);
    if (!other || !other->execute("BEGIN")) return others;
    const auto seen = store::read_meta(*other);
    if (!seen || *seen != meta) return others;
    others.push_back(*std::move(other));
  }
  return others;
}

// Reads which item has which row, and counts the items of rows from `begin` to before `end`.
Result<int64_t> read_rows(Database& database, int64_t begin, int64_t end, Snapshot& snapshot) {
  SACCADE_ASSIGN(Statement statement,
                 database.prepare("SELECT id, row FROM items WHERE row >= ? AND row < ?"));
  statement.bind(begin).bind(end);
  int64_t items = 0;
  const auto read_row = [&] {
    const auto row = static_cast<size_t>(statement.integer(1));
    snapshot.alive[row] = 1;
    snapshot.ids[row] = statement.integer(0);
    ++items;
  };
  SACCADE_TRY(statement.for_each(read_row).in("catalog"));
  return items;
}

Result<Snapshot> read_snapshot(Database& database, const std::filesystem::path& folder,
                               const CollectionInfo& info) {
  const int64_t dim = info.checkpoint.dim;
  Snapshot snapshot;
  SACCADE_ASSIGN(snapshot.meta, store::read_meta(database));
  SACCADE_ASSIGN(const FileStamp catalog, file_stamp(folder / store::kCatalogName));
  snapshot.catalog_bytes = catalog.size;
  SACCADE_ASSIGN(snapshot.version, database.integer("PRAGMA user_version"));
  SACCADE_ASSIGN(const int64_t bytes, store::row_bytes(snapshot.meta, dim));
  const std::filesystem::path path = store::rows_path(folder, snapshot.meta.generation);
  SACCADE_ASSIGN(snapshot.file, MappedFile::open(path));
  if (static_cast<int64_t>(snapshot.file.bytes().size()) < bytes) {
    return fail(ErrorCode::kBadData, "{}: {} bytes, but the catalog's {} rows of {} columns are {}",
                path.string(), snapshot.file.bytes().size(), snapshot.meta.rows, dim, bytes);
  }
  snapshot.int8 = store::Int8Reader::open(folder, snapshot.meta.generation, snapshot.meta.rows, dim);
  auto approximate = open_approximate(
      folder, snapshot.meta.generation,
      {reinterpret_cast<const float*>(snapshot.file.bytes().data()), snapshot.meta.rows, dim});
  if (approximate) {
    snapshot.approximate = *std::move(approximate);
  } else if (approximate.error().code != ErrorCode::kNotFound) {
    snapshot.why_not_approximate = approximate.error().message;
  }
  if (info.settings.late) {
    SACCADE_ASSIGN(snapshot.late, store::LateReader::open(folder, snapshot.meta.generation,
                                                          snapshot.meta.rows, store::late_layout(info)));
  }
  snapshot.alive.resize(static_cast<size_t>(snapshot.meta.rows));
  snapshot.ids.resize(static_cast<size_t>(snapshot.meta.rows));
  // By the index of rows: the first and the last say whether all are in range.
  constexpr std::string_view kEnds[] = {"SELECT id, row FROM items ORDER BY row LIMIT 1",
                                        "SELECT id, row FROM items ORDER BY row DESC LIMIT 1"};
  for (const std::string_view sql : kEnds) {
    SACCADE_ASSIGN(Statement end, database.prepare(sql));
    SACCADE_ASSIGN(const bool any, end.step().in("catalog"));
    if (!any) return snapshot;
    const int64_t row = end.integer(1);
    if (row >= 0 && row < snapshot.meta.rows) continue;
    return fail(ErrorCode::kBadData, "catalog: item {} has row {}, but there are {} rows", end.integer(0),
                row, snapshot.meta.rows);
  }
  for (const std::string_view sql : {"SELECT min(id) FROM items", "SELECT max(id) FROM items"}) {
    SACCADE_ASSIGN(const int64_t id, database.integer(sql).in("catalog"));
    if (id >= 1 && id <= store::kMostId) continue;
    return fail(ErrorCode::kBadData, "catalog: an item has id {}, expected 1 to {}", id, store::kMostId);
  }
  snapshot.others = others_alike(folder, info, snapshot.meta);
  std::atomic<int64_t> items = 0;
  SACCADE_TRY(store::scan_parts(database, snapshot.others, snapshot.meta.rows,
                                [&](Database& connection, int64_t begin, int64_t end) -> Status {
                                  SACCADE_ASSIGN(const int64_t part,
                                                 read_rows(connection, begin, end, snapshot));
                                  items += part;
                                  return {};
                                }));
  snapshot.items = items;
  snapshot.last_id = *std::ranges::max_element(snapshot.ids);
  return snapshot;
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

FolderReader::FolderReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
FolderReader::FolderReader(FolderReader&&) noexcept = default;
FolderReader& FolderReader::operator=(FolderReader&&) noexcept = default;
FolderReader::~FolderReader() = default;

Result<FolderReader> FolderReader::open(const std::filesystem::path& folder) {
  const auto opened = [&]() -> Result<FolderReader> {
    const std::filesystem::path files = store::files_of(folder);
    SACCADE_ASSIGN(CollectionInfo info, store::read_info(files));
    SACCADE_ASSIGN(Database database, store::open_catalog(files, info, Database::Mode::kRead));
    auto state = std::make_unique<State>(folder, files, std::move(info), std::move(database));
    SACCADE_ASSIGN(state->snapshot, take_snapshot(state->database, files, state->info));
    return FolderReader(std::move(state));
  };
  return opened().in("open collection");
}

Result<FolderReader> FolderReader::of_items(MemoryItems content) {
  const auto made = [&]() -> Result<FolderReader> {
    SACCADE_ASSIGN(Database database, Database::in_memory());
    SACCADE_TRY(store::create_schema(database, content.info));
    const int64_t dim = content.info.checkpoint.dim;
    auto state =
        std::make_unique<State>(content.folder, content.folder, std::move(content.info), std::move(database));
    Snapshot& snapshot = state->snapshot;
    snapshot.own_rows.emplace(std::ssize(content.items), dim);
    SACCADE_TRY(store::fill_catalog(state->database, content.items));
    for (int64_t row = 0; row < std::ssize(content.items); ++row) {
      const WholeItem& whole = content.items[static_cast<size_t>(row)];
      if (std::ssize(whole.values) != dim) {
        return fail(ErrorCode::kBadData, "{}: a row of {} columns, expected {}", whole.item.path,
                    whole.values.size(), dim);
      }
      std::ranges::copy(whole.values, snapshot.own_rows->row(row).begin());
      snapshot.ids.push_back(whole.item.id);
      snapshot.last_id = std::max(snapshot.last_id, whole.item.id);
    }
    snapshot.alive.assign(content.items.size(), 1);
    snapshot.items = std::ssize(content.items);
    snapshot.meta.rows = snapshot.items;
    snapshot.version = store::kCatalogSchemaVersion;
    snapshot.words = std::move(content.words);
    return FolderReader(std::move(state));
  };
  return made().in("items in memory");
}

const std::filesystem::path& FolderReader::folder() const {
  return state_->folder;
}
const CollectionInfo& FolderReader::info() const {
  return state_->info;
}

MatrixView<const float> FolderReader::rows() const {
  if (state_->snapshot.own_rows) return state_->snapshot.own_rows->view();
  return {reinterpret_cast<const float*>(state_->snapshot.file.bytes().data()), state_->snapshot.meta.rows,
          state_->info.checkpoint.dim};
}

Int8Rows FolderReader::int8_rows() const {
  return state_->snapshot.int8.rows();
}

MatrixView<const float> FolderReader::sample() const {
  constexpr int64_t kSampleRows = 256;
  const std::lock_guard lock(state_->mutex);
  std::optional<Matrix<float>>& sample = state_->snapshot.sample;
  if (sample) return sample->view();
  const MatrixView<const float> all = rows();
  // Counted: in a damaged catalog two items may have one row.
  const int64_t items = std::ranges::count_if(alive(), [](uint8_t flag) { return flag != 0; });
  const int64_t count = std::min(kSampleRows, items);
  sample.emplace(count, all.columns());
  int64_t row = 0;
  int64_t before = 0;  // items of the rows before it
  for (int64_t s = 0; s < count; ++s) {
    const int64_t wanted = s * items / count;  // its number among the items, by row
    if (items == all.rows()) row = before = wanted;
    while (before < wanted || alive()[static_cast<size_t>(row)] == 0) {
      before += alive()[static_cast<size_t>(row++)] != 0 ? 1 : 0;
    }
    std::ranges::copy(all.row(row), sample->row(s).begin());
  }
  return sample->view();
}

const ApproximateIndex* FolderReader::approximate() const {
  return state_->snapshot.approximate.get();
}
const std::string& FolderReader::why_not_approximate() const {
  return state_->snapshot.why_not_approximate;
}
int64_t FolderReader::generation() const {
  return state_->snapshot.meta.generation;
}
const std::filesystem::path& FolderReader::files() const {
  return state_->files;
}

StoredRows FolderReader::late_rows(int64_t row) const {
  return state_->snapshot.late.of(row);
}

std::span<const uint8_t> FolderReader::alive() const {
  return state_->snapshot.alive;
}
std::span<const int64_t> FolderReader::ids() const {
  return state_->snapshot.ids;
}
int64_t FolderReader::item_count() const {
  return state_->snapshot.items;
}

Status FolderReader::check_files() const {
  if (state_->snapshot.own_rows) return {};
  const store::Meta& meta = state_->snapshot.meta;
  const auto check = [](const std::filesystem::path& path, int64_t bytes) -> Status {
    std::error_code error;
    const auto size = static_cast<int64_t>(std::filesystem::file_size(path, error));
    // One that `compact` has removed meanwhile lives on in what is mapped.
    if (error || size >= bytes) return {};
    return fail(ErrorCode::kBadData, "{}: cut off to {} bytes since it was opened, {} are needed",
                path.string(), size, bytes);
  };
  SACCADE_TRY(check(state_->files / store::kCatalogName, state_->snapshot.catalog_bytes));
  SACCADE_TRY(check(store::rows_path(state_->files, meta.generation),
                    meta.rows * state_->info.checkpoint.dim * static_cast<int64_t>(sizeof(float))));
  if (const Int8Rows int8 = int8_rows(); int8.count > 0) {
    SACCADE_TRY(
        check(store::int8_path(state_->files, meta.generation), store::int8_offset(int8.count, int8.dim)));
  }
  if (approximate() != nullptr) {
    // One that was built anew meanwhile is another file.
    const FileStamp& opened = approximate()->stamp;
    const std::filesystem::path path = approximate_path(state_->files, meta.generation);
    const auto now = file_stamp(path);
    if (now && now->inode == opened.inode && now->device == opened.device)
      SACCADE_TRY(check(path, opened.size));
  }
  if (!has_late_rows()) return {};
  SACCADE_TRY(check(store::late_ends_path(state_->files, meta.generation),
                    meta.rows * static_cast<int64_t>(sizeof(int64_t))));
  return check(store::late_rows_path(state_->files, meta.generation),
               state_->snapshot.late.stored_rows() * stored_row_bytes(store::late_layout(state_->info)));
}

Result<Item> FolderReader::item(int64_t id) const {
  return state_->one("id = ?", id, [&] { return fmt::format("id {}", id); });
}

Result<Item> FolderReader::item_of_row(int64_t row) const {
  return state_->one("row = ?", row, [&] { return fmt::format("row {}", row); });
}

Result<Item> FolderReader::item_of_path(const std::filesystem::path& path) const {
  return state_->one("path = ?", path.string(), [&] { return path.string(); });
}

Status FolderReader::for_each_item(const std::function<Status(const Item&)>& visit) const {
  const std::lock_guard lock(state_->mutex);
  SACCADE_ASSIGN(Statement statement, state_->database.prepare(fmt::format("SELECT {} FROM items ORDER BY id",
                                                                           store::kItemColumns)));
  return statement.for_each([&] { return visit(store::read_item(statement)); });
}

Status FolderReader::for_each_row(const RowVisitor& visit) const {
  SACCADE_TRY(check_files());
  std::vector<Item> items;
  SACCADE_TRY(for_each_item([&](const Item& item) {
    items.push_back(item);
    return Status{};
  }));
  for (const Item& item : items) {
    SACCADE_ASSIGN(const ItemFacts of_item, facts(item.id));
    SACCADE_TRY(visit(item, of_item, rows().row(item.row)));
  }
  return {};
}

Result<ItemFacts> FolderReader::facts(int64_t id) const {
  const std::lock_guard lock(state_->mutex);
  return store::find_facts(state_->database, id);
}

Status FolderReader::for_each_facts(
    const std::function<Status(int64_t id, const ItemFacts& facts)>& visit) const {
  const std::lock_guard lock(state_->mutex);
  SACCADE_ASSIGN(Statement statement, state_->database.prepare(fmt::format("SELECT {} FROM facts ORDER BY id",
                                                                           store::kFactsColumns)));
  return statement.for_each([&] { return visit(statement.integer(0), store::read_facts(statement)); });
}

Result<LookedAt> FolderReader::looked(int64_t most) const {
  const std::lock_guard lock(state_->mutex);
  SACCADE_ASSIGN(
      Statement statement,
      state_->database.prepare("SELECT grain FROM facts WHERE facts_read > 0 ORDER BY id LIMIT ?"));
  statement.bind(most);
  LookedAt looked;
  SACCADE_TRY(statement.for_each([&] {
    ++looked.pictures;
    looked.photographs += is_photograph(statement.real(0)) ? 1 : 0;
  }));
  return looked;
}

Result<std::vector<RemovedPicture>> FolderReader::removed() const {
  const std::lock_guard lock(state_->mutex);
  SACCADE_ASSIGN(Statement statement,
                 state_->database.prepare("SELECT path, hash FROM removed ORDER BY path"));
  std::vector<RemovedPicture> removed;
  SACCADE_TRY(statement.for_each([&] { removed.push_back({statement.text(0), statement.text(1)}); }));
  return removed;
}

Result<std::vector<uint8_t>> FolderReader::allowed(const Filter& filter) const {
  const std::lock_guard lock(state_->mutex);
  Snapshot& snapshot = state_->snapshot;
  if (snapshot.filtered && snapshot.filtered->sql == filter.sql && snapshot.filtered->values == filter.values)
    return snapshot.filtered->mask;
  // Metadata takes less time to read than items. It is enough if the filter says the same of all items without it: the mask
  // begins with that, and changes where the metadata says otherwise.
  const bool by_facts = filter.without_facts.has_value();
  const bool passes = filter.without_facts.value_or(false);
  std::vector<uint8_t> mask(snapshot.alive.size());
  if (passes) mask = snapshot.alive;
  const std::string_view tables = filter.facts_alone ? "facts"
                                  : by_facts         ? "facts CROSS JOIN items ON items.id = facts.id"
                                                     : filter_tables(filter.sql);
  const store::IdRows* by_id = filter.facts_alone ? &state_->by_id() : nullptr;
  SACCADE_TRY(store::scan_parts(
      state_->database, snapshot.others, snapshot.last_id + 1,
      [&](Database& connection, int64_t begin, int64_t end) -> Status {
        SACCADE_ASSIGN(Statement statement,
                       connection.prepare(fmt::format(
                           "SELECT {0} FROM {1} WHERE {2} >= {3} AND {2} < {4} AND {5} {6} ORDER BY {2}",
                           by_id != nullptr ? "facts.id" : "items.row", tables,
                           by_facts ? "facts.id" : "items.id", begin, end, passes ? "NOT" : "", filter.sql)));
        for (const SqlValue& value : filter.values) statement.bind(value);
        std::optional<store::IdRows::Walk> walk;
        if (by_id != nullptr) walk.emplace(*by_id);
        return statement.for_each([&] {
          int64_t row = statement.integer(0);  // in range: checked with the snapshot
          if (walk) {
            const store::IdRows::Entry* entry = walk->find(row);
            if (entry == nullptr) return;
            row = entry->row;
          }
          mask[static_cast<size_t>(row)] = passes ? 0 : 1;
        });
      }));
  snapshot.filtered = Filtered{filter.sql, filter.values, mask};
  return mask;
}

Result<WordMatches> FolderReader::match_words(std::span<const std::string> terms) const {
  std::vector<std::shared_ptr<const store::TermRows>> found;
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->snapshot.version < store::kWordsSince) {
      WordMatches none;
      none.reason = "the collection has no keyword index yet: the next `saccade index` makes it";
      return none;
    }
    for (const std::string& term : terms.first(std::min(terms.size(), store::kMostTerms))) {
      SACCADE_ASSIGN(found.emplace_back(), state_->terms()
                                               .rows_of(state_->database, state_->snapshot.others, term)
                                               .in("words of the catalog"));
    }
  }
  return store::weigh_words(terms, found, state_->snapshot.ids);
}

Result<std::vector<int64_t>> FolderReader::rows_with_words(std::span<const std::string> terms) const {
  const std::lock_guard lock(state_->mutex);
  std::vector<int64_t> rows;
  if (state_->snapshot.version < store::kWordsSince) return rows;
  for (const std::string& term : terms) {
    SACCADE_ASSIGN(const std::vector<int64_t> having,
                   state_->terms()
                       .all_rows_of(state_->database, state_->snapshot.others, term)
                       .in("words of the catalog"));
    rows.insert(rows.end(), having.begin(), having.end());
  }
  std::ranges::sort(rows);
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

Result<std::vector<uint8_t>> FolderReader::word_fields(int64_t id, std::span<const std::string> terms) const {
  const std::lock_guard lock(state_->mutex);
  return state_->terms().fields_of(state_->database, id, terms).in("words of the catalog");
}

Result<std::string> FolderReader::why_empty(const Filter& filter) const {
  const std::lock_guard lock(state_->mutex);
  Database& database = state_->database;
  const auto matches = [&](const std::string& sql, const std::vector<SqlValue>& values) -> Result<bool> {
    SACCADE_ASSIGN(Statement statement, database.prepare(fmt::format("SELECT 1 FROM {} WHERE {} LIMIT 1",
                                                                     filter_tables(sql), sql)));
    for (const SqlValue& value : values) statement.bind(value);
    return statement.step();
  };
  SACCADE_ASSIGN(const bool any, matches(filter.sql, filter.values));
  if (any) return std::string();
  if (state_->snapshot.items == 0) return std::string("the collection is empty");
  std::string why;
  for (const Filter::Condition& condition : filter.conditions) {
    SACCADE_ASSIGN(const bool met, matches(condition.sql, condition.values));
    if (met) continue;
    // Existing values: the most frequent ones of a text field, the minimum and maximum of a number.
    SACCADE_ASSIGN(Statement found,
                   database.prepare(fmt::format("SELECT min({0}), max({0}), typeof(max({0})) FROM {1}",
                                                condition.field, filter_tables(condition.field))));
    SACCADE_TRY(found.step());
    std::string here;
    if (found.is_null(1) || (found.text(2) == "text" && found.text(1).empty())) {
      here = "no image here has a value";
    } else if (found.text(2) == "text") {
      SACCADE_ASSIGN(
          Statement most,
          database.prepare(fmt::format(
              "SELECT {0}, count(*) FROM {1} WHERE {0} <> '' GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 3",
              condition.field, filter_tables(condition.field))));
      SACCADE_TRY(most.for_each([&] {
        std::string value = most.text(0);
        std::replace(value.begin(), value.end(), '\n', ' ');
        if (value.size() > 60) value = value.substr(0, 57) + "...";
        here += fmt::format("{}\"{}\" ({})", here.empty() ? "values here: " : ", ", value, most.integer(1));
      }));
    } else if (condition.field.find("taken") != std::string::npos || condition.field == "added") {
      here = fmt::format("values here: {} to {}", store::utc_text(found.integer(0)).substr(0, 10),
                         store::utc_text(found.integer(1)).substr(0, 10));
    } else {
      here = fmt::format("values here: {} to {}", found.text(0), found.text(1));
    }
    why += fmt::format("{}no image meets {} ({})", why.empty() ? "" : "; ", condition.text, here);
  }
  if (why.empty()) why = "each condition is met by some image, all of them together by none";
  return why;
}

Result<std::vector<FieldValue>> FolderReader::values_of(std::string_view field, int64_t most) const {
  const auto column = text_field(field);
  if (!column) return fail(ErrorCode::kUsage, "\"{}\" is no field of text", field);
  const std::lock_guard lock(state_->mutex);
  SACCADE_ASSIGN(Statement statement,
                 state_->database.prepare(
                     fmt::format("SELECT {}, count(*) FROM {} GROUP BY 1", *column, filter_tables(*column))));
  // Keywords stand several in a value.
  std::map<std::string, int64_t> counts;
  SACCADE_TRY(statement.for_each([&] {
    const std::string value = statement.text(0);
    for (size_t begin = 0; begin < value.size();) {
      const size_t end = std::min(field == "keyword" ? value.find('\n', begin) : value.size(), value.size());
      if (end > begin) counts[value.substr(begin, end - begin)] += statement.integer(1);
      begin = end + 1;
    }
  }));
  std::vector<FieldValue> values;
  for (auto& [value, items] : counts) values.push_back({value, items});
  std::stable_sort(values.begin(), values.end(),
                   [](const auto& a, const auto& b) { return a.items > b.items; });
  if (static_cast<int64_t>(values.size()) > most) values.resize(static_cast<size_t>(most));
  return values;
}

Result<CollectionSummary> FolderReader::summary() const {
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
  SACCADE_ASSIGN(summary.looked_at, database.integer("SELECT count(*) FROM facts WHERE facts_read > 0"));
  SACCADE_ASSIGN(summary.photographs,
                 database.integer(fmt::format(
                     "SELECT count(*) FROM facts WHERE facts_read > 0 AND grain >= {}", kPhotographGrain)));
  SACCADE_ASSIGN(summary.removed, database.integer("SELECT count(*) FROM removed"));
  SACCADE_ASSIGN(
      summary.without_files,
      database.integer(fmt::format("SELECT count(*) FROM items WHERE linked = {}", store::kElsewhere)));
  SACCADE_ASSIGN(summary.distinct_contents,
                 database.integer("SELECT count(DISTINCT nullif(hash, '')) + "
                                  "(SELECT count(*) FROM items WHERE hash = '') FROM items"));
  SACCADE_ASSIGN(summary.file_bytes,
                 database.integer(fmt::format("SELECT coalesce(sum(size), 0) FROM (SELECT DISTINCT size, {} "
                                              "FROM items WHERE linked <> {})",
                                              kItemFile, store::kElsewhere)));
  for (const std::string_view ending : {"", "-wal"}) {
    std::error_code error;
    const auto path = (state_->files / store::kCatalogName).string().append(ending);
    const auto size = std::filesystem::file_size(path, error);
    if (!error) summary.catalog_bytes += static_cast<int64_t>(size);
  }
  SACCADE_ASSIGN(Statement formats, database.prepare("SELECT format, count(*) FROM items GROUP BY format"));
  SACCADE_TRY(formats.for_each([&] { summary.formats[formats.text(0)] = formats.integer(1); }));
  return summary;
}

Result<std::vector<Failure>> FolderReader::failures() const {
  const std::lock_guard lock(state_->mutex);
  SACCADE_ASSIGN(Statement statement, state_->database.prepare(fmt::format(
                                          "SELECT {} FROM failures ORDER BY path", store::kFailureColumns)));
  std::vector<Failure> failures;
  SACCADE_TRY(statement.for_each([&] { failures.push_back(store::read_failure(statement)); }));
  return failures;
}

Status FolderReader::refresh() {
  if (state_->snapshot.own_rows) return {};
  const std::lock_guard lock(state_->mutex);
  // A second connection first: if anything fails, the old snapshot is as it was.
  std::filesystem::path files = store::files_of(state_->folder);
  SACCADE_ASSIGN(Database database,
                 store::open_catalog(files, state_->info, Database::Mode::kRead).in("refresh collection"));
  SACCADE_ASSIGN(Snapshot snapshot, take_snapshot(database, files, state_->info));
  state_->files = std::move(files);
  state_->database = std::move(database);
  state_->snapshot = std::move(snapshot);
  return {};
}

}  // namespace saccade
