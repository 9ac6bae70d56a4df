// A collection: a folder with one embedding row for each image, and a catalog that maps rows to items.
//
//   collection.json    format version, checkpoint (name, path, fingerprint, dim), ingest settings;
//                      written last at creation, never changed after
//   catalog.sqlite     items, failures, and `meta`: rows committed, generation of the rows file (WAL mode)
//   rows-<n>.f32       float32 little-endian, row-major, [rows, dim], each row of length 1; append-only.
//                      <n> is the generation. Rows past the committed count are debris of a crash.
//   rows-<n>.i8        the same rows as int8, for collections of many rows (int8_file.h): a cache, which
//                      may be missing, shorter or damaged, and is written after the commit
//   late-<n>.rows      all rows, if the encoder returns several an item; stored as in settings.late
//   late-<n>.ends      end offsets of the items' rows in it (late_file.h); the rows file holds their means
//   background.safetensors  score calibration data (search/background.h); measured from all else, and may be
//                      missing or out of date
//   lock               held (flock) by the one process that writes; its content is the process id
//
// A change appends rows, flushes them, then commits one catalog transaction that makes them visible. After a
// crash at any moment the folder is as before the change or after it. A removed or changed item leaves its
// old row behind, unreferenced, until `compact` writes the next generation.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "saccade/collection/catalog/catalog.h"
#include "saccade/collection/catalog/filter.h"
#include "saccade/collection/catalog/item_facts.h"
#include "saccade/core/error.h"
#include "saccade/index/int8_rows.h"
#include "saccade/index/late_rows.h"
#include "saccade/matrix.h"
#include "saccade/progress.h"

namespace saccade {

struct WordMatches;  // word_match.h

inline constexpr std::string_view kBackgroundName = "background.safetensors";

// True where the folder holds a collection.json (of whatever kind).
bool is_collection(const std::filesystem::path& folder);

// Reads collection.json alone, to find the checkpoint before anything else is opened. kNotFound if there is
// no collection, kBadData for a foreign or broken file, kUnsupported for a newer format.
Result<CollectionInfo> read_collection_info(const std::filesystem::path& folder);

// kMismatch naming both checkpoints and their fingerprints, unless they are the same.
Status check_same_checkpoint(const CollectionInfo& collection, const CheckpointId& checkpoint);

// Snapshot of a collection, for searching. Readers never block concurrent writers, whose commits are visible
// after refresh(). Works in read-only folders. All const methods are thread-safe; catalog look-ups take
// turns.
class Collection {
 public:
  // Opens and takes a snapshot: reads two numbers for each item and maps the rows.
  // Errors: kNotFound, kBadData (broken or foreign files), kUnsupported (newer format or schema), kMismatch
  // (files that do not belong together), kIo.
  static Result<Collection> open(const std::filesystem::path& folder);
  Collection(Collection&&) noexcept;
  Collection& operator=(Collection&&) noexcept;
  ~Collection();

  [[nodiscard]] const std::filesystem::path& folder() const;
  [[nodiscard]] const CollectionInfo& info() const;

  // All rows, [rows, dim], those of removed items included (see alive). Valid until refresh() or destruction.
  [[nodiscard]] MatrixView<const float> rows() const;
  // The first of them in eight bits a value, where they are kept so; valid as rows().
  [[nodiscard]] Int8Rows int8_rows() const;
  // Returns true if items have late interaction rows (info().settings.late is set).
  [[nodiscard]] bool has_late_rows() const { return info().settings.late.has_value(); }
  // The stored rows of the item of `row`, 0 <= row < rows().rows(); only if has_late_rows(). Valid as rows().
  [[nodiscard]] StoredRows late_rows(int64_t row) const;
  // One byte a row: 1 if an item has it. Argument `allowed` of exact_search.
  [[nodiscard]] std::span<const uint8_t> alive() const;
  // One id a row, 0 where no item has it.
  [[nodiscard]] std::span<const int64_t> ids() const;
  [[nodiscard]] int64_t item_count() const;
  // Checks that the files behind rows(), int8_rows() and late_rows() have their length; kBadData if another
  // program has truncated them. Reading past the end would end the process (SIGBUS), so call this before a
  // pass over the rows. Truncation during the pass goes unnoticed. Cost: a stat of each file.
  [[nodiscard]] Status check_files() const;

  // Returns the item of that id. kNotFound if there is none. One indexed look-up.
  [[nodiscard]] Result<Item> item(int64_t id) const;
  [[nodiscard]] Result<Item> item_of_row(int64_t row) const;
  // Returns the item of that path: absolute, or relative to the working directory.
  [[nodiscard]] Result<Item> item_of_path(const std::filesystem::path& path) const;
  // Calls `visit` with each item, by id; stops at the first error it returns. Other look-ups wait meanwhile,
  // so `visit` must not call back.
  [[nodiscard]] Status for_each_item(const std::function<Status(const Item&)>& visit) const;

