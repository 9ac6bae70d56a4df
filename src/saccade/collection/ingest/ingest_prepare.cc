#include "saccade/collection/ingest/ingest_prepare.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <fcntl.h>
#include <mutex>
#include <unistd.h>
#include <utility>

#include "saccade/collection/picture.h"
#include "saccade/collection/places.h"
#include "saccade/core/files/files.h"
#include "saccade/core/hash.h"
#include "saccade/core/seconds_since.h"
#include "saccade/image/frame_name.h"
#include "saccade/image/metadata/look.h"

namespace saccade {
namespace {

using Clock = std::chrono::steady_clock;

// A stop ends what is being decoded, not only what waits for it.
DecodeOptions with_stop(const IngestOptions& options, std::stop_token stop) {
  DecodeOptions limits = options.limits;
  limits.stop = std::move(stop);
  limits.facts = options.facts;
  return limits;
}

}  // namespace

FactsRead facts_of(const DecodeOptions& limits) {
  return limits.processes != nullptr ? FactsRead::kEverything : FactsRead::kPixels;
}

// Files that are prepared together. Threads take them one by one.
struct FilePreparer::Block {
  explicit Block(std::vector<FileTask> given)
      : tasks(std::move(given)), files(tasks.size()), begun(tasks.size()) {}

  std::vector<FileTask> tasks;
  std::vector<PreparedFile> files;
  std::vector<uint8_t> begun;
  std::shared_ptr<Matrix<float>> pixels;  // a row for each file
  std::atomic<size_t> next{0};            // the first file that no thread has taken

  std::mutex mutex;  // of what follows
  std::condition_variable done;
  int working = 0;  // threads that are at it, or will be
  std::exception_ptr thrown;
  double read_seconds = 0;
  int64_t bytes_read = 0;

