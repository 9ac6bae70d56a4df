// Pixels that somebody else keeps: what a picture's readers are given, so that nothing is copied for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "saccade/core/error.h"
#include "saccade/image/image_codec.h"
#include "saccade/image/metadata/facts.h"

namespace saccade {

// View of an image whose pixels are stored elsewhere; they must outlive it.
//
// The pixels may lie in memory that a decoder process can write to. Code that reads them must treat them as
// numbers alone, never as sizes or positions, and must not rely on reading the same value twice.
struct ImageView {
  ImageView() = default;
  ImageView(const Image& image)  // NOLINT(google-explicit-constructor): as a string is a string_view
      : width(image.width),
        height(image.height),
        channels(image.channels),
        mode(image.mode),
        pixels(image.pixels) {}
  ImageView(const DecodedImage& decoded)  // NOLINT(google-explicit-constructor): likewise
      : ImageView(decoded.image) {
    shrunk = decoded.shrunk;
  }

  int width = 0;
  int height = 0;
  int channels = 0;
  PixelMode mode = PixelMode::kRgb;
  std::span<const uint8_t> pixels;  // as Image::pixels
  ShrunkFrom shrunk = {};           // resizing gives what the whole image would, as nearly as it can
};

// Checks the number of pixels that a caller passed: kUsage unless they are those of the shape.
inline Status check_pixels(const ImageView& image) {
  const bool shape = image.width > 0 && image.height > 0 && image.channels >= 1 && image.channels <= 4;
  // 64 bits without a sign hold the largest sides times four channels.
  const uint64_t values = shape ? static_cast<uint64_t>(image.width) * static_cast<uint64_t>(image.height) *
                                      static_cast<uint64_t>(image.channels)
                                : 0;
  if (shape && values == image.pixels.size()) return {};
  return fail(ErrorCode::kUsage, "an image of {} x {} pixels with {} channels has {} values, expected {}",
              image.width, image.height, image.channels, image.pixels.size(), values);
}

// A DecodedImage likewise.
struct PictureView {
  ImageView image;  // without pixels where they are more than size_only_above
  std::string format;
  int original_width = 0;
  int original_height = 0;
  PictureFacts facts = {};  // where DecodeOptions::facts asked for them, and processes decode
};

using UsePicture = std::function<Status(const PictureView& picture)>;

// Decodes like decode_image, without a copy of the pixels. `use` is called on this thread with the image in
// its original buffer, and not after an error. Returns the decoder's error, or the result of `use`.
Status decode_for(std::span<const std::byte> bytes, const DecodeOptions& options, const UsePicture& use);

}  // namespace saccade
