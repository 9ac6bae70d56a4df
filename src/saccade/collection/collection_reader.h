// A collection: a folder with one embedding row for each image, and a catalog that maps rows to items.
//
//   collection.json    format version, checkpoint (name, path, fingerprint, dim), ingest settings;
//                      written last at creation, never changed after
//   catalog.sqlite     items, failures, and `meta`: rows committed, generation of the rows file (WAL mode)
//   rows-<n>.f32       float32 little-endian, row-major, [rows, dim], each row of length 1; append-only.
//                      <n> is the generation. Rows past the committed count are debris of a crash.
//   rows-<n>.i8        the same rows as int8, for collections of many rows (int8_file.h): a cache, which
//                      may be missing, shorter or damaged, and is written after the commit
//   rows-<n>.lists     an approximate index of the rows, if one was built (rows/approximate_index.h); may be missing
//   late-<n>.rows      all rows, if the encoder returns several an item; stored as in settings.late
//   late-<n>.ends      end offsets of the items' rows in it (late_file.h); the rows file holds their means
//   background.safetensors  score calibration data (search/matching/background.h); measured from all else, and may be
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

struct ApproximateIndex;  // rows/approximate_index.h
struct WordMatches;       // word_match.h

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
class CollectionReader {
 public:
  // Opens and takes a snapshot: reads two numbers for each item and maps the rows.
  // Errors: kNotFound, kBadData (broken or foreign files), kUnsupported (newer format or schema), kMismatch
  // (files that do not belong together), kIo.
  static Result<CollectionReader> open(const std::filesystem::path& folder);
  CollectionReader(CollectionReader&&) noexcept;
  CollectionReader& operator=(CollectionReader&&) noexcept;
  ~CollectionReader();

  [[nodiscard]] const std::filesystem::path& folder() const;
  [[nodiscard]] const CollectionInfo& info() const;

  // All rows, [rows, dim], those of removed items included (see alive). Valid until refresh() or destruction.
  [[nodiscard]] MatrixView<const float> rows() const;
  // The first of them in eight bits a value, where they are kept so; valid as rows().
  [[nodiscard]] Int8Rows int8_rows() const;
  // The approximate index; nullptr if there is none that can be used (why_not_approximate). Valid as rows().
  [[nodiscard]] const ApproximateIndex* approximate() const;
  // Why the index that is there is not used, in a sentence; empty if it is used, or if there is none.
  [[nodiscard]] const std::string& why_not_approximate() const;
  // Generation of the rows file, and the folder in which the snapshot's files lie.
  [[nodiscard]] int64_t generation() const;
  [[nodiscard]] const std::filesystem::path& files() const;
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
  explicit CollectionReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Returns a path as the catalog stores it: absolute, links of folders resolved, the file's own name kept (a
// link to an image stays under its own name). The time of a video frame is written as by frame_name(). The
// file need not exist.
std::string catalog_path(const std::filesystem::path& path);

}  // namespace saccade
