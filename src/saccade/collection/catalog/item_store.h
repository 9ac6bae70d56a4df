// Interfaces of the places that keep a collection's items: a folder (folder/) or a vector
// database (weaviate/). CollectionReader and CollectionWriter are handles of them. Not for use outside this module,
// except VectorIndex and its types.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/collection/catalog/catalog.h"
#include "saccade/collection/catalog/filter.h"
#include "saccade/collection/catalog/item_facts.h"
#include "saccade/collection/catalog/words/word_text.h"
#include "saccade/core/error.h"
#include "saccade/matrix.h"
#include "saccade/progress.h"

namespace saccade {

// Value of a text field, with the number of items that have it.
struct FieldValue {
  std::string value;
  int64_t items = 0;
};

// Numbers of images whose look was analyzed, and of the photographs among them.
struct LookedAt {
  int64_t pictures = 0;
  int64_t photographs = 0;
};

// An item with all that is kept of it.
struct WholeItem {
  Item item;
  ItemFacts facts;
  std::vector<float> values;  // its row, [dim]
};
// Receives an item, its metadata and its row, which are valid during the call.
using RowVisitor =
    std::function<Status(const Item& item, const ItemFacts& facts, std::span<const float> row)>;

// Statistics of words over a whole collection, for ranking a few of its items by BM25.
struct WordStatistics {
  int64_t items = 0;
  std::map<std::string, int64_t> pictures;  // number of images that have a term
};

// A few items of a collection, of which a reader is made in memory.
struct MemoryItems {
  CollectionInfo info;
  std::vector<WholeItem> items;
  WordStatistics words;          // of the collection that the items are from
  std::filesystem::path folder;  // its name, for people
};

// Question to a vector index.
struct NearestQuery {
  std::span<const float> row;                 // [dim], of length 1
  const Filter* filter = nullptr;             // parsed; `nullptr` allows all items
  std::span<const std::string> terms = {};    // words that bring items too; empty: none do
  std::span<const std::string> counted = {};  // further terms whose numbers of images are wanted
  int64_t count = 0;                          // items wanted by the row, and as many by the terms
};

// Answer of a vector index: the items that it finds nearest, which is approximate, and those that have the terms. Their paths
// are as the index stores them (VectorIndex::path_here), which filters and words are compared with.
struct NearestItems {
  std::vector<WholeItem> items;  // each once
  // Number of items that meet the filter. It is an upper bound if the filter is not `exact`.
  int64_t searched = 0;
  bool exact = true;  // false if the index cannot express the filter, so that some of `items` may not meet it
  bool complete = false;  // true if no other item meets the filter
  WordStatistics words;
};

// Interface of stores that search by an index of their own, in place of rows that a program passes over.
class VectorIndex {
 public:
  virtual ~VectorIndex() = default;
  // Returns the name of the engine with its version: "Weaviate 1.35.2".
  [[nodiscard]] virtual std::string engine() const = 0;
  // Returns the path on this host of a stored one.
  [[nodiscard]] virtual std::string path_here(const std::string& stored) const = 0;
  // Maximum of NearestQuery::count.
  [[nodiscard]] virtual int64_t most() const = 0;
  [[nodiscard]] virtual Result<NearestItems> nearest(const NearestQuery& query) const = 0;
  // Returns the newest `count` items that meet the filter, and the number of all that do.
  [[nodiscard]] virtual Result<NearestItems> newest(const Filter* filter, int64_t count) const = 0;
  // Returns the item with its row. kNotFound if there is none.
  [[nodiscard]] virtual Result<WholeItem> whole(int64_t id) const = 0;
  // Returns the rows of a uniform sample of the items, [n, dim], which is drawn once.
  [[nodiscard]] virtual Result<std::shared_ptr<const Matrix<float>>> sample() const = 0;
  // Returns up to `most` items with their rows: those whose hashed paths come first, which are a uniform sample and the same
  // ones on every host. Their paths are stored ones.
  [[nodiscard]] virtual Result<std::vector<WholeItem>> sample_items(int64_t most) const = 0;

