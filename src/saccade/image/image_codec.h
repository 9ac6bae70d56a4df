// Decoding of images from files and bytes, within limits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stop_token>
#include <string>

#include "saccade/core/error.h"
#include "saccade/image.h"

namespace saccade {

class DecoderPool;

struct DecodeOptions {
  // Turn the picture as its EXIF orientation says. Reference pipelines do not.
  bool apply_orientation = true;
  // Refuse larger pictures (width x height), before decoding them.
  int64_t max_pixels = 200'000'000;
  // Refuse larger files.
  int64_t max_bytes = int64_t{256} << 20;
  // Maximum decoding time in seconds of processor time, which does not depend on other load. 0: no limit.
  double max_seconds = 30;
  // Vector pictures (SVG) are rendered so that their shorter side has this many pixels.
  int vector_side = 512;
  // JPEGs may be decoded at a half, a quarter or an eighth of their size, at least this long on their shorter side
  // (libjpeg's own scaling). Faster, not bit-exact. 0: never.
  int shrink_to_side = 0;
  // Number of pixels (as decoded) above which an image is returned without its pixels, before memory is
  // allocated. Callers that share a memory budget call again once they have as much. 0: all images have their
  // pixels.
  int64_t size_only_above = 0;
  // The processes that decode (decoder_pool.h): no picture can end or stall the caller. nullptr: the calling
  // thread decodes, and a library that aborts takes the program with it.
  DecoderPool* processes = nullptr;
  // Stop request: it ends a decoder process, and the wait for one, with kCancelled. Ignored without
  // processes.
  std::stop_token stop = {};
  // Seconds to wait for a free process and its memory; then kCancelled. 0: no limit.
  double max_wait_seconds = 0;
  // Converts colours from the ICC profile in the file to sRGB, for people to look at. False: the numbers in the
  // file are handed over as they are, as Pillow does; models have learned from these. A file without a profile,
  // with a broken one, or with one of sRGB itself is the same either way.
  bool convert_to_srgb = false;
  // True to read embedded metadata too (facts.h), into PictureView::facts. Only decoder processes do so.
  // Without them the metadata are skipped, as foreign bytes are parsed nowhere else.
  bool facts = false;
};

// Place of a whole image in the pixels of a smaller version of it. If its size is no multiple of the factor, the
// outermost pixels stand for less than the others.
struct ShrunkFrom {
  int width = 0;  // pixels of the whole image, turned as the smaller one; 0: it was not shrunk
  int height = 0;
  // Rectangle that the whole image fills, in the smaller one's pixels.
  double left = 0;
  double top = 0;
  double across = 0;
  double down = 0;

  explicit operator bool() const { return width > 0; }
};

struct DecodedImage {
  Image image;             // without pixels where they are more than size_only_above
  std::string format;      // "jpeg", "png", "webp", "gif", "tiff", "bmp", "heif", "avif", "svg", ...
  int original_width = 0;  // as stored, after orientation; what the file says for vector pictures
  int original_height = 0;
  ShrunkFrom shrunk = {};
};

// Errors: kNotFound, kLimit (size, pixels, time, memory), kUnsupported (not an image we read), kBadData
// (broken file), kCancelled, kIo (no memory from the system, or no process). Thread-safe. Memory: the decoded
// pixels plus libvips' working lines.
Result<DecodedImage> decode_image(std::span<const std::byte> bytes, const DecodeOptions& options = {});
Result<DecodedImage> decode_image_file(const std::filesystem::path& path, const DecodeOptions& options = {});

// Files that `decode_image_file` may read, judged by the name's ending alone (case-insensitive).
bool has_image_extension(const std::filesystem::path& path);

// Encoders for pages, thumbnails and tests. `image` has 1 to 4 channels.
Result<std::string> encode_png(const Image& image);
Result<std::string> encode_jpeg(const Image& image, int quality = 85);

// Returns the version of libvips, which decodes: "8.14.1"; "none" if it cannot be loaded.
std::string image_library_version();

}  // namespace saccade
