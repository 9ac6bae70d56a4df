#include "lab/data/audit_images.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <optional>

#include "lab/data/read_dataset.h"
#include "saccade/core/hash.h"
#include "saccade/image/read_pixels.h"
#include "saccade/index/exact_search.h"

namespace saccade::lab::data {
namespace {

// Thresholds. 300 aerial photographs were reduced by a quarter and recompressed: half differ from their
// originals by at most 4 bits, 95% by at most 15 and all by at most 35. Among 2,100 different ones the
// closest pair differs by 22, but in brightness by 21.
constexpr int kMaxBits = 32;         // out of 256
constexpr double kMaxGrey = 4;       // mean difference of the thumbnails, of 255
constexpr int64_t kNeighbours = 32;  // maximum counted per image, since blank pages are all alike

// Composites over white, as pages show transparent images.
Image to_grey(const ImageView& image) {
  Image out{
      .width = image.width, .height = image.height, .channels = 1, .mode = PixelMode::kGrey, .pixels = {}};
  const auto count = static_cast<size_t>(image.width) * static_cast<size_t>(image.height);
  const auto channels = static_cast<size_t>(image.channels);
  out.pixels.resize(count);
  for (size_t i = 0; i < count; ++i) {
    const uint8_t* in = image.pixels.data() + i * channels;
    int grey = channels <= 2 ? in[0] : (299 * in[0] + 587 * in[1] + 114 * in[2] + 500) / 1000;
    if (channels % 2 == 0) grey = (grey * in[channels - 1] + 255 * (255 - in[channels - 1]) + 127) / 255;
    out.pixels[i] = static_cast<uint8_t>(grey);
  }
  return out;
}

// On an error, `hash` stays empty.
std::optional<Error> look_at_one(const ImageRef& image, const AuditOptions& options, PictureReader& reader,
                                 std::span<float> pixels, std::string& hash, Look& look) {
  std::string of_the_bytes;
  const auto bytes = [&]() -> Result<std::optional<std::string>> {
    SACCADE_ASSIGN(std::string content, read_image_bytes(image, reader.options().max_bytes));
    of_the_bytes = sha256_hex(content);
    return std::optional(std::move(content));
  };
  const auto use = [&](const PictureView& picture) -> Status {
    if (options.encode) SACCADE_TRY(preprocess(picture.image, options.preprocessing, pixels));
    look = look_of(picture.image);
    return {};
  };
  auto outcome = reader.read(bytes, 0, use);
  if (!outcome.error) hash = std::move(of_the_bytes);
  return std::move(outcome.error);
}

Result<std::vector<Near>> near_rows(const LookedAt& looked, const AuditOptions& options, ThreadPool& pool) {
  std::vector<Near> pairs;
  SACCADE_ASSIGN(const auto found,
                 exact_search(looked.rows.view(), looked.rows.view(), kNeighbours + 1, pool));
  for (size_t i = 0; i < found.size(); ++i) {
    for (const RowScore& hit : found[i]) {
      const auto j = static_cast<size_t>(hit.row);
      if (j == i || looked.failed[i] || looked.failed[j] || hit.score < options.near_cosine) continue;
      if (looked.hashes[i] == looked.hashes[j]) continue;
      pairs.push_back({std::min(i, j), std::max(i, j), 1.0 - hit.score});
    }
  }
  const auto place = [](const Near& near) { return std::pair(near.a, near.b); };
  std::sort(pairs.begin(), pairs.end(), [&](const Near& x, const Near& y) { return place(x) < place(y); });
  pairs.erase(std::unique(pairs.begin(), pairs.end(),
                          [&](const Near& x, const Near& y) { return place(x) == place(y); }),
              pairs.end());
  return pairs;
}

}  // namespace

Look look_of(const ImageView& image) {
  const Image small = resize(to_grey(image), kThumbWidth, kThumbHeight, ResizeFilter::kBilinear);
  Look look;
  std::copy(small.pixels.begin(), small.pixels.end(), look.grey.begin());
  for (size_t y = 0; y < kThumbHeight; ++y) {
    for (size_t x = 0; x + 1 < kThumbWidth; ++x) {
      const size_t at = y * kThumbWidth + x;
      const size_t bit = y * (kThumbWidth - 1) + x;
      if (look.grey[at + 1] > look.grey[at]) look.bits[bit / 64] |= uint64_t{1} << (bit % 64);
    }
  }
  return look;
}

int near_distance(const Look& a, const Look& b) {
  int bits = 0;
  for (size_t i = 0; i < a.bits.size(); ++i) {
    bits += std::popcount(a.bits[i] ^ b.bits[i]);
    if (bits > kMaxBits) return -1;
  }
  int64_t grey = 0;
  for (size_t i = 0; i < a.grey.size(); ++i) grey += std::abs(int{a.grey[i]} - int{b.grey[i]});
  return static_cast<double>(grey) <= kMaxGrey * static_cast<double>(a.grey.size()) ? bits : -1;
}

Result<LookedAt> look_at_images(std::span<const ImageRef> images, const AuditOptions& options,
                                ThreadPool& pool, const ProgressCallback& progress, std::stop_token stop) {
  constexpr size_t kBatch = 64;
  LookedAt looked;
  looked.hashes.resize(images.size());
  looked.errors.resize(images.size());
  looked.looks.resize(images.size());
  const int64_t values = options.encode ? int64_t{3} * options.preprocessing.output_height() *
                                              options.preprocessing.output_width()
                                        : 0;
  DecodeOptions decode;
  if (!options.encode) decode.shrink_to_side = 128;
  decode.processes = options.processes;
  decode.stop = stop;
  PictureReader reader(decode, kPixelsInFlight, pool.size());
  for (size_t first = 0; first < images.size(); first += kBatch) {
    const auto count = static_cast<int64_t>(std::min(kBatch, images.size() - first));
    Matrix<float> pixels(count, values);
    pool.parallel_for(count, 4, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const size_t at = first + static_cast<size_t>(i);
        auto error =
            look_at_one(images[at], options, reader, pixels.row(i), looked.hashes[at], looked.looks[at]);
        if (error) looked.errors[at] = *std::move(error);
      }
    });
    if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "stopped while reading the images");
    if (options.encode) {
      SACCADE_ASSIGN(const Matrix<float> rows, options.encode(pixels.view()));
      if (first == 0) looked.rows = Matrix<float>(static_cast<int64_t>(images.size()), rows.columns());
      for (int64_t i = 0; i < count; ++i) {
        std::copy_n(rows.row(i).begin(), rows.columns(),
                    looked.rows.row(static_cast<int64_t>(first) + i).begin());
      }
    }
    if (progress) {
      progress({.what = "reading images",
                .done = static_cast<int64_t>(first) + count,
                .total = static_cast<int64_t>(images.size()),
                .detail = {}});
    }
  }
  for (const std::string& hash : looked.hashes) looked.failed.push_back(hash.empty());
  return looked;
}

