// Changes of a collection, and what becomes visible together. A folder has one writer at a time; a vector database has any
// number, of which each change is visible by itself.
#pragma once

#include <cstddef>
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
#include "saccade/collection/catalog/collection_change.h"
#include "saccade/collection/catalog/filter.h"
#include "saccade/collection/catalog/item_facts.h"
#include "saccade/collection/catalog/item_store.h"
#include "saccade/collection/catalog/words/word_text.h"
#include "saccade/collection/collection_reader.h"
#include "saccade/core/error.h"
#include "saccade/index/int8_rows.h"
#include "saccade/progress.h"

namespace saccade {

// The one writer of a collection in a folder, or one of several that write to a vector database (weaviate/). Thread-safe;
// calls take turns.
class CollectionWriter {
 public:
  // Makes a collection in a folder that is missing or empty. kUsage if it holds anything else.
  static Result<CollectionWriter> create(const std::filesystem::path& folder, const CheckpointId& checkpoint,
                                         const IngestSettings& settings = {},
                                         const WriterOptions& options = {});
  // Opens for writing: takes the lock (kCancelled naming the process that has it), cuts what a crash left
  // behind. Other errors as CollectionReader::open.
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

  // Announces paths that find_path will be asked for, so that a vector database is asked once for all of them.
  [[nodiscard]] Status expect(std::span<const std::string> paths) const;
  // Returns the text whose hash decides which worker of several has this path. It is the same on all hosts.
  [[nodiscard]] std::string shard_key(const std::string& path) const;
  // Returns true if for_each_item_under costs about as much as there are items under the path, and not a pass over all.
  [[nodiscard]] bool lists_cheaply() const;

  [[nodiscard]] Result<std::optional<Item>> find_path(std::string_view path) const;
  // Returns the use of each of these paths. Cost: two indexed look-ups a path.
  [[nodiscard]] Result<std::vector<PathUse>> path_uses(std::span<const std::string_view> paths) const;
  // Returns the first 32 items with that hash and an id above `after_id`, by id. A thousand copies of one
  // image must not make each look-up a scan.
  [[nodiscard]] Result<std::vector<Item>> find_hash(std::string_view hash, int64_t after_id = 0) const;
  [[nodiscard]] Result<std::optional<Failure>> find_failure(std::string_view path) const;
  // Returns the item's metadata, like CollectionReader::facts.
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
  // again, under this name or another, until that is forgotten. Links in a path are followed or kept, as by
  // CollectionReader::item_of_path().
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
  explicit CollectionWriter(std::unique_ptr<ItemWriter> writer) : writer_(std::move(writer)) {}
  std::unique_ptr<ItemWriter> writer_;
};

}  // namespace saccade