  // Returns the metadata of the item; FactsRead::kNothing if none is stored. One look-up.
  [[nodiscard]] Result<ItemFacts> facts(int64_t id) const;
  // Calls `visit` with each item of which something is kept, by id; as for_each_item.
  [[nodiscard]] Status for_each_facts(
      const std::function<Status(int64_t id, const ItemFacts& facts)>& visit) const;
  // Counts the first `most` images whose look was analyzed, by id, and the photographs among them
  // (image/metadata/look.h). Cost: up to `most` rows of the catalog.
  struct Looked {
    int64_t pictures = 0;
    int64_t photographs = 0;
  };
  [[nodiscard]] Result<Looked> looked(int64_t most) const;
  // Returns the images that were removed permanently, by path.
  [[nodiscard]] Result<std::vector<RemovedPicture>> removed() const;

  // One byte a row: 1 where an item has the row and the filter holds for it. Cost: one scan of the catalog.
  [[nodiscard]] Result<std::vector<uint8_t>> allowed(const Filter& filter) const;

  // Finds the images whose captions, names or folders contain some of these terms. A term is a word or a
  // sequence of words; it has no syntax. At most 64 terms are used. Words are compared without case and
  // accents, and by their English stem. A collection older than the index returns a reason in place of
  // matches until the next `saccade index`. Cost: a look-up a term, and about a microsecond for each image
  // that has it, of a quarter of all images at most.
  [[nodiscard]] Result<WordMatches> match_words(std::span<const std::string> terms) const;
  // Returns the fields of one image that contain each of the terms. Each term has one value, the sum of: 1
  // caption, 2 name, 4 folders.
  [[nodiscard]] Result<std::vector<uint8_t>> word_fields(int64_t id,
                                                         std::span<const std::string> terms) const;
  // Why a filter holds for no item, in a sentence or two: the conditions that none meets alone, and what
  // there is instead. Empty where some item meets it. Cost: a scan of the catalog a condition.
  [[nodiscard]] Result<std::string> why_empty(const Filter& filter) const;
  // The values of a field of text ("camera", "keyword", "format", ...) with the number of items that have
  // each, most first. kUsage for another field. Cost: one scan.
  struct FieldValue {
    std::string value;
    int64_t items = 0;
  };
  [[nodiscard]] Result<std::vector<FieldValue>> values_of(std::string_view field, int64_t most) const;

  [[nodiscard]] Result<CollectionSummary> summary() const;
  // Returns the failures, by path.
  [[nodiscard]] Result<std::vector<Failure>> failures() const;

  // Takes a new snapshot; on error the old one stays. Not while other threads use the object. A long-lived
  // reader that never refreshes keeps the catalog's log from being folded back while a writer is at work.
  Status refresh();

