// Changes of a collection that are committed together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "saccade/collection/catalog/catalog.h"
#include "saccade/collection/catalog/item_facts.h"
#include "saccade/collection/catalog/words/word_text.h"

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
    // Id that a new item gets in a folder, unless another item has it; 0: the next. A vector database makes ids of paths.
    int64_t wanted_id = 0;
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
  std::function<void(std::string_view step)> on_step = {};
  // Number of rows from which Int8Policy::kAuto keeps int8 rows.
  int64_t int8_auto_rows = kInt8AutoRows;
  // Ends waits for a vector database that cannot take a change now. The change that waits fails with kCancelled.
  std::stop_token stop = {};
  // CollectionInfo::copy_of of a collection that is created.
  std::string copy_of = {};
};

}  // namespace saccade
