#include "lab/train/data/picture_store.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <sys/stat.h>

#include "lab/data/read_dataset.h"
#include "saccade/core/hash.h"
#include "saccade/image/decode/square.h"
#include "saccade/image/read_pixels.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;

// Flag bits of an item; 0 means missing.
constexpr uint8_t kPresent = 1;
constexpr uint8_t kTransparent = 2;
constexpr uint8_t kOneColour = 4;

// Version of decoding and layout. Increase it when these change, so that old files are not read.
constexpr int kCacheVersion = 2;

std::string cache_name(std::span<const DatasetItem> items, int side) {
  Sha256 hash;
  hash.update(fmt::format("{} {}\n", kCacheVersion, side));
  for (const DatasetItem& item : items) {
    struct stat info {};
    const bool there = ::stat(item.image.path.c_str(), &info) == 0;
    hash.update(fmt::format("{}\n{} {}.{}\n", item.image.name(), there ? info.st_size : -1,
                            there ? info.st_mtim.tv_sec : 0, there ? info.st_mtim.tv_nsec : 0));
  }
  return fmt::format("pictures-{}-{}.bin", side, hash.hex().substr(0, 16));
}

uint8_t flags_of(std::span<const uint8_t> pixels) {
  bool transparent = false;
  double sum[3] = {0, 0, 0};
  double weight = 0;
  for (size_t i = 0; i < pixels.size(); i += 4) {
    transparent = transparent || pixels[i + 3] < 255;
    for (size_t c = 0; c < 3; ++c) sum[c] += pixels[i + c];
    weight += pixels[i + 3];
  }
  if (!transparent || weight == 0) return transparent ? kPresent | kTransparent : kPresent;
  // If there is only one colour, the premultiplied colour is mean colour x alpha everywhere.
  for (size_t i = 0; i < pixels.size(); i += 4) {
    for (size_t c = 0; c < 3; ++c) {
      const double expected = sum[c] / weight * pixels[i + 3];
      if (std::abs(expected - pixels[i + c]) > 12) return kPresent | kTransparent;
    }
  }
  return kPresent | kTransparent | kOneColour;
}

}  // namespace

std::span<const uint8_t> PictureStore::bytes() const {
  if (!memory_.empty()) return memory_;
  const auto mapped = file_.bytes();
  return {reinterpret_cast<const uint8_t*>(mapped.data()), mapped.size()};
}

StoredPicture PictureStore::picture(int64_t i) const {
  const uint8_t flags = this->flags()[static_cast<size_t>(i)];
  return {.pixels = bytes().data() + static_cast<size_t>(i) * picture_bytes(),
          .side = side_,
          .transparent = (flags & kTransparent) != 0,
          .one_colour = (flags & kOneColour) != 0};
}

Result<PictureStore> PictureStore::build(std::span<const DatasetItem> items, int side, const fs::path& cache,
                                         DecoderPool* processes, ThreadPool& pool,
                                         const ProgressCallback& progress, std::stop_token stop) {
  PictureStore store;
  store.side_ = side;
  const size_t stride = store.picture_bytes();
  store.pixel_bytes_ = items.size() * stride;
  const size_t total_bytes = store.pixel_bytes_ + items.size();
  const fs::path file = cache.empty() ? fs::path() : cache / cache_name(items, side);
  std::error_code ignored;
  if (!cache.empty() && fs::exists(file, ignored)) {
    SACCADE_ASSIGN(store.file_, MappedFile::open(file));
    if (store.file_.bytes().size() == total_bytes) {
      for (size_t i = 0; i < items.size(); ++i) {
        if (store.has(static_cast<int64_t>(i))) continue;
        store.failures_.push_back(
            fmt::format("{}: could not be read when {} was made; delete that to try again",
                        items[i].image.name(), file.string()));
      }
      return store;
    }
    store.file_ = MappedFile();  // cut short: made again
  }

  store.memory_.assign(std::max<size_t>(total_bytes, 1), 0);
  std::mutex mutex;
  std::atomic<int64_t> done{0};
  DecodeOptions decode;
  decode.vector_side = 2 * side;  // some detail to sample from, little enough to be quick
  decode.shrink_to_side = 2 * side;
  decode.processes = processes;
  decode.stop = stop;
  PictureReader reader(decode, kPixelsInFlight, pool.size());
  pool.parallel_for(static_cast<int64_t>(items.size()), 8, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end && !stop.stop_requested(); ++i) {
      const DatasetItem& item = items[static_cast<size_t>(i)];
      const auto bytes = [&]() -> Result<std::optional<std::string>> {
        return read_image_bytes(item.image, decode.max_bytes);
      };
      const auto use = [&](const PictureView& picture) -> Status {
        const Image small = premultiplied_square(picture.image, side);
        uint8_t* out = store.memory_.data() + static_cast<size_t>(i) * stride;
        std::copy(small.pixels.begin(), small.pixels.end(), out);
        store.memory_[store.pixel_bytes_ + static_cast<size_t>(i)] = flags_of({out, stride});
        return {};
      };
      const auto outcome = reader.read(bytes, 0, use);
      if (!outcome.error) continue;
      const std::lock_guard lock(mutex);
      store.failures_.push_back(outcome.error->in(item.image.name()).message);
    }
    const int64_t now = done += end - begin;
    if (progress) {
      const std::lock_guard lock(mutex);
      progress({.what = "decoding", .done = now, .total = static_cast<int64_t>(items.size()), .detail = {}});
    }
  });
  if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "stopped while decoding the training images");
  std::sort(store.failures_.begin(), store.failures_.end());
  store.file_to_keep_ = file;
  return store;
}

Status PictureStore::keep() const {
  if (file_to_keep_.empty()) return {};
  SACCADE_TRY(make_folders(file_to_keep_.parent_path()));
  SACCADE_ASSIGN(AtomicFile out, AtomicFile::create(file_to_keep_));
  SACCADE_TRY(out.write(std::as_bytes(bytes())));
  return out.commit();
}

std::string PictureStore::sha256(int64_t begin, int64_t end) const {
  const size_t stride = picture_bytes();
  const auto first = static_cast<size_t>(begin);
  const auto count = static_cast<size_t>(end - begin);
  Sha256 hash;
  hash.update(std::as_bytes(flags().subspan(first, count)));
  hash.update(std::as_bytes(bytes().subspan(first * stride, count * stride)));
  return hash.hex();
}

}  // namespace saccade::lab
