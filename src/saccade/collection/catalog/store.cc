#include "saccade/collection/catalog/store.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <ctime>

#include <fmt/chrono.h>

#include "saccade/collection/catalog/words/word_index.h"
#include "saccade/core/ascii.h"
#include "saccade/core/files/files.h"
#include "saccade/core/json.h"
#include "saccade/core/name_field.h"
#include "saccade/image/frame_name.h"
#include "saccade/model/options/precision_names.h"

namespace saccade::store {
namespace {

constexpr int64_t kMaxDim = 65'536;
constexpr std::string_view kGridMean = "grid_mean";

struct SchemaObject {
  std::string_view name;
  std::string_view sql;                   // as sqlite_schema keeps it
  int64_t since = 1;                      // the schema's version that brought it
  int64_t until = kCatalogSchemaVersion;  // the last version that has it so

  [[nodiscard]] constexpr bool in(int64_t version) const { return since <= version && version <= until; }
};

// Columns that schema version 4 added to `items`. SQLite keeps the text of a table that was altered so as if it
// had been created with them.
constexpr std::array<std::string_view, 4> kFileColumns = {
    "device INTEGER NOT NULL DEFAULT 0", "inode INTEGER NOT NULL DEFAULT 0",
    "folder_device INTEGER NOT NULL DEFAULT 0", "linked INTEGER NOT NULL DEFAULT 0"};

// AUTOINCREMENT: an id that was given once never comes back for another picture.
constexpr std::array kSchema = {
    SchemaObject{"meta", "CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID"},
    SchemaObject{
        "items",
        "CREATE TABLE items (id INTEGER PRIMARY KEY AUTOINCREMENT, row INTEGER NOT NULL UNIQUE, "
        "path TEXT NOT NULL UNIQUE, hash TEXT NOT NULL, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, "
        "width INTEGER NOT NULL, height INTEGER NOT NULL, format TEXT NOT NULL, caption TEXT NOT NULL, "
        "added INTEGER NOT NULL) STRICT",
        1, kFilesSince - 1},
    SchemaObject{
        "items",
        "CREATE TABLE items (id INTEGER PRIMARY KEY AUTOINCREMENT, row INTEGER NOT NULL UNIQUE, "
        "path TEXT NOT NULL UNIQUE, hash TEXT NOT NULL, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, "
        "width INTEGER NOT NULL, height INTEGER NOT NULL, format TEXT NOT NULL, caption TEXT NOT NULL, "
        "added INTEGER NOT NULL, device INTEGER NOT NULL DEFAULT 0, inode INTEGER NOT NULL DEFAULT 0, "
        "folder_device INTEGER NOT NULL DEFAULT 0, linked INTEGER NOT NULL DEFAULT 0) STRICT",
        kFilesSince},
    SchemaObject{"items_hash", "CREATE INDEX items_hash ON items (hash)"},
    SchemaObject{"failures",
                 "CREATE TABLE failures (path TEXT PRIMARY KEY, code TEXT NOT NULL, reason TEXT NOT NULL, "
                 "size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, failed_at INTEGER NOT NULL, "
                 "tries INTEGER NOT NULL) STRICT, WITHOUT ROWID"},
    SchemaObject{"words", kWordIndexSql, kWordsSince},
    // Image metadata, and the removed images that must stay out.
    SchemaObject{
        "facts",
        "CREATE TABLE facts (id INTEGER PRIMARY KEY, taken INTEGER, zone_minutes INTEGER, camera TEXT NOT NULL, "
        "lens TEXT NOT NULL, latitude REAL, longitude REAL, rating INTEGER, title TEXT NOT NULL, "
        "description TEXT NOT NULL, keywords TEXT NOT NULL, place TEXT NOT NULL, caption TEXT NOT NULL, "
        "look INTEGER NOT NULL, grain REAL NOT NULL, facts_read INTEGER NOT NULL) STRICT",
        kFactsSince},
    SchemaObject{"removed",
                 "CREATE TABLE removed (path TEXT PRIMARY KEY, hash TEXT NOT NULL) STRICT, WITHOUT ROWID",
                 kFactsSince},
    SchemaObject{"removed_hash", "CREATE INDEX removed_hash ON removed (hash)", kFactsSince},
};

Result<LateSettings> parse_late(const Json& json) {
  LateSettings late;
  SACCADE_ASSIGN(late.precision, name_field<RowPrecision>(json, "precision"));
  SACCADE_ASSIGN(const std::string pooling, json_field<std::string>(json, "pooling"));
  if (pooling != kGridMean) {
    return fail(ErrorCode::kUnsupported, "\"pooling\" is \"{}\", this program knows {}", pooling, kGridMean);
  }
  SACCADE_ASSIGN(late.pool, json_field<int64_t>(json, "pool"));
  if (late.pool < 1 || late.pool > kMaxPool) {
    return fail(ErrorCode::kBadData, "\"pool\" is {}, expected 1 to {}", late.pool, kMaxPool);
  }
  SACCADE_ASSIGN(late.grid.rows, json_field<int64_t>(json, "grid_rows"));
  SACCADE_ASSIGN(late.grid.columns, json_field<int64_t>(json, "grid_columns"));
  constexpr int64_t kMaxSide = 65'536;
  for (const int64_t side : {late.grid.rows, late.grid.columns}) {
    if (side < 0 || side > kMaxSide) return fail(ErrorCode::kBadData, "a grid {} patches long", side);
  }
  return late;
}

Result<CollectionInfo> parse_info(const Json& json) {
  SACCADE_ASSIGN(const std::string format, json_field<std::string>(json, "format"));
  if (format != "saccade collection") {
    return fail(ErrorCode::kBadData, "\"format\" is \"{}\", expected \"saccade collection\"", format);
  }
  CollectionInfo info;
  SACCADE_ASSIGN(info.format_version, json_field<int64_t>(json, "format_version"));
  if (info.format_version < 1) return fail(ErrorCode::kBadData, "format version {}", info.format_version);
  if (info.format_version > kCollectionFormatVersion) {
    return fail(ErrorCode::kUnsupported, "format version {}, this program reads up to {}",
                info.format_version, kCollectionFormatVersion);
  }
  SACCADE_ASSIGN(info.product_version, json_field<std::string>(json, "product_version"));
  SACCADE_ASSIGN(info.created, json_field<std::string>(json, "created"));
  SACCADE_ASSIGN(info.copy_of, json_field_or<std::string>(json, "copy_of", ""));
  if (!json.contains("checkpoint")) return fail(ErrorCode::kBadData, "\"checkpoint\" is missing");
  const Json& checkpoint = json["checkpoint"];
  SACCADE_ASSIGN(info.checkpoint.name, json_field<std::string>(checkpoint, "name"));
  SACCADE_ASSIGN(info.checkpoint.path, json_field<std::string>(checkpoint, "path"));
  SACCADE_ASSIGN(info.checkpoint.fingerprint, json_field<std::string>(checkpoint, "fingerprint"));
  SACCADE_ASSIGN(info.checkpoint.dim, json_field<int64_t>(checkpoint, "dim"));
  if (info.checkpoint.dim < 1 || info.checkpoint.dim > kMaxDim) {
    return fail(ErrorCode::kBadData, "\"dim\" is {}, expected 1 to {}", info.checkpoint.dim, kMaxDim);
  }
  if (!json.contains("settings")) return fail(ErrorCode::kBadData, "\"settings\" is missing");
  SACCADE_ASSIGN(info.settings, settings_of_json(json["settings"]));
  return info;
}

// True for a table that an older version has too, with fewer columns.
bool alters(const SchemaObject& object) {
  return std::ranges::any_of(kSchema, [&](const SchemaObject& older) {
    return older.name == object.name && older.until < object.since;
  });
}

// Returns true for a table that FTS5 maintains for the word index. Its columns are not compared: they differ
// between SQLite versions. An untrusted schema runs nothing in such a table.
bool is_word_table(std::string_view type, std::string_view name) {
  return type == "table" && std::ranges::find(kWordIndexTables, name) != std::end(kWordIndexTables);
}

Status check_schema_objects(Database& database, int64_t version) {
  SACCADE_ASSIGN(
      Statement statement,
      database.prepare("SELECT name, sql, type FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' "
                       "ESCAPE '\\'"));
  size_t found = 0;
  const auto check = [&]() -> Status {
    const std::string name = statement.text(0);
    if (version >= kWordsSince && is_word_table(statement.text(2), name)) return {};
    bool known = false;
    for (const SchemaObject& object : kSchema) {
      known = known || (object.in(version) && object.name == name && object.sql == statement.text(1));
    }
    if (!known) return fail(ErrorCode::kBadData, "\"{}\" is not as this schema version has it", name);
    ++found;
    return {};
  };
  SACCADE_TRY(statement.for_each(check));
  const auto expected = static_cast<size_t>(
      std::ranges::count_if(kSchema, [&](const SchemaObject& object) { return object.in(version); }));
  if (found != expected) {
    return fail(ErrorCode::kBadData, "{} of {} tables and indexes are there", found, expected);
  }
  return {};
}

// Creates the tables that a version added, and fills them from the existing ones.
Status migrate_to(Database& database, int64_t version) {
  for (const SchemaObject& object : kSchema) {
    if (object.since == version && !alters(object)) SACCADE_TRY(database.execute(std::string(object.sql)));
  }
  if (version == kFilesSince) {
    for (const std::string_view column : kFileColumns)
      SACCADE_TRY(database.execute(fmt::format("ALTER TABLE items ADD COLUMN {}", column)));
  }
  if (version == kWordsSince) SACCADE_TRY(fill_word_index(database));
  return database.execute(fmt::format("PRAGMA user_version = {}", version));
}

// A catalog of an older version becomes one of the newest, all at once or not at all.
Status migrate(Database& database) {
  SACCADE_ASSIGN(const int64_t version, database.integer("PRAGMA user_version"));
  if (version == kCatalogSchemaVersion) return {};
  SACCADE_ASSIGN(Transaction transaction, Transaction::begin(database));
  for (int64_t next = version + 1; next <= kCatalogSchemaVersion; ++next) {
    SACCADE_TRY(migrate_to(database, next).in(fmt::format("to schema version {}", next)));
  }
  return transaction.commit();
}

// A reader changes nothing: what an older catalog has not got stands beside it,
// empty, for this connection alone.
Status stand_in_for_missing(Database& database, int64_t version) {
  SACCADE_TRY(database.execute("PRAGMA temp_store = MEMORY; PRAGMA query_only = OFF"));
  for (const SchemaObject& object : kSchema) {
    constexpr std::string_view kCreate = "CREATE TABLE ";
    if (object.since <= version || alters(object) || !object.sql.starts_with(kCreate)) continue;
    SACCADE_TRY(database.execute("CREATE TEMP TABLE " + std::string(object.sql.substr(kCreate.size()))));
  }
  if (version < kFilesSince) {
    // A temporary name hides that of the catalog, and a view over one table is planned as the table.
    SACCADE_TRY(database.execute(
        "CREATE TEMP VIEW items AS SELECT *, 0 AS device, 0 AS inode, 0 AS folder_device, 0 AS linked "
        "FROM main.items"));
  }
  return database.execute("PRAGMA query_only = ON");
}

Result<int64_t> check_schema_inner(Database& database, const CollectionInfo& info) {
  SACCADE_ASSIGN(const int64_t application, database.integer("PRAGMA application_id"));
  SACCADE_ASSIGN(const int64_t version, database.integer("PRAGMA user_version"));
  if (application != kApplicationId) return fail(ErrorCode::kBadData, "a database of another program");
  if (version > kCatalogSchemaVersion) {
    return fail(ErrorCode::kUnsupported, "schema version {}, this program reads up to {}", version,
                kCatalogSchemaVersion);
  }
  if (version < 1) return fail(ErrorCode::kBadData, "schema version {}", version);
  SACCADE_TRY(check_schema_objects(database, version));
  SACCADE_ASSIGN(const std::string fingerprint,
                 database.text("SELECT value FROM meta WHERE key = 'fingerprint'"));
  SACCADE_ASSIGN(const int64_t dim, database.integer("SELECT value FROM meta WHERE key = 'dim'"));
  if (fingerprint != info.checkpoint.fingerprint || dim != info.checkpoint.dim) {
    return fail(ErrorCode::kMismatch,
                "made for fingerprint {:.12} ({} columns), but {} says {:.12} ({} columns)", fingerprint, dim,
                kInfoName, info.checkpoint.fingerprint, info.checkpoint.dim);
  }
  return version;
}

// Checks that this is a Saccade catalog of a supported version and belongs to `info`. It must hold only our
// tables: triggers and views are refused, since a foreign file must not run anything. Returns its version.
// Errors begin with "catalog: ".
Result<int64_t> check_schema(Database& database, const CollectionInfo& info) {
  return check_schema_inner(database, info).in("catalog");
}

}  // namespace

std::filesystem::path files_of(const std::filesystem::path& folder) {
  std::error_code error;
  const std::filesystem::path resolved = std::filesystem::canonical(folder, error);
  if (error) return folder;  // opening it says why
  return resolved == std::filesystem::absolute(folder, error).lexically_normal() ? folder : resolved;
}

std::filesystem::path rows_path(const std::filesystem::path& folder, int64_t generation) {
  return folder / fmt::format("rows-{}.f32", generation);
}

int64_t generation_of(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"rows-", ".f32"}, {"late-", ".rows"}, {"late-", ".ends"}, {"rows-", ".i8"}, {"rows-", ".lists"}};
  for (const auto& [prefix, suffix] : kNames) {
    if (!name.starts_with(prefix) || !name.ends_with(suffix)) continue;
    if (name.size() <= prefix.size() + suffix.size()) continue;
    const auto digits = name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
    int64_t generation = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), generation);
    if (error == std::errc() && end == digits.data() + digits.size() && generation > 0) return generation;
  }
  return 0;
}

