// Pictures that a collection holds more than once: as they are, in another form, or nearly.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/collection/collection_reader.h"
#include "saccade/core/enum_names.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/core/threads.h"
#include "saccade/progress.h"

namespace saccade {

// Kinds of similarity between two images, strongest first. Names: "bytes", "image" (earlier: "picture"), "burst".
enum class Likeness {
  kSameBytes,    // equal files
  kSamePicture,  // one was made of the other: recompressed, resized, cropped a little, brightened
  kBurst,        // taken one after the other of the same thing
};
std::span<const EnumName<Likeness>> enum_names(Likeness);

struct DuplicateOptions {
  Likeness least = Likeness::kSamePicture;  // how alike at least
  // Maximum Hamming distance in bits of perceptual hashes (image/metadata/look.h) and minimum cosine
  // similarity for two copies of one photograph. Both are required. docs/collections.md has their measured
  // precision.
  int hash_bits = 12;
  double cosine = 0.9;
  // The same thresholds if at least one is a drawing. They are stricter, as icons that differ in a colour or
  // a stroke are different.
  int drawing_hash_bits = 6;
  double drawing_cosine = 0.995;
  // Maximum time in seconds between two images of a burst (by embedded metadata), and their minimum cosine
  // similarity.
  int64_t burst_seconds = 5;
  double burst_cosine = 0.95;
};

struct DuplicateMember {
  Item item;
  // Other paths of the collection that lead to the same file: links, hard links, mounts.
  std::vector<std::string> other_names;
  std::optional<int64_t> taken;
  Likeness likeness = Likeness::kSameBytes;  // to the best of its group; of the best itself kSameBytes
  int hash_bits = 0;                         // in which it differs from the best
  double cosine = 1;                         // to the best's row
  bool photographs = false;                  // it and the best both are
};

struct DuplicateGroup {
  Likeness likeness = Likeness::kSameBytes;  // the least that holds the group together
  std::vector<DuplicateMember> members;      // the best first, then by likeness, then by id
  std::string why_best;                      // "the most pixels (4000 x 3000)"
  int64_t spare_bytes = 0;  // of all but the best; links, and files with names elsewhere, have none
};

struct DuplicateReport {
  std::vector<DuplicateGroup> groups;  // the most spare bytes first
  int64_t items = 0;                   // looked at
  int64_t not_looked_at = 0;           // items without a perceptual hash: compared by their bytes alone
  int64_t gone = 0;                    // items left out of groups: their files are gone, and another is here
};

// Finds groups of duplicates. Each item is in one group at most. Paths of one device and inode are one
// member. Nothing is changed and no file is read; files of groups are only checked by stat. An item whose file is
// gone is left out of a group that has a file here. Files with equal hashes count as equal bytes. kCancelled if
// stopped. Cost: a comparison of 64 bits for each pair of different files (some 5 s for 100,000 on two cores), and
// a dot product of rows if they are near. Deterministic.
Result<DuplicateReport> find_duplicates(const CollectionReader& collection, const DuplicateOptions& options,
                                        ThreadPool& pool, const ProgressCallback& progress = {},
                                        std::stop_token stop = {});

Json duplicates_json(const DuplicateReport& report);
// Formats the report for people, one paragraph per group.
std::string duplicates_text(const DuplicateReport& report);
// A script for sh that removes all but the best of each group; run by nobody but its reader. Each removal
// looks first that the best is still there and another file (and, of equal files, still equal). Links are not
// removed, nor files that a link of the collection leads to. An item without a file on this host is neither
// removed nor kept in place of one that has a file. Removals of bursts are comments, and so are those of drawings
// and of formats with several pages or frames (GIF, TIFF, WebP) that are not equal files. Paths are quoted whatever
// they hold.
std::string duplicates_script(const DuplicateReport& report);
// `text` as one word of sh.
std::string shell_quoted(std::string_view text);

}  // namespace saccade
