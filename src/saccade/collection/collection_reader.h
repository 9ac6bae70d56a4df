// A collection to read: a folder (folder/folder_reader.h has its layout) or a class of a vector database (weaviate/), with one
// embedding row for each image, and a catalog of the items.
//
// A collection is named by its folder, or by an address like "weaviate://host:8080/Name" (weaviate/address.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/collection/catalog/catalog.h"
#include "saccade/collection/catalog/filter.h"
#include "saccade/collection/catalog/item_facts.h"
#include "saccade/collection/catalog/item_store.h"
#include "saccade/collection/collection_info.h"
#include "saccade/core/error.h"
#include "saccade/index/int8_rows.h"
#include "saccade/index/late_rows.h"
#include "saccade/matrix.h"
#include "saccade/progress.h"

namespace saccade {

struct ApproximateIndex;  // rows/approximate_index.h
struct WordMatches;       // catalog/words/word_match.h
class FolderReader;

// True where the folder holds a collection.json (of whatever kind).
bool is_collection(const std::filesystem::path& folder);

// Reads collection.json alone, to find the checkpoint before anything else is opened. kNotFound if there is
// no collection, kBadData for a foreign or broken file, kUnsupported for a newer format.
Result<CollectionInfo> read_collection_info(const std::filesystem::path& folder);

// Snapshot of a collection, for searching. Readers never block concurrent writers, whose commits are visible
// after refresh(). Works in read-only folders. All const methods are thread-safe; catalog look-ups take
// turns.
class CollectionReader {
 public:
  // Opens and takes a snapshot: reads two numbers for each item and maps the rows.
  // Errors: kNotFound, kBadData (broken or foreign files), kUnsupported (newer format or schema), kMismatch
  // (files that do not belong together), kIo.
  // Errors of an address: kIo if the engine does not answer, kNotFound if it has no such class, kUnsupported for another version.
  static Result<CollectionReader> open(const std::filesystem::path& folder);
  // Returns a reader of a few items of a vector database, which has rows like a folder's.
  static Result<CollectionReader> of_items(MemoryItems content);
  CollectionReader(CollectionReader&&) noexcept;
  CollectionReader& operator=(CollectionReader&&) noexcept;
  ~CollectionReader();

  [[nodiscard]] const std::filesystem::path& folder() const;
  [[nodiscard]] const CollectionInfo& info() const;

  // Returns the index that searches a vector database; `nullptr` for a folder, whose rows are passed over. With an index,
  // rows(), int8_rows(), alive() and ids() are empty, and allowed(), match_words() and item_of_row() know no row.
  [[nodiscard]] const VectorIndex* index() const { return store_->index(); }
  // Checks that rows() are those of the items: kUnsupported naming `task` for a vector database.
  [[nodiscard]] Status check_has_rows(std::string_view task) const;

  // All rows, [rows, dim], those of removed items included (see alive). Valid until refresh() or destruction.
  [[nodiscard]] MatrixView<const float> rows() const;
  // The first of them in eight bits a value, where they are kept so; valid as rows().
  [[nodiscard]] Int8Rows int8_rows() const;
  // Rows of items, at even distances among all of them: [min(256, item_count()), dim]. Valid as rows(). Cost: reading
  // them, at the first call for a snapshot.
  [[nodiscard]] MatrixView<const float> sample() const;
  // The approximate index of a folder; nullptr if there is none that can be used (why_not_approximate). Valid as rows().
  [[nodiscard]] const ApproximateIndex* approximate() const;
  // Why the index that is there is not used, in a sentence; empty if it is used, or if there is none.
  [[nodiscard]] const std::string& why_not_approximate() const;
  // Generation of the rows file, and the folder in which the snapshot's files lie; only of a folder.
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
  // Returns the item of that path: absolute, or relative to the working directory. Links in it are followed, or
  // kept where the item was found through them; an item of the very path comes first. kNotFound if there is none.
  [[nodiscard]] Result<Item> item_of_path(const std::filesystem::path& path) const;
  // Returns true if an item has exactly this path in the catalog. Does not look at the file system.
  [[nodiscard]] bool has_path(const std::string& path) const;
  // Calls `visit` with each item, by id; stops at the first error it returns. Other look-ups wait meanwhile,
  // so `visit` must not call back.
  [[nodiscard]] Status for_each_item(const std::function<Status(const Item&)>& visit) const;

