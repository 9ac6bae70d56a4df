#include "saccade/collection/small_picture.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "saccade/collection/picture.h"
#include "saccade/image/decode/webp.h"

namespace saccade {
namespace {

bool is_transparent(const Image& image) {
  if (image.channels != 2 && image.channels != 4) return false;
  for (auto i = static_cast<size_t>(image.channels) - 1; i < image.pixels.size();
       i += static_cast<size_t>(image.channels)) {
    if (image.pixels[i] != 255) return true;
  }
  return false;
}

// Colour weighted by alpha, so that what resizing mixes in from invisible pixels has no say; and back.
void premultiply(Image& image, bool back) {
  const auto channels = static_cast<size_t>(image.channels);
  for (size_t i = 0; i + channels <= image.pixels.size(); i += channels) {
    const int alpha = image.pixels[i + channels - 1];
    for (size_t c = 0; c + 1 < channels; ++c) {
      const int value = image.pixels[i + c];
      const int scaled =
          back ? (alpha == 0 ? 0 : (value * 255 + alpha / 2) / alpha) : (value * alpha + 127) / 255;
      image.pixels[i + c] = static_cast<uint8_t>(std::min(scaled, 255));
    }
  }
}

Image without_alpha(const Image& image) {
  Image result = image;
  result.channels = image.channels - 1;
  result.mode = result.channels == 1 ? PixelMode::kGrey : PixelMode::kRgb;
  result.pixels.clear();
  const auto channels = static_cast<size_t>(image.channels);
  for (size_t i = 0; i < image.pixels.size(); ++i) {
    if (i % channels != channels - 1) result.pixels.push_back(image.pixels[i]);
  }
  return result;
}

}  // namespace

DecodeOptions small_picture_decoding(int side, DecodeOptions limits) {
  limits.apply_orientation = true;
  limits.convert_to_srgb = true;
  limits.vector_side = side;
  limits.shrink_to_side = side;
  return limits;
}

Result<SmallPicture> small_picture(Image image, int side, bool webp) {
  const bool transparent = is_transparent(image);
  if (!transparent && (image.channels == 2 || image.channels == 4)) image = without_alpha(image);

  SmallPicture result;
  if (transparent) result.background = choose_background(image)[0] > 127 ? "light" : "dark";
  const int longer = std::max(image.width, image.height);
  if (longer > side) {
    const double scale = static_cast<double>(side) / longer;
    if (transparent) premultiply(image, false);
    image = resize(image, std::max(1, static_cast<int>(image.width * scale)),
                   std::max(1, static_cast<int>(image.height * scale)), ResizeFilter::kLanczos);
    if (transparent) premultiply(image, true);
  }
  // Small drawings have few colours: PNG is sharp and no larger there.
  const bool tiny = image.mode == PixelMode::kBilevel || longer <= 64;
  if (webp && !tiny) {
    if (auto bytes = encode_webp(image)) {
      result.bytes = *std::move(bytes);
      result.type = "image/webp";
      return result;
    }  // libvips without WebP: as for clients that do not read it
  }
  const bool as_png = transparent || tiny;
  SACCADE_ASSIGN(result.bytes, as_png ? encode_png(image) : encode_jpeg(image, 82));
  result.type = as_png ? "image/png" : "image/jpeg";
  return result;
}

}  // namespace saccade