 private:
  struct State;
  explicit Collection(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Changes that become visible together, or not at all.
struct CollectionChange {
  struct Put {
    Item item;  // id 0: a new item; else the item of that id gets all these fields. row is ignored
    std::vector<float> values;  // the item's new row, [dim], of length 1
    // Its rows of late interaction as they are stored, where the collection keeps such; else empty.
    std::vector<std::byte> late;
    // Image metadata. With `nullopt` a new item has none, and an existing item keeps its own.
    std::optional<ItemFacts> facts = {};
  };
  std::vector<Put> puts;      // appends one row each; forgets a failure of the same path
  std::vector<Item> updates;  // fields of existing items (by id), their rows kept; forgets failures likewise
  std::vector<int64_t> removals;                     // ids; one that is not there is no error
  std::vector<Failure> failures;                     // remembered by path; `tries` is counted by the catalog
  std::vector<std::string> forget_failures;          // paths
  std::vector<std::pair<int64_t, ItemFacts>> facts;  // of existing items, by id
  std::vector<std::pair<int64_t, FileIdentity>> identities;  // of existing items, by id
  std::vector<RemovedPicture> removed;      // pictures that are to stay out, remembered by path
  std::vector<std::string> forget_removed;  // paths

  [[nodiscard]] bool empty() const {
    return puts.empty() && updates.empty() && removals.empty() && failures.empty() &&
           forget_failures.empty() && facts.empty() && identities.empty() && removed.empty() &&
           forget_removed.empty();
  }
};

struct WriterOptions {
  // Called at each step of a change ("rows written", "rows flushed", "catalog changed", "committed", ...):
  // for tests that kill the process there.
  std::function<void(std::string_view step)> on_step;
  // Number of rows from which Int8Policy::kAuto keeps int8 rows.
  int64_t int8_auto_rows = kInt8AutoRows;
};

// The one writer of a collection. Thread-safe; calls take turns.
class CollectionWriter {
 public:
  // Makes a collection in a folder that is missing or empty. kUsage if it holds anything else.
  static Result<CollectionWriter> create(const std::filesystem::path& folder, const CheckpointId& checkpoint,
                                         const IngestSettings& settings = {},
                                         const WriterOptions& options = {});
  // Opens for writing: takes the lock (kCancelled naming the process that has it), cuts what a crash left
  // behind. Other errors as Collection::open.
  static Result<CollectionWriter> open(const std::filesystem::path& folder,
                                       const WriterOptions& options = {});
  // Opens the collection if there is one (kMismatch if it is another checkpoint's; its own settings stay), or
  // else makes it.
  static Result<CollectionWriter> open_or_create(const std::filesystem::path& folder,
                                                 const CheckpointId& checkpoint,
                                                 const IngestSettings& settings = {},
                                                 const WriterOptions& options = {});
  CollectionWriter(CollectionWriter&&) noexcept;
  CollectionWriter& operator=(CollectionWriter&&) noexcept;
  // Folds the catalog's log back and gives the lock up.
  ~CollectionWriter();

  [[nodiscard]] const std::filesystem::path& folder() const;
  [[nodiscard]] const CollectionInfo& info() const;

  // Commits a change durably. Errors leave the collection unchanged. After kIo (such as a full disk) the
  // writer refuses further changes until it is reopened. kBadData for a row that is not finite, of another
  // width or not of length 1 (within 1e-3), and for late rows of another layout or in a collection without
  // them. kUsage for an unknown id or a path that another item has.
  Status commit(const CollectionChange& change);

  [[nodiscard]] Result<std::optional<Item>> find_path(std::string_view path) const;
  // Returns the first 32 items with that hash and an id above `after_id`, by id. A thousand copies of one
  // image must not make each look-up a scan.
  [[nodiscard]] Result<std::vector<Item>> find_hash(std::string_view hash, int64_t after_id = 0) const;
  [[nodiscard]] Result<std::optional<Failure>> find_failure(std::string_view path) const;
  // Returns the item's metadata, like Collection::facts.
  [[nodiscard]] Result<ItemFacts> find_facts(int64_t id) const;
  // Returns true if the image at that path was removed permanently. The second returns the removed paths with
  // that content.
  [[nodiscard]] Result<bool> was_removed(std::string_view path) const;
  [[nodiscard]] Result<std::vector<std::string>> removed_of_hash(std::string_view hash) const;
  // Calls `visit` with each item (each failure) that has this path or is below it as a folder; stops at the
  // first error it returns. `visit` must not call the writer.
  [[nodiscard]] Status for_each_item_under(std::string_view path,
                                           const std::function<Status(const Item&)>& visit) const;
  [[nodiscard]] Status for_each_failure_under(std::string_view path,
                                              const std::function<Status(const Failure&)>& visit) const;
  // The item's row, [dim].
  [[nodiscard]] Result<std::vector<float>> row_values(int64_t row) const;
  // The stored rows of late interaction of that row's item; empty where the collection has none.
  [[nodiscard]] Result<std::vector<std::byte>> late_values(int64_t row) const;

  // Writes missing int8 rows, if the collection keeps them. Every commit and compact does this too, but
  // ignores failures, since searches work without int8 rows. Stops early on request, which is no error. Cost:
  // at most a read of all rows and some 2 microseconds a row.
  Status update_int8_rows(const ProgressCallback& progress = {}, std::stop_token stop = {});

  // Remove items by id, by path (of a file, or of a folder with all below it), or by filter. Each returns how
  // many items it removed. The files themselves are not touched, and stay out: ingest does not take them in
  // again, under this name or another, until that is forgotten.
  Result<int64_t> remove_ids(std::span<const int64_t> ids);
  Result<int64_t> remove_path(const std::filesystem::path& path);
  Result<int64_t> remove_matching(const Filter& filter);
  // Forgets that the picture of that path, or those below that folder, are to stay out; how many there were.
  Result<int64_t> forget_removed(const std::filesystem::path& path);

  // Writes the rows that items have to the next generation, in the same order, and drops the rest. Needs room
  // for both generations meanwhile. Returns how many rows it dropped. Readers keep what they have mapped.
  // kCancelled if asked to stop before the new generation is committed: nothing has changed then.
  Result<int64_t> compact(const ProgressCallback& progress = {}, std::stop_token stop = {});

 private:
  struct State;
  explicit CollectionWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Returns a path as the catalog stores it: absolute, links of folders resolved, the file's own name kept (a
// link to an image stays under its own name). The time of a video frame is written as by frame_name(). The
// file need not exist.
std::string catalog_path(const std::filesystem::path& path);

}  // namespace saccade
