// The first half of taking pictures in: what a file is. Not for use outside this module.
//
// Files are read, hashed, decoded and preprocessed on a pool's threads, in blocks, while the caller decides about
// and encodes those before. Nothing is decided and nothing is changed here (that is ingest_decide.h).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "saccade/collection/catalog/catalog.h"
#include "saccade/collection/collection_writer.h"
#include "saccade/collection/file_state.h"
#include "saccade/collection/ingest/ingest_options.h"
#include "saccade/core/error.h"
#include "saccade/core/threads.h"
#include "saccade/image/read_pixels.h"
#include "saccade/matrix.h"
#include "saccade/model/encoder_backend.h"

namespace saccade {

// Returns the amount of metadata that is read with such options.
FactsRead facts_of(const DecodeOptions& limits);

// A frame of a video, in the place of a file's bytes.
struct FrameSource {
  std::string picture;  // a JPEG
  std::string hash;     // of the video, with the frame's fragment behind it
  PictureFacts facts;
  int width = 0;  // of the video
  int height = 0;
};

// An item of another collection, whose file is encoded anew. All that is kept of it goes with it.
struct CarriedItem {
  Item item;
  ItemFacts facts;
};

// A file that may be new or changed.
struct FileTask {
  std::string path;
  FileState state;
  std::optional<Item> existing;  // the item of this path
  std::string caption;
  bool wants_facts = false;                         // nothing is kept of it yet, or less than could be
  std::shared_ptr<const FrameSource> frame = {};    // where `path` is a frame's name
  std::shared_ptr<const CarriedItem> carried = {};  // `nullptr`: the file says all that is to be known of it
};

// A file after it has been read.
struct PreparedFile {
  FileTask task;
  std::string hash;
  bool same_content = false;   // as the item of this path has
  bool known_content = false;  // another item has it: not decoded
  PictureView picture;         // format and size; its pixels are gone
  // Encoder input: row `row` of a block's pixels. `nullptr` if the image was not decoded.
  std::shared_ptr<const Matrix<float>> block;
  int64_t row = 0;
  std::optional<ItemFacts> facts;  // where it was decoded, and facts are kept
  std::optional<Error> error;
  bool of_the_bytes = false;    // the error is a property of the file's bytes
  bool catalog_failed = false;  // the error is the collection's, not this file's
};

class FilePreparer {
 public:
  FilePreparer(const CollectionWriter& collection, const EncoderBackend& encoder,
               const IngestOptions& options, ThreadPool& pool, std::stop_token stop);
  // As drop().
  ~FilePreparer();
  FilePreparer(const FilePreparer&) = delete;
  FilePreparer& operator=(const FilePreparer&) = delete;

  // Starts preparing a block of files on the pool's threads, behind the blocks started before it.
  void start(std::vector<FileTask> tasks);
  // Waits for the oldest block that was started, and returns its files in the order of the tasks. When stopped,
  // tasks that have not begun are omitted, so the result may be shorter. Rethrows an exception of a thread (out
  // of memory). Must not be called from inside a task of the pool.
  std::vector<PreparedFile> finish();
  // Ends the blocks that were started, and waits for what their threads are doing. The preparer is of no more use
  // then.
  void drop();
  // Prepares one block: start() and finish(). No other block may be started.
  std::vector<PreparedFile> prepare(std::vector<FileTask> tasks);
  // Tells the system that these files will be read soon, so that it may fetch them meanwhile.
  static void announce(std::span<const FileTask> tasks);

  // Adds the work of finished blocks: seconds.read, decode and preprocess, and bytes_read.
  void add_to(IngestReport& report) const;

 private:
  struct Block;
  void prepare_one(Block& block, size_t number);
  void work_on(Block& block);
  [[nodiscard]] ItemFacts item_facts(const PictureView& picture) const;
  std::shared_ptr<Matrix<float>> block_of(int64_t rows);

  const CollectionWriter& collection_;
  const Preprocessing& preprocessing_;
  const bool facts_;
  const Gazetteer* const places_;
  ThreadPool& pool_;
  std::stop_source ended_;  // by the caller's stop, or by drop()
  std::stop_callback<std::function<void()>> with_caller_;
  PictureReader reader_;
  std::deque<std::shared_ptr<Block>> started_;
  // Pixels of blocks: memory that nobody holds any more is taken for the next block.
  std::vector<std::shared_ptr<Matrix<float>>> blocks_;
  double read_seconds_ = 0;
  int64_t bytes_read_ = 0;
};

}  // namespace saccade
