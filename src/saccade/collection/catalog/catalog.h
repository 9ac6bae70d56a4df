// Types of a collection's catalog, shared by the reader, the writer, ingest and search.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "saccade/core/enum_names.h"
#include "saccade/core/error.h"
#include "saccade/index/late_rows.h"
#include "saccade/index/patch_pool.h"
#include "saccade/model/checkpoints/checkpoint_id.h"
#include "saccade/model/encoder_backend.h"

namespace saccade {

// The newest versions this program reads and writes.
inline constexpr int64_t kCollectionFormatVersion = 2;  // collection.json and the folder's layout; 2 only
                                                        // where rows of late interaction are kept

// Background that transparent images are composited over before encoding. Names: "by_contrast" (or
// "contrast"), "white", "checkpoint".
enum class BackgroundPolicy {
  kByContrast,  // white, or dark grey where the visible pixels are themselves nearly white
                // (choose_background)
  kWhite,
  kCheckpoint,  // as the checkpoint's own preprocessing says
};
std::span<const EnumName<BackgroundPolicy>> enum_names(BackgroundPolicy);

// Storage settings of multi-vector (late interaction) embeddings, for an encoder that returns several per
// item.
struct LateSettings {
  RowPrecision precision = RowPrecision::kFp16;
  // Patches that one stored row stands for (index/patch_pool.h); 1: each its own.
  int64_t pool = 1;
  PatchGrid grid;  // the encoder's
};
inline constexpr int64_t kMaxPool = 64;

// Policy of the int8 copy of the embeddings (index/int8_rows.h). The copy takes a quarter more disk space.
// Searches return the same answers while reading a quarter of the bytes.
enum class Int8Policy { kAuto, kOn, kOff };
inline constexpr std::array<EnumName<Int8Policy>, 3> kInt8PolicyNames{
    {{Int8Policy::kAuto, "auto"}, {Int8Policy::kOn, "on"}, {Int8Policy::kOff, "off"}}};
inline std::span<const EnumName<Int8Policy>> enum_names(Int8Policy) {
  return kInt8PolicyNames;
}
// Number of rows from which kAuto keeps them: 100 MB at 512 columns. With fewer, reading them is a small part of a query.
inline constexpr int64_t kInt8AutoRows = 50'000;

// Settings that define how images are embedded in one collection. They are set at creation and kept in
// collection.json. They apply to all its embeddings and to query images.
struct IngestSettings {
  bool apply_orientation = true;  // EXIF
  bool convert_to_srgb = false;   // from the ICC profile in the file (DecodeOptions)
  BackgroundPolicy background = BackgroundPolicy::kByContrast;
  // Decode JPEGs at a smaller size, at least 2.5 times what the encoder reads (picture.h). Faster, not bit-exact.
  // False here, because embeddings that other programs made are exact, and for collections that do not record it;
  // `index` creates collections with true.
  bool fast_decode = false;
  std::optional<LateSettings> late;  // nothing: the collection has one row an item
  Int8Policy int8_rows = Int8Policy::kAuto;
  Precision precision = Precision::kFp32;  // of the encoder's products
};

// The content of collection.json.
struct CollectionInfo {
  int64_t format_version = 1;
  std::string product_version;  // of the program that made it
  // UTC, "2026-01-31T12:00:00.123456Z"; earlier versions wrote whole seconds. Part of a collection's identity
  // (reencode/reencode.h).
  std::string created;
  CheckpointId checkpoint;
  IngestSettings settings;
  // Identity (reencode/reencode.h) of the collection that this one is filled from with new embeddings. Empty for any other,
  // and in a folder once it has taken the first one's place.
  std::string copy_of = {};
};

// Identity of a file when it was last indexed. Two paths of one device and inode are one file.
struct FileIdentity {
  int64_t device = 0;  // st_dev
  int64_t inode = 0;   // st_ino; 0: not known
  // st_dev of the folder that has the path: not the file's where that is a link, or on an overlay. 0: not known.
  int64_t folder_device = 0;
  bool linked = false;  // the path leads through a symbolic link
  // The item was imported without its file (collection import --no-files): nothing looks for one at the path.
  // The next `index` that finds the file there clears it.
  bool elsewhere = false;

  [[nodiscard]] bool known() const { return inode != 0; }
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

// A size or a time of a file that is not known.
inline constexpr int64_t kUnknownState = -1;

// Returns width x height; the largest int64_t if it is more: a catalog may hold any sizes.
inline int64_t pixel_count(int64_t width, int64_t height) {
  int64_t pixels = 0;
  return __builtin_mul_overflow(width, height, &pixels) ? std::numeric_limits<int64_t>::max() : pixels;
}

// One picture of a collection.
struct Item {
  int64_t id = 0;    // 1 upward, never given to another item, kept when a file changes or moves
  int64_t row = -1;  // its row in the rows file
  std::string path;  // absolute, the bytes the file system uses (mostly, not always, UTF-8)
  // Metadata of the file. An item without one (FileIdentity::elsewhere) may lack any of it: an empty hash or
  // format, a width of 0, and a size and a time of kUnknownState.
  std::string hash;      // SHA-256 of the file, 64 hexadecimal digits
  int64_t size = 0;      // bytes
  int64_t mtime_ns = 0;  // last change of the file, nanoseconds since 1970 UTC
  int64_t width = 0;     // pixels, after orientation
  int64_t height = 0;
  std::string format;   // "jpeg", "png", ... as DecodedImage::format
  std::string caption;  // UTF-8, empty if there is none
  int64_t added = 0;    // seconds since 1970 UTC
  FileIdentity file;    // of a frame: the video's
};

// A file that could not be indexed. If its bytes are at fault, it is skipped while its size and time stay the
// same, unless a retry is requested. Failures that may not depend on the bytes (permission, a failing disk,
// memory or time that ran out, the encoder) are retried at every run. Their size and time are kUnknownState.
struct Failure {
  std::string path;
  ErrorCode code = ErrorCode::kInternal;
  std::string reason;
  int64_t size = kUnknownState;
  int64_t mtime_ns = kUnknownState;
  int64_t when = 0;  // of the last try, seconds since 1970 UTC
  int64_t tries = 1;
};

// Figures for `collection info`.
struct CollectionSummary {
  int64_t items = 0;
  int64_t rows = 0;        // in the rows file, those of removed items included
  int64_t dead_rows = 0;   // what `compact` would drop
  int64_t generation = 0;  // of the rows file; each `compact` makes the next
  int64_t failures = 0;
  int64_t captions = 0;           // items that have one
  int64_t looked_at = 0;          // items whose pixels are known to be a photograph or not
  int64_t photographs = 0;        // of these (image/metadata/look.h)
  int64_t removed = 0;            // pictures taken out to stay out
  int64_t without_files = 0;      // items that were imported without their files
  int64_t distinct_contents = 0;  // different hashes; kUnknownState if they are not counted
  int64_t file_bytes = 0;         // the pictures' own
  int64_t catalog_bytes = 0;      // catalog.sqlite and its log
  int64_t row_bytes = 0;
  int64_t int8_rows = 0;  // rows that are there in eight bits too
  int64_t int8_bytes = 0;
  int64_t late_rows = 0;  // stored rows of late interaction, those of removed items included
  int64_t late_bytes = 0;
  std::map<std::string, int64_t> formats;  // format -> items
};

}  // namespace saccade
