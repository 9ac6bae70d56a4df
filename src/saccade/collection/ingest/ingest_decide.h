// The second half of taking pictures in: what becomes of a file. Not for use outside this module.
//
// One thread decides, file by file in the order of the walk: unchanged, changed, moved, a copy, new or
// failed. It encodes what is new in batches and commits in transactions, so that ids and batches do
// not depend on timing.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "saccade/collection/collection_writer.h"
#include "saccade/collection/ingest/ingest_options.h"
#include "saccade/collection/ingest/ingest_prepare.h"
#include "saccade/collection/ingest/mounts.h"
#include "saccade/core/error.h"
#include "saccade/matrix.h"
#include "saccade/model/encoder_backend.h"

namespace saccade {

// Why the file of another collection's item is not encoded.
inline constexpr std::string_view kChangedSince =
    "the file has changed since it was indexed: run saccade index first";

// A failure for the catalog and the report, without the path in front of its reason.
Failure failure_of(const std::string& path, Error error);

class IngestDecider {
 public:
  // `report` gets counts, failures, and the seconds of encoding and writing.
  IngestDecider(CollectionWriter& collection, const IngestOptions& options, IngestReport& report);
  // Before the first call of `take`.
  void use(EncoderBackend& encoder) { encoder_ = &encoder; }

  // Returns the work that a file found by the walk needs. Returns `nullopt` if it is unchanged, or failed
  // before and is to be skipped.
  Result<std::optional<FileTask>> offer(const std::string& path, std::string caption);
  // Records the identity of the unchanged file of `item`.
  void note_identity(Item& item, const FileIdentity& now);
  // The devices that items were seen on in this run.
  Mounts& mounts() { return mounts_; }
  // Decides. A path that comes back is to be offered and prepared again: the catalog changed meanwhile.
  Result<std::optional<std::string>> take(PreparedFile file);
  // Ends a block of files that were prepared together, and commits if it is time to. A commit within a block
  // would split a batch.
  Status end_block();
  // Encodes what waits for it, then commits; `take` does so itself when enough has come together.
  Status finish();
  // Commits what has been encoded and drops what waits for the encoder.
  Status stop();

  // Defers commits between hold() and release(), so that the files added meanwhile become visible together.
  // The caller ends with release() and finish(), or with drop().
  void hold() { held_ = true; }
  void release() { held_ = false; }
  // Forgets what was taken since the last commit.
  void drop();
  // Additional changes to commit in the same transaction, except `puts` and its consequences.
  CollectionChange& beside() { return change_; }

  // A failure that the run reports and the catalog does not remember.
  void report_failure(const std::string& path, Error error);

 private:
  // An item on its way into the catalog.
  struct Pending {
    Item item;
    std::vector<float> values;    // its row, once encoded
    std::vector<std::byte> late;  // and those of late interaction, where the collection keeps such
    int64_t copy_of = -1;         // index of the pending item with the same content
    bool duplicate = false;
    int64_t wanted_id = 0;  // CollectionChange::Put::wanted_id
    std::optional<ItemFacts> facts;
    std::optional<Error> error;  // the encoder gave no usable row
  };

  Result<std::optional<Item>> find_moved(const std::string& hash);
  Result<bool> stays_out(const PreparedFile& file);
  Result<bool> follow_failure(const FileTask& task);
  Result<bool> wants_facts(const Item& item);
  void remove_unreadable(const FileTask& task, ErrorCode code);
  Status take_same(Item item, PreparedFile& file);
  Status drop_embedded_caption(Item& item, const FileTask& task);
  Result<std::optional<std::string>> take_carried(PreparedFile file);
  Status take_known(Item item, const Item& known, const CarriedItem* carried = nullptr);
  Status take_new(Item item, PreparedFile file);
  void add_failure(const std::string& path, Error error, std::optional<FileState> state);
  Status encode_rows(MatrixView<const float> pixels);
  Status encode_late(MatrixView<const float> pixels);
  MatrixView<const float> batch_pixels();
  Status encode_batch();
  Status flush();
  Status flush_if_due();

  CollectionWriter& collection_;
  EncoderBackend* encoder_ = nullptr;
  const IngestOptions& options_;
  IngestReport& report_;
  const int batch_size_;

  std::vector<Pending> pending_;
  std::unordered_map<std::string, int64_t> pending_hashes_;
  // Entry that waits for the encoder: an index into pending_, and the location of its pixels.
  struct Waiting {
    int64_t pending = 0;
    std::shared_ptr<const Matrix<float>> block;
    int64_t row = 0;
  };
  std::vector<Waiting> batch_;
  Matrix<float> gathered_;   // pixels of a batch that are not together
  CollectionChange change_;  // all but the puts
  bool held_ = false;
  int64_t pending_bytes_ = 0;  // of late rows
  // Last item that was checked for having moved, by hash of existing content.
  std::unordered_map<std::string, int64_t> examined_;
  int64_t pending_moved_ = 0;
  int64_t pending_unchanged_ = 0;
  int64_t pending_facts_ = 0;
  // Failures whose files are gone, by size and time: looked for once a run, when a file is new.
  std::optional<std::map<std::pair<int64_t, int64_t>, std::vector<Failure>>> gone_failures_;
  Mounts mounts_;
  std::chrono::steady_clock::time_point last_flush_ = std::chrono::steady_clock::now();
};

}  // namespace saccade