  // Waits until no thread works on it.
  void wait() {
    std::unique_lock lock(mutex);
    done.wait(lock, [this] { return working == 0; });
  }
};

FilePreparer::FilePreparer(const CollectionWriter& collection, const EncoderBackend& encoder,
                           const IngestOptions& options, ThreadPool& pool, std::stop_token stop)
    : collection_(collection),
      preprocessing_(encoder.preprocessing()),
      facts_(options.facts),
      places_(options.places),
      pool_(pool),
      with_caller_(std::move(stop), [this] { ended_.request_stop(); }),
      reader_(picture_decode_options(collection.info().settings, encoder.preprocessing(),
                                     with_stop(options, ended_.get_token())),
              options.pixels_in_flight, pool.size()) {}

FilePreparer::~FilePreparer() {
  drop();
}

void FilePreparer::drop() {
  if (started_.empty()) return;
  ended_.request_stop();
  for (const auto& block : started_) block->wait();
  started_.clear();
}

// New memory for every block would cost a page fault for each 4 KiB of it.
std::shared_ptr<Matrix<float>> FilePreparer::block_of(int64_t rows) {
  for (const auto& block : blocks_) {
    if (block.use_count() == 1 && block->rows() >= rows) return block;
  }
  const int64_t columns = int64_t{3} * preprocessing_.output_height() * preprocessing_.output_width();
  return blocks_.emplace_back(std::make_shared<Matrix<float>>(rows, columns));
}

ItemFacts FilePreparer::item_facts(const PictureView& picture) const {
  ItemFacts facts;
  facts.picture = picture.facts;
  facts.caption = caption_of(picture.facts);
  if (places_ != nullptr && picture.facts.latitude && picture.facts.longitude) {
    // A file of towns that cannot be read costs the name of the place, and nothing else.
    facts.place = places_->nearest(*picture.facts.latitude, *picture.facts.longitude).value_or("");
  }
  const PictureLook look = look_of(picture.image);
  facts.look = look.hash;
  facts.grain = look.grain;
  facts.read = facts_of(reader_.options());
  return facts;
}

void FilePreparer::prepare_one(Block& block, size_t number) {
  PreparedFile& file = block.files[number];
  file.task = std::move(block.tasks[number]);
  // The file's bytes, unless what the catalog knows of them says that they need not be decoded.
  const auto bytes = [&]() -> Result<std::optional<std::string>> {
    const auto start = Clock::now();
    std::string content;
    if (file.task.frame) {
      content = file.task.frame->picture;
      file.hash = file.task.frame->hash;
    } else {
      SACCADE_ASSIGN(content, read_file(file.task.path, reader_.options().max_bytes));
      file.hash = sha256_hex(content);
    }
    {
      const std::lock_guard lock(block.mutex);
      block.read_seconds += seconds_since(start);
      block.bytes_read += static_cast<int64_t>(content.size());
    }
    file.same_content = file.task.existing && file.task.existing->hash == file.hash;
    if (file.same_content) {
      const bool measured = file.task.existing->width > 0;  // unless it was imported without its file
      return file.task.wants_facts || !measured ? std::optional(std::move(content))
                                                : std::optional<std::string>();
    }
    const auto known = collection_.find_hash(file.hash);
    file.catalog_failed = !known;
    SACCADE_TRY(known);
    file.known_content = !known->empty();
    if (file.known_content) return std::optional<std::string>();
    return std::optional(std::move(content));
  };
  const auto use = [&](const PictureView& picture) -> Status {
    file.picture = picture;
    file.picture.image = {};
    if (facts_) file.facts = item_facts(picture);
    if (const FrameSource* frame = file.task.frame.get()) {
      file.picture.format = kVideoFormat;
      file.picture.original_width = frame->width;
      file.picture.original_height = frame->height;
      if (file.facts) file.facts->picture = frame->facts;
    }
    if (file.same_content) return {};
    file.block = block.pixels;
    file.row = static_cast<int64_t>(number);
    return preprocess_picture(picture.image, preprocessing_, collection_.info().settings,
                              block.pixels->row(file.row));
  };
  PictureReader::Outcome outcome = reader_.read(bytes, file.task.state.size, use);
  file.error = std::move(outcome.error);
  file.of_the_bytes = outcome.of_the_bytes;
}

// Takes files of the block until there are none.
void FilePreparer::work_on(Block& block) {
  std::exception_ptr thrown;
  try {
    while (!ended_.stop_requested()) {
      const size_t number = block.next++;
      if (number >= block.tasks.size()) break;
      block.begun[number] = 1;
      prepare_one(block, number);
    }
  } catch (...) {
    thrown = std::current_exception();
    block.next = block.tasks.size();
  }
  const std::lock_guard lock(block.mutex);
  if (thrown && !block.thrown) block.thrown = thrown;
  if (--block.working == 0) block.done.notify_all();
}

void FilePreparer::start(std::vector<FileTask> tasks) {
  const auto block = std::make_shared<Block>(std::move(tasks));
  block->pixels = block_of(std::ssize(block->tasks));
  const int threads = static_cast<int>(std::min<int64_t>(pool_.size(), std::ssize(block->tasks)));
  started_.push_back(block);
  for (int i = 0; i < threads; ++i) {
    {
      const std::lock_guard lock(block->mutex);
      ++block->working;
    }
    try {
      pool_.submit([this, block] { work_on(*block); });
    } catch (...) {  // out of memory: the threads that were reached do it all, if there are any
      const std::lock_guard lock(block->mutex);
      if (--block->working == 0) block->thrown = std::current_exception();
      break;
    }
  }
}

std::vector<PreparedFile> FilePreparer::finish() {
  const std::shared_ptr<Block> block = std::move(started_.front());
  started_.pop_front();
  block->wait();
  if (block->thrown) std::rethrow_exception(block->thrown);
  read_seconds_ += block->read_seconds;
  bytes_read_ += block->bytes_read;
  block->files.resize(static_cast<size_t>(std::ranges::find(block->begun, 0) - block->begun.begin()));
  return std::move(block->files);
}

std::vector<PreparedFile> FilePreparer::prepare(std::vector<FileTask> tasks) {
  if (tasks.empty()) return {};
  start(std::move(tasks));
  return finish();
}

void FilePreparer::announce(std::span<const FileTask> tasks) {
  for (const FileTask& task : tasks) {
    const Descriptor file(::open(task.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (file.get() >= 0) static_cast<void>(::posix_fadvise(file.get(), 0, 0, POSIX_FADV_WILLNEED));
  }
}

void FilePreparer::add_to(IngestReport& report) const {
  const PictureReader::Seconds seconds = reader_.seconds();
  report.seconds.read += read_seconds_;
  report.seconds.decode += seconds.decode;
  report.seconds.preprocess += seconds.use;
  report.bytes_read += bytes_read_;
}

}  // namespace saccade
