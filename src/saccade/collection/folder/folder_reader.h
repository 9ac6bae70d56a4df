// The reading side of a collection's folder.
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
//   composer.json      the composer of queries of an image and a text, if one was set
//                      (search/composed/collection_composer.h)
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
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/collection/catalog/item_store.h"
#include "saccade/index/int8_rows.h"
#include "saccade/index/late_rows.h"
#include "saccade/matrix.h"

namespace saccade {

struct ApproximateIndex;  // rows/approximate_index.h
struct WordMatches;       // catalog/words/word_match.h

// Snapshot of the catalog and the rows. Methods are those of CollectionReader.
class FolderReader final : public ItemStore {
 public:
  static Result<FolderReader> open(const std::filesystem::path& folder);
  // Returns a reader of a few items, such as those that a vector index found. Rows are numbered in their order. Cost:
  // about 25 microseconds an item.
  static Result<FolderReader> of_items(MemoryItems content);
  FolderReader(FolderReader&&) noexcept;
  FolderReader& operator=(FolderReader&&) noexcept;
  ~FolderReader() override;

  [[nodiscard]] const std::filesystem::path& folder() const override;
  [[nodiscard]] const CollectionInfo& info() const override;
  [[nodiscard]] MatrixView<const float> rows() const;
  [[nodiscard]] Int8Rows int8_rows() const;
  [[nodiscard]] MatrixView<const float> sample() const;
  [[nodiscard]] const ApproximateIndex* approximate() const;
  [[nodiscard]] const std::string& why_not_approximate() const;
  [[nodiscard]] int64_t generation() const;
  [[nodiscard]] const std::filesystem::path& files() const;
  [[nodiscard]] StoredRows late_rows(int64_t row) const;
  [[nodiscard]] bool has_late_rows() const { return info().settings.late.has_value(); }
  [[nodiscard]] std::span<const uint8_t> alive() const;
  [[nodiscard]] std::span<const int64_t> ids() const;
  [[nodiscard]] int64_t item_count() const override;
  [[nodiscard]] Status check_files() const override;
  [[nodiscard]] Result<Item> item(int64_t id) const override;
  [[nodiscard]] Result<Item> item_of_row(int64_t row) const;
  [[nodiscard]] Result<Item> item_of_path(const std::filesystem::path& path) const override;
  [[nodiscard]] Status for_each_item(const std::function<Status(const Item&)>& visit) const override;
  [[nodiscard]] Status for_each_row(const RowVisitor& visit) const override;
  [[nodiscard]] Result<ItemFacts> facts(int64_t id) const override;
  [[nodiscard]] Status for_each_facts(
      const std::function<Status(int64_t id, const ItemFacts& facts)>& visit) const;
  [[nodiscard]] Result<LookedAt> looked(int64_t most) const override;
  [[nodiscard]] Result<std::vector<RemovedPicture>> removed() const override;
  [[nodiscard]] Result<std::vector<uint8_t>> allowed(const Filter& filter) const;
  [[nodiscard]] Result<WordMatches> match_words(std::span<const std::string> terms) const;
  [[nodiscard]] Result<std::vector<int64_t>> rows_with_words(std::span<const std::string> terms) const;
  [[nodiscard]] Result<std::vector<uint8_t>> word_fields(int64_t id,
                                                         std::span<const std::string> terms) const;
  [[nodiscard]] Result<std::string> why_empty(const Filter& filter) const override;
  [[nodiscard]] Result<std::vector<FieldValue>> values_of(std::string_view field,
                                                          int64_t most) const override;
  [[nodiscard]] Result<CollectionSummary> summary() const override;
  [[nodiscard]] Result<std::vector<Failure>> failures() const override;
  Status refresh() override;

 private:
  struct State;
  explicit FolderReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace saccade