Result<CollectionInfo> read_info(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kInfoName;
  std::error_code error;
  const bool there = std::filesystem::exists(path, error);
  if (error) return fail_errno(error.value(), path.string());
  if (!there) {
    return fail(ErrorCode::kNotFound, "{}: no collection here ({} is missing)", folder.string(), kInfoName);
  }
  SACCADE_ASSIGN(const Json json, read_json(path, int64_t{1} << 20));
  return parse_info(json).in(path.string());
}

Result<IngestSettings> settings_of_json(const Json& settings) {
  IngestSettings made;
  SACCADE_ASSIGN(made.apply_orientation, json_field<bool>(settings, "apply_orientation"));
  SACCADE_ASSIGN(made.fast_decode, json_field_or<bool>(settings, "fast_decode", false));
  SACCADE_ASSIGN(made.background, name_field<BackgroundPolicy>(settings, "background"));
  SACCADE_ASSIGN(made.convert_to_srgb, json_field_or<bool>(settings, "convert_to_srgb", false));
  // Collections made before there were any have none of their own opinion.
  if (settings.contains("int8_rows")) {
    SACCADE_ASSIGN(made.int8_rows, name_field<Int8Policy>(settings, "int8_rows"));
  }
  // Collections from before it was kept say nothing.
  SACCADE_ASSIGN(const std::string precision, json_field_or<std::string>(settings, "precision", "fp32"));
  const auto known = from_name<Precision>(precision);
  if (!known) {
    return fail(ErrorCode::kUnsupported, "\"precision\" is \"{}\", this program knows fp32, bf16 and int8",
                precision);
  }
  made.precision = *known;
  if (settings.contains("late")) {
    SACCADE_ASSIGN(made.late, parse_late(settings["late"]).in("late"));
  }
  return made;
}