  // Keeps bytes with the collection, in place of those that were kept under this name.
  virtual Status keep(std::string_view name, std::string_view bytes) const = 0;
  // Returns what was kept under a name. kNotFound if nothing was.
  [[nodiscard]] virtual Result<std::string> kept(std::string_view name) const = 0;
  // Returns a text that changes when something is kept under the name; empty if nothing was. Costs less than reading it.
  [[nodiscard]] virtual Result<std::string> kept_state(std::string_view name) const = 0;
};

// Reading side of a store. Methods are documented at CollectionReader. Thread-safe, except refresh().
class ItemStore {
 public:
  virtual ~ItemStore() = default;
  [[nodiscard]] virtual const std::filesystem::path& folder() const = 0;
  [[nodiscard]] virtual const CollectionInfo& info() const = 0;
  [[nodiscard]] virtual int64_t item_count() const = 0;
  [[nodiscard]] virtual Status check_files() const = 0;
  [[nodiscard]] virtual Result<Item> item(int64_t id) const = 0;
  // `path`: as the item has it.
  [[nodiscard]] virtual Result<Item> item_of_path(const std::filesystem::path& path) const = 0;
  [[nodiscard]] virtual Status for_each_item(const std::function<Status(const Item&)>& visit) const = 0;
  [[nodiscard]] virtual Status for_each_row(const RowVisitor& visit) const = 0;
  [[nodiscard]] virtual Result<ItemFacts> facts(int64_t id) const = 0;
  [[nodiscard]] virtual Result<LookedAt> looked(int64_t most) const = 0;
  [[nodiscard]] virtual Result<std::vector<RemovedPicture>> removed() const = 0;
  [[nodiscard]] virtual Result<std::string> why_empty(const Filter& filter) const = 0;
  [[nodiscard]] virtual Result<std::vector<FieldValue>> values_of(std::string_view field,
                                                                  int64_t most) const = 0;
  [[nodiscard]] virtual Result<CollectionSummary> summary() const = 0;
  [[nodiscard]] virtual Result<std::vector<Failure>> failures() const = 0;
  virtual Status refresh() = 0;
  // Returns the store's own index; `nullptr` if its rows are passed over instead.
  [[nodiscard]] virtual const VectorIndex* index() const { return nullptr; }
};

struct CollectionChange;
enum class PathUse;

// Writing side of a store. Methods are documented at CollectionWriter. Thread-safe.
class ItemWriter {
 public:
  virtual ~ItemWriter() = default;
  [[nodiscard]] virtual const std::filesystem::path& folder() const = 0;
  [[nodiscard]] virtual const CollectionInfo& info() const = 0;
  virtual Status commit(const CollectionChange& change) = 0;
  [[nodiscard]] virtual Status expect(std::span<const std::string> paths) const = 0;
  [[nodiscard]] virtual std::string shard_key(const std::string& path) const = 0;
  [[nodiscard]] virtual bool lists_cheaply() const = 0;
  [[nodiscard]] virtual Result<std::optional<Item>> find_path(std::string_view path) const = 0;
  [[nodiscard]] virtual Result<std::vector<PathUse>> path_uses(
      std::span<const std::string_view> paths) const = 0;
  [[nodiscard]] virtual Result<std::vector<Item>> find_hash(std::string_view hash,
                                                            int64_t after_id) const = 0;
  [[nodiscard]] virtual Result<std::optional<Failure>> find_failure(std::string_view path) const = 0;
  [[nodiscard]] virtual Result<ItemFacts> find_facts(int64_t id) const = 0;
  [[nodiscard]] virtual Result<bool> was_removed(std::string_view path) const = 0;
  [[nodiscard]] virtual Result<std::vector<std::string>> removed_of_hash(std::string_view hash) const = 0;
  [[nodiscard]] virtual Status for_each_item_under(std::string_view path,
                                                   const std::function<Status(const Item&)>& visit) const = 0;
  [[nodiscard]] virtual Status for_each_failure_under(
      std::string_view path, const std::function<Status(const Failure&)>& visit) const = 0;
  [[nodiscard]] virtual Result<std::vector<float>> row_values(int64_t row) const = 0;
  [[nodiscard]] virtual Result<std::vector<std::byte>> late_values(int64_t row) const = 0;
  virtual Status update_int8_rows(const ProgressCallback& progress, std::stop_token stop) = 0;
  virtual Result<int64_t> remove_ids(std::span<const int64_t> ids) = 0;
  // `path`: as the items and the removed ones have it.
  virtual Result<int64_t> remove_path(const std::filesystem::path& path) = 0;
  virtual Result<int64_t> remove_matching(const Filter& filter) = 0;
  virtual Result<int64_t> forget_removed(const std::filesystem::path& path) = 0;
  virtual Result<int64_t> compact(const ProgressCallback& progress, std::stop_token stop) = 0;
};

}  // namespace saccade
