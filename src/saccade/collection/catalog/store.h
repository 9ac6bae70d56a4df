// The collection folder's layout, shared by reader, writer and verify; not for use outside this module.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "saccade/collection/catalog/catalog.h"
#include "saccade/collection/catalog/item_facts.h"
#include "saccade/collection/catalog/item_store.h"
#include "saccade/collection/catalog/sqlite.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"

namespace saccade::store {

// The newest version of catalog.sqlite that this program reads and writes, kept in the file's user_version.
// Older ones are read as they are, and become of this version when they are next opened for writing: a step a
// version (migrate_to), in one transaction.
inline constexpr int64_t kCatalogSchemaVersion = 4;
inline constexpr int64_t kWordsSince = 2;  // words of captions, names and folders (word_index.h)
inline constexpr int64_t kFactsSince =
    3;  // what pictures say of themselves, and what is to stay out (item_facts.h)
inline constexpr int64_t kFilesSince = 4;  // device and inode of each item's file
inline constexpr std::string_view kInfoName = "collection.json";
inline constexpr std::string_view kCatalogName = "catalog.sqlite";
// "SACC" in the catalog's header (https://www.sqlite.org/fileformat.html, offset 68): another program's
// database is not taken for one.
inline constexpr int64_t kApplicationId = 0x53414343;
inline constexpr std::string_view kLockName = "lock";
// Number of times that a reader tries to open the rows file named by the catalog. Each concurrent `compact`
// may delete one.
inline constexpr int kSnapshotTries = 5;

// Largest id of an item that is read. Ids count up from 1, or from those of a Weaviate class, which are below 2^53. Scans
// divide the range of ids, and so need room above it.
inline constexpr int64_t kMostId = int64_t{1} << 60;

// Returns the folder that `folder` leads to now. A link on the way may be switched to another collection at any time, and
// what was opened before belongs to the first.
std::filesystem::path files_of(const std::filesystem::path& folder);

std::filesystem::path rows_path(const std::filesystem::path& folder, int64_t generation);
// The generation of a name as rows_path and those of late_file.h, int8_file.h and approximate_index.h make them, or 0.
int64_t generation_of(std::string_view name);

Result<CollectionInfo> read_info(const std::filesystem::path& folder);
Status write_info(const std::filesystem::path& folder, const CollectionInfo& info);
// The content of collection.json.
Result<CollectionInfo> info_of_json(const Json& json);
Json info_json(const CollectionInfo& info);
// The object "settings" in it.
Result<IngestSettings> settings_of_json(const Json& settings);
Json settings_json(const IngestSettings& settings);

// Content of the catalog's `meta` table.
struct Meta {
  int64_t rows = 0;        // committed in the rows file
  int64_t generation = 1;  // of the rows file
  // Number of commits, so that readers can tell whether they see the same; 0 if no program has counted them.
  int64_t changes = 0;
  friend bool operator==(const Meta&, const Meta&) = default;
};

Status create_schema(Database& database, const CollectionInfo& info);
Result<Meta> read_meta(Database& database);
// Writes rows and generation, and counts a change.
Status write_meta(Database& database, const Meta& meta);

// Opens catalog.sqlite and checks it; for writing, it is brought to the newest version.
Result<Database> open_catalog(const std::filesystem::path& folder, const CollectionInfo& info,
                              Database::Mode mode);

// rows x dim x 4, or kBadData where that is absurd.
Result<int64_t> row_bytes(const Meta& meta, int64_t dim);

// Returns the layout of the late interaction rows of a collection that has them.
RowLayout late_layout(const CollectionInfo& info);

// Value of the column `linked` of an item without a file on this host (FileIdentity::elsewhere). Versions of the
// program that do not know it take such an item for one behind a link, whose file they never remove.
inline constexpr int64_t kElsewhere = 2;

// The columns of `items` and `failures` in the order that the functions below read and bind them.
inline constexpr std::string_view kItemColumns =
    "id, row, path, hash, size, mtime_ns, width, height, format, caption, added, device, inode, folder_device, linked";
inline constexpr std::string_view kFailureColumns = "path, code, reason, size, mtime_ns, failed_at, tries";
// Likewise of `facts`. Keywords are joined and ended by line ends, so that one of them can be looked for.
inline constexpr std::string_view kFactsColumns =
    "id, taken, zone_minutes, camera, lens, latitude, longitude, rating, title, description, keywords, place, caption, "
    "look, grain, facts_read";
// Leaves out a time and a FactsRead that no program writes, whatever the catalog has.
ItemFacts read_facts(const Statement& statement);
// Binds all of them.
void bind_facts(Statement& statement, int64_t id, const ItemFacts& facts);
// Returns the metadata of an item; FactsRead::kNothing if there is none.
Result<ItemFacts> find_facts(Database& database, int64_t id);

Item read_item(const Statement& statement);
Failure read_failure(const Statement& statement);
// Binds path, hash, size, mtime_ns, width, height, format, caption, added and what bind_identity() does.
void bind_fields(Statement& statement, const Item& item);
// Binds device, inode, folder_device, linked.
void bind_identity(Statement& statement, const FileIdentity& file);

// Adds items with their metadata and words to an empty catalog, in one transaction; their rows are 0, 1, ...
Status fill_catalog(Database& database, std::span<const WholeItem> items);

// A condition for paths that are `path` or below it, with its values.
Filter under(std::string_view path);

int64_t now_seconds();
// "2026-01-31T12:00:00", of PictureFacts::taken. Times before the year 0 or after the year 9999 are the first or the last
// second of these years.
std::string local_text(int64_t taken);
// "2026-01-31T12:00:00Z", likewise
std::string utc_text(int64_t seconds);
// The time now, "2026-01-31T12:00:00.123456Z", of CollectionInfo::created
std::string utc_now();

}  // namespace saccade::store
