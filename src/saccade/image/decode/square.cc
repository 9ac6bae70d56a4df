#include "saccade/image/decode/square.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "saccade/image/preprocess.h"

namespace saccade {
namespace {

Image to_premultiplied_rgba(const ImageView& image) {
  Image out{
      .width = image.width, .height = image.height, .channels = 4, .mode = PixelMode::kRgba, .pixels = {}};
  const auto count = static_cast<size_t>(image.width) * static_cast<size_t>(image.height);
  out.pixels.resize(count * 4);
  const bool grey = image.channels <= 2;
  const bool alpha = image.channels % 2 == 0;
  for (size_t i = 0; i < count; ++i) {
    const uint8_t* in = image.pixels.data() + i * static_cast<size_t>(image.channels);
    const int a = alpha ? in[image.channels - 1] : 255;
    for (int c = 0; c < 3; ++c) {
      out.pixels[i * 4 + static_cast<size_t>(c)] = static_cast<uint8_t>((in[grey ? 0 : c] * a + 127) / 255);
    }
    out.pixels[i * 4 + 3] = static_cast<uint8_t>(a);
  }
  return out;
}

Image premultiplied_resized(const ImageView& image, int width, int height) {
  Image small = resize(to_premultiplied_rgba(image), width, height, ResizeFilter::kBicubic);
  // Bicubic overshoot may leave colour above alpha; compositing counts on it not being so.
  for (size_t p = 0; p < small.pixels.size(); p += 4) {
    for (size_t c = 0; c < 3; ++c) small.pixels[p + c] = std::min(small.pixels[p + c], small.pixels[p + 3]);
  }
  return small;
}

// width and height times `scale`, at least 1.
std::pair<int, int> scaled(const ImageView& image, double scale) {
  const auto side = [&](int pixels) { return std::max(1, static_cast<int>(std::lround(pixels * scale))); };
  return {side(image.width), side(image.height)};
}

}  // namespace

Image premultiplied_square(const ImageView& image, int side) {
  return premultiplied_resized(image, side, side);
}

Image fitted_over_white(const ImageView& image, int width, int height) {
  const double scale =
      std::min(static_cast<double>(width) / image.width, static_cast<double>(height) / image.height);
  const auto [inner_width, inner_height] = scaled(image, scale);
  const Image inner =
      over_white(premultiplied_resized(image, std::min(width, inner_width), std::min(height, inner_height)));
  Image out{.width = width, .height = height, .channels = 3, .mode = PixelMode::kRgb, .pixels = {}};
  out.pixels.assign(static_cast<size_t>(width) * static_cast<size_t>(height) * 3, 255);
  const auto left = static_cast<size_t>((width - inner.width) / 2);
  const auto top = static_cast<size_t>((height - inner.height) / 2);
  const auto row = static_cast<size_t>(inner.width) * 3;
  for (size_t y = 0; y < static_cast<size_t>(inner.height); ++y) {
    std::copy_n(inner.pixels.begin() + static_cast<std::ptrdiff_t>(y * row), row,
                out.pixels.begin() +
                    static_cast<std::ptrdiff_t>(((top + y) * static_cast<size_t>(width) + left) * 3));
  }
  return out;
}

Image at_most_over_white(const ImageView& image, int most) {
  const double scale = std::min(1.0, static_cast<double>(most) / std::max(image.width, image.height));
  const auto [width, height] = scaled(image, scale);
  return over_white(premultiplied_resized(image, width, height));
}

Image over_white(const ImageView& premultiplied) {
  Image out{.width = premultiplied.width,
            .height = premultiplied.height,
            .channels = 3,
            .mode = PixelMode::kRgb,
            .pixels = {}};
  out.pixels.reserve(premultiplied.pixels.size() / 4 * 3);
  for (size_t p = 0; p + 3 < premultiplied.pixels.size(); p += 4) {
    const int rest = 255 - premultiplied.pixels[p + 3];
    for (size_t c = 0; c < 3; ++c) {
      out.pixels.push_back(static_cast<uint8_t>(std::min(255, premultiplied.pixels[p + c] + rest)));
    }
  }
  return out;
}

}  // namespace saccade
