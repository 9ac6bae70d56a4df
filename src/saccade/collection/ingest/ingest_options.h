// Options of ingest (ingest.h), and its report.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "saccade/collection/catalog/catalog.h"
#include "saccade/core/error.h"
#include "saccade/image/decode/video.h"
#include "saccade/image/image_codec.h"

namespace saccade {

class Gazetteer;

// Checks that are made before an item is removed because its file is gone.
enum class PruneGuard {
  kInputs,   // the input is there and not an empty folder; and as kDevices
  kDevices,  // the nearest folder that is there lies on the device that the file's folder was on
  kNothing,
};

struct IngestOptions {
  // Remove items under the inputs whose files are gone. Without it they are only counted (`missing`).
  bool prune = false;
  // Items that `prune` keeps, and reports as a failure of their folder, as their files may only be away.
  PruneGuard prune_guard = PruneGuard::kInputs;
  // Part `shard` (from 0) of `shards` of the files and items, by a hash of their paths: for workers that share the inputs.
  int64_t shard = 0;
  int64_t shards = 1;
  // Try files again whose bytes were found to be at fault before and that have not changed since. Other
  // failures (permission, memory, time) are tried again in any case.
  bool retry_failed = false;
  // Follow links to folders (each folder is visited once, so that loops end). Links to files always are.
  bool follow_links = false;
  // Take in files and folders whose names begin with a dot, when found in folders.
  bool hidden = false;
  // Patterns to exclude, as lines of an ignore file (ignore_rules.h). They apply in each folder of the inputs
  // and override the ignore files there.
  std::vector<std::string> exclude;
  // Obey the files called kIgnoreFileName in the folders walked.
  bool ignore_files = true;
  // Keep what files say of themselves (image/metadata/facts.h), where `limits` has processes.
  bool facts = true;
  // Names the places of pictures that say where they were taken. Not owned; nullptr: nobody does.
  const Gazetteer* places = nullptr;
  // Take rows of an encoder of another precision than the collection's; otherwise one is kMismatch.
  bool mix_precisions = false;
  // Read captions from "picture.txt" or "picture.jpg.txt" beside "picture.jpg", of at most 64 KiB.
  bool sidecar_captions = true;
  // Captions from elsewhere (a manifest), by path, absolute or relative to the working directory; they win
  // over sidecar files. A run that has no caption for an item leaves the one it has.
  std::map<std::string, std::string> captions;

  // Programs that read videos (image/decode/video.h); `nullopt` skips videos.
  std::optional<VideoTools> video_tools;
  VideoOptions videos;  // `threads` and `stop` are the run's

  // Limits a file: max_bytes, max_pixels, max_seconds and processes are used, the rest follows from the
  // collection's settings. With processes, a stop ends what is being decoded.
  DecodeOptions limits;
  // Pixels decoded at the same time, all threads together. A larger picture is decoded alone.
  int64_t pixels_in_flight = 100'000'000;
  // Pictures an encoder call.
  int batch = 32;
  // A transaction is written after this many items or seconds, whichever comes first.
  int64_t items_per_transaction = 512;
  double seconds_per_transaction = 10;
};

// Counts of the files that a walk skipped, so that users can see why images are missing.
struct NotLookedAt {
  std::map<std::string, int64_t>
      endings;         // files that are no pictures by their names: ".cr2" -> how many; "" for none
  int64_t hidden = 0;  // files and folders whose names begin with a dot
  int64_t folder_links = 0;
  int64_t broken_links = 0;  // links with a picture's ending that lead nowhere
  int64_t excluded = 0;      // files and folders that ignore files or `exclude` keep out
  // Folders that are collections of their own, in the order found: the files that these consist of are not
  // counted, and pictures that lie beside them are taken.
  std::vector<std::string> collections = {};
};

struct IngestReport {
  int64_t seen = 0;            // files looked at
  int64_t added = 0;           // new items, duplicates included
  int64_t updated = 0;         // items whose file had changed
  int64_t moved = 0;           // items whose file was found under another path; encoded row and id kept
  int64_t unchanged = 0;       // with those whose time alone, or caption alone, had changed
  int64_t removed = 0;         // with `prune`
  int64_t missing = 0;         // files gone, items kept: without `prune`, or where that was refused
  int64_t duplicates = 0;      // among `added`: the same bytes as another item; not encoded again
  int64_t stayed_out = 0;      // taken out of the collection before, to stay out
  int64_t videos = 0;          // that were looked into; their frames are counted as the items that they are
  int64_t given_captions = 0;  // files that IngestOptions::captions has one for, unchanged ones included
  int64_t facts_read = 0;  // unchanged items, looked into for what their files say, which was not kept before
  NotLookedAt not_looked_at;
  bool encoder_used = false;    // it was asked for: something was to be read
  int64_t skipped_failed = 0;   // their bytes were at fault before, and are unchanged since
  std::vector<Failure> failed;  // in this run, by path; unreadable folders and missing inputs among them
  // Caption files that could not be read or are too long, by path; their images are indexed without a
  // caption.
  std::vector<Failure> unread_captions;
  bool cancelled = false;  // asked to stop: all counted above is committed, the same call goes on from here

  int64_t bytes_read = 0;
  // Seconds of work: read, decode and preprocess summed over
  // threads; walk, encode and write on the calling thread. The two go on at the same time.
  struct Seconds {
    double total = 0;  // from start to end
    double walk = 0;
    double read = 0;  // and hashing
    double decode = 0;
    double preprocess = 0;
    double encode = 0;
    double write = 0;
    double waiting = 0;  // the calling thread for a block of pictures
  } seconds;
};

}  // namespace saccade
