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
//   export.json     "format": "saccade export", "checkpoint": {"name", "path", "fingerprint", "dim"},
//                   "settings" as in collection.json without "late", "items"
// Embeddings of other programs are imported from the same files; each item needs only "path".
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <vector>

#include "saccade/collection/collection_reader.h"
#include "saccade/collection/collection_writer.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/core/threads.h"
#include "saccade/image/image_codec.h"
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
Result<MergeReport> merge_collection(CollectionWriter& into, const CollectionReader& from,
                                     const ProgressCallback& progress = {}, std::stop_token stop = {});

// Writes the three files above into a folder that is missing or empty (kUsage otherwise). Returns the number
// of items. Late interaction embeddings are exported as their means. Memory: the rows and the items.
Result<int64_t> export_collection(const CollectionReader& collection, const std::filesystem::path& folder);

struct ImportOptions {
  // Images of which items.jsonl does not say all are read from their files, within these limits.
  DecodeOptions limits;
  // Import without files: none is looked for, and metadata that items.jsonl lacks stays unknown. Such items are
  // searched, listed, filtered and exported like others, and never pruned (FileIdentity::elsewhere).
  bool no_files = false;
  // Number of rows committed at a time in a folder; 0: as many as are 128 MiB, from 16,384 to 131,072. The same
  // command imports again what a crash or a full disk lost.
  int64_t rows_per_transaction = 0;
};

// Returns the settings that the rows of an export were made with; `nullopt` if nothing in the folder records them.
// A new collection for these rows is created with them.
Result<std::optional<IngestSettings>> exported_settings(const std::filesystem::path& folder);

// Checks that import_rows() could begin with this folder in a new collection of this checkpoint and these settings: the
// errors that import_rows() would return before it adds anything. A collection that is created after this check is not
// left empty by a mistyped folder. Reads headers and the first line of items.jsonl.
Status check_import(const CheckpointId& checkpoint, const IngestSettings& settings,
                    const std::filesystem::path& folder);

struct ImportReport {
  int64_t added = 0;
  int64_t same = 0;  // paths that are there already: what is there stays
  int64_t stayed_out = 0;
  std::vector<Failure> failed;  // pictures that are not there or cannot be read, rows that are no direction
};

// Adds embeddings that were computed elsewhere. The caller guarantees that they come from the collection's
// checkpoint. If there is an export.json, it has to name that checkpoint and, if it records settings, those of the
// collection that embeddings depend on (kMismatch otherwise). Rows are normalized to length 1. Fields of an image that
// items.jsonl lacks are read from its file, at least the hash, unless ImportOptions::no_files. kUsage for a collection with late interaction rows. kCancelled if
// stopped: what was added stays, and the same call continues from there. Lines are parsed, and files read, on
// the pool while earlier ones are written. Memory: the rows of a transaction.
Result<ImportReport> import_rows(CollectionWriter& into, const std::filesystem::path& folder,
                                 const ImportOptions& options, ThreadPool& pool,
                                 const ProgressCallback& progress = {}, std::stop_token stop = {});

}  // namespace saccade