Result<std::vector<Near>> near_pairs(const LookedAt& looked, const AuditOptions& options, ThreadPool& pool) {
  if (options.encode) return near_rows(looked, options, pool);
  const auto count = static_cast<int64_t>(looked.looks.size());
  std::vector<std::vector<Near>> found(looked.looks.size());
  pool.parallel_for(count, 64, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      if (looked.failed[i]) continue;
      for (size_t j = i + 1; j < looked.looks.size() && static_cast<int64_t>(found[i].size()) < kNeighbours;
           ++j) {
        const int distance = near_distance(looked.looks[i], looked.looks[j]);
        if (distance < 0 || looked.failed[j] || looked.hashes[i] == looked.hashes[j]) continue;
        found[i].push_back({i, j, static_cast<double>(distance)});
      }
    }
  });
  std::vector<Near> pairs;
  for (const auto& some : found) pairs.insert(pairs.end(), some.begin(), some.end());
  return pairs;
}

std::string near_method(const AuditOptions& options) {
  if (options.encode) {
    return fmt::format("cosine of the encoder's rows at least {}, among the nearest {}", options.near_cosine,
                       kNeighbours);
  }
  return fmt::format(
      "difference hash, at most {} of 256 bits apart, and 17 x 16 grey thumbnails within {} of 255 on "
      "average; at most {} an image",
      kMaxBits, kMaxGrey, kNeighbours);
}

}  // namespace saccade::lab::data
