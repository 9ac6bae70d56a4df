// Changes of a collection: the one writer at a time, and what becomes visible together (collection_reader.h has the
// folder's layout).
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
#include "saccade/collection/catalog/filter.h"
#include "saccade/collection/catalog/item_facts.h"
#include "saccade/collection/catalog/word_text.h"
#include "saccade/collection/collection_reader.h"
#include "saccade/core/error.h"
#include "saccade/index/int8_rows.h"
#include "saccade/progress.h"

namespace saccade {

// Changes that become visible together, or not at all.
struct CollectionChange {
  struct Put {
    Item item;  // id 0: a new item; else the item of that id gets all these fields. row is ignored
    std::vector<float> values;  // the item's new row, [dim], of length 1
    // Its rows of late interaction as they are stored, where the collection keeps such; else empty.
    std::vector<std::byte> late;
    // Image metadata. With `nullopt` a new item has none, and an existing item keeps its own.
    std::optional<ItemFacts> facts = {};
    // The item's words, if the caller has made them (store::WordTexts), as an import does on all processors.
    std::optional<store::WordText> words = {};
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

// Use of a path in a collection.
enum class PathUse {
  kFree,
  kItem,
  kRemoved,  // an image that was removed permanently
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

}  // namespace saccade
