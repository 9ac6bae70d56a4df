#include "saccade/collection/ingest/ingest_prepare.h"

#include <algorithm>
#include <chrono>
#include <fcntl.h>
#include <mutex>
#include <unistd.h>
#include <utility>

#include "saccade/collection/picture.h"
#include "saccade/collection/places.h"
#include "saccade/core/files/files.h"
#include "saccade/core/hash.h"
#include "saccade/image/frame_name.h"
#include "saccade/image/metadata/look.h"

namespace saccade {
namespace {

using Clock = std::chrono::steady_clock;

// A stop ends what is being decoded, not only what waits for it.
DecodeOptions with_stop(const IngestOptions& options, const std::stop_token& stop) {
  DecodeOptions limits = options.limits;
  limits.stop = stop;
  limits.facts = options.facts;
  return limits;
}

}  // namespace

FactsRead facts_of(const DecodeOptions& limits) {
  return limits.processes != nullptr ? FactsRead::kEverything : FactsRead::kPixels;
}

// Results of the threads of one call.
struct FilePreparer::Work {
  std::mutex mutex;
  double read_seconds = 0;
  int64_t bytes_read = 0;
};

FilePreparer::FilePreparer(const CollectionWriter& collection, const EncoderBackend& encoder,
                           const IngestOptions& options, ThreadPool& pool, std::stop_token stop)
    : collection_(collection),
      preprocessing_(encoder.preprocessing()),
      facts_(options.facts),
      places_(options.places),
      pool_(pool),
      stop_(std::move(stop)),
      reader_(picture_decode_options(collection.info().settings, encoder.preprocessing(),
                                     with_stop(options, stop_)),
              options.pixels_in_flight, pool.size()) {}

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

void FilePreparer::prepare_one(PreparedFile& file, const std::shared_ptr<Matrix<float>>& block, int64_t row,
                               Work& work) {
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
      const std::lock_guard lock(work.mutex);
      work.read_seconds += std::chrono::duration<double>(Clock::now() - start).count();
      work.bytes_read += static_cast<int64_t>(content.size());
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
    file.block = block;
    file.row = row;
    return preprocess_picture(picture.image, preprocessing_, collection_.info().settings, block->row(row));
  };
  PictureReader::Outcome outcome = reader_.read(bytes, file.task.state.size, use);
  file.error = std::move(outcome.error);
  file.of_the_bytes = outcome.of_the_bytes;
}

std::vector<PreparedFile> FilePreparer::prepare(std::vector<FileTask> tasks) {
  std::vector<PreparedFile> files(tasks.size());
  std::vector<uint8_t> begun(tasks.size());
  const std::shared_ptr<Matrix<float>> block = block_of(static_cast<int64_t>(tasks.size()));
  Work work;
  pool_.parallel_for(static_cast<int64_t>(tasks.size()), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      if (stop_.stop_requested()) return;
      begun[i] = 1;
      files[i].task = std::move(tasks[i]);
      prepare_one(files[i], block, static_cast<int64_t>(i), work);
    }
  });
  files.resize(static_cast<size_t>(std::ranges::find(begun, 0) - begun.begin()));
  read_seconds_ += work.read_seconds;
  bytes_read_ += work.bytes_read;
  return files;
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
