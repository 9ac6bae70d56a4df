// Import, export and merging of embeddings: between collections, and as files that other programs read.
//
// An export is a folder of
//   rows.npy        float32, [n, dim], each row of length 1 (core/files/npy.h)
//   items.jsonl     one object a row, in the same order: "path", "hash", "size", "mtime_ns",
//                   "width", "height", "format", "caption", and if they are known "taken",
//                   "zone_minutes", "camera", "lens", "latitude", "longitude", "place", "rating",
//                   "title", "description", "keywords" (facts_json.h); for analyzed images also
//                   "look" (the perceptual hash in 16 hexadecimal digits), "grain" and
//                   "looked_into" ("pixels", "everything")
//   export.json     "format": "saccade export", "checkpoint": {"name", "path", "fingerprint", "dim"}, "items"
// Embeddings of other programs are imported from the same files; each item needs only "path".
#pragma once

#include <cstdint>
#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

#include "saccade/collection/collection.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/image/image.h"
#include "saccade/progress.h"

namespace saccade {

struct MergeReport {
  int64_t added = 0;
  int64_t same = 0;        // there already, with the same content
  int64_t different = 0;   // paths that are there with another content: what is there stays
  int64_t stayed_out = 0;  // taken out of the collection before, to stay out
};

// Adds the items of another collection with the same checkpoint. Embeddings, captions and metadata are
// copied; nothing is encoded and no image is read. kMismatch if the checkpoint, the settings that embeddings
// depend on, or the storage of late interaction rows differ. kCancelled if stopped: what was added stays, and
// the same call continues from there.
Result<MergeReport> merge_collection(CollectionWriter& into, const Collection& from,
                                     const ProgressCallback& progress = {}, std::stop_token stop = {});

// Writes the three files above into a folder that is missing or empty (kUsage otherwise). Returns the number
// of items. Late interaction embeddings are exported as their means. Memory: the rows.
Result<int64_t> export_collection(const Collection& collection, const std::filesystem::path& folder);

struct ImportReport {
  int64_t added = 0;
  int64_t same = 0;  // paths that are there already: what is there stays
  int64_t stayed_out = 0;
  std::vector<Failure> failed;  // pictures that are not there or cannot be read, rows that are no direction
};

// Adds embeddings that were computed elsewhere. The caller guarantees that they come from the collection's
// checkpoint. If there is an export.json, it has to name that checkpoint (kMismatch otherwise). Rows are
// normalized to length 1. Fields of an image that items.jsonl lacks are read from its file, at least the
// hash. kUsage for a collection with late interaction rows.
Result<ImportReport> import_rows(CollectionWriter& into, const std::filesystem::path& folder,
                                 const DecodeOptions& limits, const ProgressCallback& progress = {},
                                 std::stop_token stop = {});

Json item_json(const Item& item, const ItemFacts& facts);

}  // namespace saccade