Result<CollectionInfo> info_of_json(const Json& json) {
  return parse_info(json);
}

Json settings_json(const IngestSettings& settings) {
  Json json = {
      {"apply_orientation", settings.apply_orientation}, {"convert_to_srgb", settings.convert_to_srgb},
      {"background", enum_name(settings.background)},    {"fast_decode", settings.fast_decode},
      {"int8_rows", enum_name(settings.int8_rows)},      {"precision", enum_name(settings.precision)}};
  if (const auto& late = settings.late) {
    json["late"] = {{"precision", enum_name(late->precision)},
                    {"pooling", kGridMean},
                    {"pool", late->pool},
                    {"grid_rows", late->grid.rows},
                    {"grid_columns", late->grid.columns}};
  }
  return json;
}

Json info_json(const CollectionInfo& info) {
  Json json = {{"format", "saccade collection"},
               {"format_version", info.format_version},
               {"product_version", info.product_version},
               {"created", info.created},
               {"checkpoint",
                {{"name", info.checkpoint.name},
                 {"path", info.checkpoint.path},
                 {"fingerprint", info.checkpoint.fingerprint},
                 {"dim", info.checkpoint.dim}}},
               {"settings", settings_json(info.settings)}};
  if (!info.copy_of.empty()) json["copy_of"] = info.copy_of;
  return json;
}