  // Calls `visit` with each item, its metadata and its row, by id; stops at the first error it returns.
  [[nodiscard]] Status for_each_row(const RowVisitor& visit) const { return store_->for_each_row(visit); }

  // Returns the metadata of the item; FactsRead::kNothing if none is stored. One look-up.
  [[nodiscard]] Result<ItemFacts> facts(int64_t id) const;
  // Calls `visit` with each item of which something is kept, by id; as for_each_item.
  [[nodiscard]] Status for_each_facts(
      const std::function<Status(int64_t id, const ItemFacts& facts)>& visit) const;
  // Counts the first `most` images whose look was analyzed, by id, and the photographs among them
  // (image/metadata/look.h). Cost: up to `most` rows of the catalog.
  using Looked = LookedAt;
  [[nodiscard]] Result<Looked> looked(int64_t most) const;
  // Returns the images that were removed permanently, by path.
  [[nodiscard]] Result<std::vector<RemovedPicture>> removed() const;

  // One byte a row: 1 where an item has the row and the filter holds for it. Cost: one scan of the catalog; none
  // for the filter that was asked last.
  [[nodiscard]] Result<std::vector<uint8_t>> allowed(const Filter& filter) const;

  // Finds the images whose captions, names or folders contain some of these terms. A term is a word or a
  // sequence of words; it has no syntax. At most 64 terms are used. Words are compared without case and
  // accents, and by their English stem. A collection older than the index returns a reason in place of
  // matches until the next `saccade index`. Cost: a look-up a term, and about a microsecond for each image
  // that has it, of a quarter of all images at most.
  [[nodiscard]] Result<WordMatches> match_words(std::span<const std::string> terms) const;
  // Returns the rows of the images that have at least one of these terms, ascending, however many they are. Terms are those
  // of match_words(); none are found in a collection older than the index. Cost: that of match_words(), and some 50 ns for
  // each image that has a term of more than a quarter of them.
  [[nodiscard]] Result<std::vector<int64_t>> rows_with_words(std::span<const std::string> terms) const;
  // Returns the fields of one image that contain each of the terms. Each term has one value, the sum of: 1
  // caption, 2 name, 4 folders.
  [[nodiscard]] Result<std::vector<uint8_t>> word_fields(int64_t id,
                                                         std::span<const std::string> terms) const;
  // Why a filter holds for no item, in a sentence or two: the conditions that none meets alone, and what
  // there is instead. Empty where some item meets it. Cost: a scan of the catalog a condition.
  [[nodiscard]] Result<std::string> why_empty(const Filter& filter) const;
  // The values of a field of text ("camera", "keyword", "format", ...) with the number of items that have
  // each, most first. kUsage for another field. Cost: one scan.
  using FieldValue = saccade::FieldValue;
  [[nodiscard]] Result<std::vector<FieldValue>> values_of(std::string_view field, int64_t most) const;

  [[nodiscard]] Result<CollectionSummary> summary() const;
  // Returns the failures, by path.
  [[nodiscard]] Result<std::vector<Failure>> failures() const;

  // Takes a new snapshot; on error the old one stays. Not while other threads use the object. A long-lived
  // reader that never refreshes keeps the catalog's log from being folded back while a writer is at work.
  Status refresh();

 private:
  CollectionReader(std::unique_ptr<ItemStore> store, std::unique_ptr<FolderReader> no_rows);
  std::unique_ptr<ItemStore> store_;
  std::unique_ptr<FolderReader> no_rows_;  // of a vector database: a reader of no items
  const FolderReader* rows_ = nullptr;     // the store, if it has rows; else no_rows_
};

}  // namespace saccade