Status write_info(const std::filesystem::path& folder, const CollectionInfo& info) {
  return write_file_atomic(folder / kInfoName, dump_json(info_json(info), 2) + "\n");
}

Status create_schema(Database& database, const CollectionInfo& info) {
  SACCADE_TRY(database.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL"));
  SACCADE_ASSIGN(Transaction transaction, Transaction::begin(database));
  SACCADE_TRY(database.execute(fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}",
                                           kApplicationId, kCatalogSchemaVersion)));
  for (const SchemaObject& object : kSchema) {
    if (object.in(kCatalogSchemaVersion)) SACCADE_TRY(database.execute(std::string(object.sql)));
  }
  SACCADE_ASSIGN(Statement insert,
                 database.prepare("INSERT INTO meta VALUES ('fingerprint', ?), ('dim', ?)"));
  insert.bind(std::string_view(info.checkpoint.fingerprint)).bind(info.checkpoint.dim);
  SACCADE_TRY(insert.run());
  SACCADE_TRY(write_meta(database, Meta{}));
  return transaction.commit();
}

Status fill_catalog(Database& database, std::span<const WholeItem> items) {
  SACCADE_ASSIGN(Transaction transaction, Transaction::begin(database));
  SACCADE_ASSIGN(
      Statement add,
      database.prepare("INSERT INTO items (path, hash, size, mtime_ns, width, height, format, caption, "
                       "added, device, inode, folder_device, linked, row, id) "
                       "VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"));
  SACCADE_ASSIGN(Statement add_facts,
                 database.prepare(fmt::format("INSERT INTO facts ({}) VALUES "
                                              "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                                              kFactsColumns)));
  SACCADE_ASSIGN(WordWriter words, WordWriter::make(database));
  int64_t row = 0;
  for (const WholeItem& whole : items) {
    bind_fields(add, whole.item);
    SACCADE_TRY(add.bind(row++).bind(whole.item.id).run().in(whole.item.path));
    bind_facts(add_facts, whole.item.id, whole.facts);
    SACCADE_TRY(add_facts.run());
    SACCADE_TRY(words.add(whole.item.id, whole.item.path, whole.item.caption));
  }
  SACCADE_TRY(write_meta(database, Meta{std::ssize(items), 1}));
  return transaction.commit();
}

Result<Meta> read_meta(Database& database) {
  Meta meta;
  SACCADE_ASSIGN(meta.rows, database.integer("SELECT value FROM meta WHERE key = 'rows'").in("catalog"));
  SACCADE_ASSIGN(meta.generation,
                 database.integer("SELECT value FROM meta WHERE key = 'generation'").in("catalog"));
  SACCADE_ASSIGN(
      meta.changes,
      database.integer("SELECT coalesce((SELECT value FROM meta WHERE key = 'changes'), 0)").in("catalog"));
  if (meta.rows < 0 || meta.generation < 1) {
    return fail(ErrorCode::kBadData, "catalog: {} rows in generation {}", meta.rows, meta.generation);
  }
  return meta;
}

Status write_meta(Database& database, const Meta& meta) {
  SACCADE_ASSIGN(
      Statement insert,
      database.prepare("INSERT OR REPLACE INTO meta VALUES ('rows', ?), ('generation', ?), ('changes', "
                       "1 + coalesce((SELECT value FROM meta WHERE key = 'changes'), 0))"));
  return insert.bind(meta.rows).bind(meta.generation).run();
}

Result<Database> open_catalog(const std::filesystem::path& folder, const CollectionInfo& info,
                              Database::Mode mode) {
  SACCADE_ASSIGN(Database database, Database::open(folder / kCatalogName, mode).in("catalog"));
  SACCADE_ASSIGN(const int64_t version, check_schema(database, info).in(folder.string()));
  if (mode == Database::Mode::kWrite) {
    // Memory for pages, in KiB, taken as it is needed: an import writes all over the index of hashes.
    SACCADE_TRY(database.execute("PRAGMA synchronous = FULL; PRAGMA cache_size = -131072").in("catalog"));
    SACCADE_TRY(migrate(database).in(folder.string() + ": catalog"));
  } else if (version < kCatalogSchemaVersion) {
    SACCADE_TRY(stand_in_for_missing(database, version).in("catalog"));
  }
  return database;
}

Result<int64_t> row_bytes(const Meta& meta, int64_t dim) {
  int64_t bytes = 0;
  if (__builtin_mul_overflow(meta.rows, dim * static_cast<int64_t>(sizeof(float)), &bytes)) {
    return fail(ErrorCode::kBadData, "catalog: {} rows of {} columns", meta.rows, dim);
  }
  return bytes;
}

RowLayout late_layout(const CollectionInfo& info) {
  return {info.settings.late->precision, info.checkpoint.dim};
}

ItemFacts read_facts(const Statement& statement) {
  ItemFacts facts;
  PictureFacts& picture = facts.picture;
  if (!statement.is_null(1) && is_plausible_time(statement.integer(1))) picture.taken = statement.integer(1);
  if (!statement.is_null(2)) picture.zone_minutes = static_cast<int>(statement.integer(2));
  picture.camera = statement.text(3);
  picture.lens = statement.text(4);
  if (!statement.is_null(5)) picture.latitude = statement.real(5);
  if (!statement.is_null(6)) picture.longitude = statement.real(6);
  if (!statement.is_null(7)) picture.rating = static_cast<int>(statement.integer(7));
  picture.title = statement.text(8);
  picture.description = statement.text(9);
  const std::string kept = statement.text(10);
  const std::string_view keywords = std::string_view(kept).substr(kept.starts_with('\n') ? 1 : 0);
  for (const std::string_view keyword : Lines(keywords)) picture.keywords.emplace_back(keyword);
  facts.place = statement.text(11);
  facts.caption = statement.text(12);
  facts.look = static_cast<uint64_t>(statement.integer(13));
  facts.grain = statement.real(14);
  const auto read = static_cast<FactsRead>(statement.integer(15));
  if (std::ranges::find(enum_names(read), read, &EnumName<FactsRead>::value) != enum_names(read).end())
    facts.read = read;
  return facts;
}

void bind_facts(Statement& statement, int64_t id, const ItemFacts& facts) {
  const PictureFacts& picture = facts.picture;
  std::string keywords;
  for (const std::string& keyword : picture.keywords)
    keywords += (keywords.empty() ? "\n" : "") + keyword + "\n";
  std::optional<int64_t> zone;
  if (picture.zone_minutes) zone = *picture.zone_minutes;
  std::optional<int64_t> rating;
  if (picture.rating) rating = *picture.rating;
  statement.bind(id)
      .bind(picture.taken)
      .bind(zone)
      .bind(std::string_view(picture.camera))
      .bind(std::string_view(picture.lens))
      .bind(picture.latitude)
      .bind(picture.longitude)
      .bind(rating)
      .bind(std::string_view(picture.title))
      .bind(std::string_view(picture.description))
      .bind(std::string_view(keywords))
      .bind(std::string_view(facts.place))
      .bind(std::string_view(facts.caption))
      .bind(static_cast<int64_t>(facts.look))
      .bind(facts.grain)
      .bind(static_cast<int64_t>(facts.read));
}

Result<ItemFacts> find_facts(Database& database, int64_t id) {
  static const std::string sql = fmt::format("SELECT {} FROM facts WHERE id = ?", kFactsColumns);
  SACCADE_ASSIGN(const KeptStatement statement, database.kept(sql));
  SACCADE_ASSIGN(const bool row, statement->bind(id).step());
  return row ? read_facts(*statement) : ItemFacts{};
}

Item read_item(const Statement& statement) {
  Item item;
  item.id = statement.integer(0);
  item.row = statement.integer(1);
  item.path = statement.text(2);
  item.hash = statement.text(3);
  item.size = statement.integer(4);
  item.mtime_ns = statement.integer(5);
  item.width = statement.integer(6);
  item.height = statement.integer(7);
  item.format = statement.text(8);
  item.caption = statement.text(9);
  item.added = statement.integer(10);
  item.file = {statement.integer(11), statement.integer(12), statement.integer(13),
               statement.integer(14) == 1, statement.integer(14) == kElsewhere};
  return item;
}

Failure read_failure(const Statement& statement) {
  Failure failure;
  failure.path = statement.text(0);
  failure.code = error_code_of(statement.text(1));
  failure.reason = statement.text(2);
  failure.size = statement.integer(3);
  failure.mtime_ns = statement.integer(4);
  failure.when = statement.integer(5);
  failure.tries = statement.integer(6);
  return failure;
}

void bind_identity(Statement& statement, const FileIdentity& file) {
  statement.bind(file.device)
      .bind(file.inode)
      .bind(file.folder_device)
      .bind(file.elsewhere ? kElsewhere : static_cast<int64_t>(file.linked));
}

void bind_fields(Statement& statement, const Item& item) {
  statement.bind(std::string_view(item.path))
      .bind(std::string_view(item.hash))
      .bind(item.size)
      .bind(item.mtime_ns)
      .bind(item.width)
      .bind(item.height)
      .bind(std::string_view(item.format))
      .bind(std::string_view(item.caption))
      .bind(item.added);
  bind_identity(statement, item.file);
}

Filter under(std::string_view path) {
  // Below a folder "f" are the paths from "f/" up to, not including, "f0": '0' follows '/' in ASCII. Unlike a
  // glob this takes any name as it is, and uses the index.
  std::string first(path);
  if (!first.ends_with('/')) first += '/';
  std::string last = first;
  last.back() = '0';
  Filter filter{"(path = ? OR (path >= ? AND path < ?))", {std::string(path), first, last}};
  if (has_video_extension(std::string(path))) {
    // Its frames (image/frame_name.h), from "f#t=" up to "f#t>".
    filter.sql = "(path = ? OR (path >= ? AND path < ?) OR (path >= ? AND path < ?))";
    filter.values.emplace_back(std::string(path) + "#t=");
    filter.values.emplace_back(std::string(path) + "#t>");
  }
  return filter;
}

int64_t now_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string local_text(int64_t taken) {
  constexpr std::time_t kFirst = -62'167'219'200;  // 0000-01-01
  constexpr std::time_t kLast = 253'402'300'799;   // 9999-12-31T23:59:59
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}",
                     fmt::gmtime(std::clamp(static_cast<std::time_t>(taken), kFirst, kLast)));
}

std::string utc_text(int64_t seconds) {
  return local_text(seconds) + "Z";
}

std::string utc_now() {
  const auto now = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:06}Z", fmt::gmtime(static_cast<std::time_t>(seconds.count())),
                     (now - seconds).count());
}

}  // namespace saccade::store

namespace saccade {

std::span<const EnumName<BackgroundPolicy>> enum_names(BackgroundPolicy) {
  static constexpr EnumName<BackgroundPolicy> kWords[] = {{BackgroundPolicy::kByContrast, "by_contrast"},
                                                          {BackgroundPolicy::kByContrast, "contrast"},
                                                          {BackgroundPolicy::kWhite, "white"},
                                                          {BackgroundPolicy::kCheckpoint, "checkpoint"}};
  return kWords;
}

}  // namespace saccade
