#include "saccade/image/preprocess.h"

#include <algorithm>
#include <cmath>
#include <new>

#include "saccade/image/image_view.h"
#include "saccade/image/resize.h"

namespace saccade {
namespace {

constexpr int kMaxSide = 16384;  // of what comes out; far above any model's

// Pillow's rounded a * b / 255.
uint8_t times_255th(int a, int b) {
  const int product = a * b + 128;
  return static_cast<uint8_t>(((product >> 8) + product) >> 8);
}

bool has_alpha(const ImageView& image) {
  return image.channels == 2 || image.channels == 4;
}

Status check(const ImageView& image, const Preprocessing& p) {
  SACCADE_TRY(check_pixels(image));
  const auto side = [](int n) { return n >= 1 && n <= kMaxSide; };
  if (p.resize_mode != ResizeMode::kNone && !(side(p.resize_height) && side(p.resize_width))) {
    return fail(ErrorCode::kUsage, "resize to {} x {}: sides are 1 to {}", p.resize_height, p.resize_width,
                kMaxSide);
  }
  if (p.crop && !(side(p.crop_height) && side(p.crop_width))) {
    return fail(ErrorCode::kUsage, "crop to {} x {}: sides are 1 to {}", p.crop_height, p.crop_width,
                kMaxSide);
  }
  if (!p.crop && p.resize_mode != ResizeMode::kSquash) {
    return fail(ErrorCode::kUsage, "images of any shape have no one size without a crop or a squash");
  }
  return {};
}

struct Size {
  int64_t width = 0;
  int64_t height = 0;
};

// Returns the size that the whole image is resized to.
Size resized(const ImageView& image, const Preprocessing& p) {
  const int width = image.shrunk ? image.shrunk.width : image.width;
  const int height = image.shrunk ? image.shrunk.height : image.height;
  switch (p.resize_mode) {
    case ResizeMode::kSquash:
      return {p.resize_width, p.resize_height};
    case ResizeMode::kShortestEdge: {
      const int64_t side = p.resize_height;
      if (width <= height) return {side, side * height / width};
      return {side * width / height, side};
    }
    case ResizeMode::kLongestEdge: {
      const double ratio = std::max(static_cast<double>(height) / p.resize_height,
                                    static_cast<double>(width) / p.resize_width);
      return {std::max<int64_t>(1, std::llrint(width / ratio)),
              std::max<int64_t>(1, std::llrint(height / ratio))};
    }
    case ResizeMode::kNone:
      break;
  }
  return {image.width, image.height};
}

// Returns the offset of a crop of `want` in `have` pixels; a negative one is the number of padding pixels
// before it.
int64_t crop_begin(int64_t have, int64_t want, CropRounding rounding) {
  if (rounding == CropRounding::kFloor) {
    // transformers pads by the half rounded up, and crops at the half rounded down.
    return have >= want ? (have - want) / 2 : -((want - have + 1) / 2);
  }
  if (have < want) return -((want - have) / 2);
  const int64_t half = (have - want) / 2;
  return (have - want) % 2 != 0 && half % 2 != 0 ? half + 1 : half;
}

// The colours over `background`, without alpha.
Image composite(const ImageView& image, const std::array<uint8_t, 3>& background) {
  Image out{image.width, image.height, 3, PixelMode::kRgb, {}};
  const size_t count = static_cast<size_t>(image.width) * static_cast<size_t>(image.height);
  const auto channels = static_cast<size_t>(image.channels);
  out.pixels.resize(count * 3);
  const uint8_t* from = image.pixels.data();
  uint8_t* to = out.pixels.data();
  for (size_t i = 0; i < count; ++i, from += channels) {
    const int alpha = from[channels - 1];
    for (size_t c = 0; c < 3; ++c) {
      const int colour = from[channels == 2 ? 0 : c];
      // One rounding for the sum: an opaque or empty pixel comes out exactly.
      *to++ = static_cast<uint8_t>((colour * alpha + background[c] * (255 - alpha) + 127) / 255);
    }
  }
  return out;
}

// Pillow's own way with transparent pictures: colours are weighted by alpha while resizing.
Image resize_premultiplied(const ImageView& image, const ResizeWindow& window, ResizeFilter filter) {
  const auto channels = static_cast<size_t>(image.channels);
  Image premultiplied{
      image.width, image.height, image.channels, image.mode, {image.pixels.begin(), image.pixels.end()}};
  for (size_t at = 0; at < premultiplied.pixels.size(); at += channels) {
    uint8_t* pixel = premultiplied.pixels.data() + at;
    for (size_t c = 0; c + 1 < channels; ++c) pixel[c] = times_255th(pixel[c], pixel[channels - 1]);
  }
  Image out = resize_window(premultiplied, window, filter);
  for (size_t at = 0; at < out.pixels.size(); at += channels) {
    uint8_t* pixel = out.pixels.data() + at;
    const int alpha = pixel[channels - 1];
    if (alpha == 0 || alpha == 255) continue;
    for (size_t c = 0; c + 1 < channels; ++c)
      pixel[c] = static_cast<uint8_t>(std::min(255 * pixel[c] / alpha, 255));
  }
  return out;
}

// The part of the output that the picture covers, at (left, top) of it. Colours come first in `pixels`, grey
// as one channel; an alpha still there means nothing any more. All channels are resized alike, so that grey
// needs no threefold work and a dropped alpha no copy.
struct Rendered {
  Image pixels;
  int left = 0;
  int top = 0;
};

Rendered render(const ImageView& image, const Preprocessing& p) {
  const Size size = resized(image, p);
  ResizeWindow window{size.width,
                      size.height,
                      0,
                      0,
                      static_cast<int>(std::min<int64_t>(size.width, p.output_width())),
                      static_cast<int>(std::min<int64_t>(size.height, p.output_height()))};
  Rendered result;
  if (p.crop) {
    const int64_t left = crop_begin(size.width, p.crop_width, p.crop_rounding);
    const int64_t top = crop_begin(size.height, p.crop_height, p.crop_rounding);
    window.left = std::max<int64_t>(left, 0);
    window.top = std::max<int64_t>(top, 0);
    result.left = static_cast<int>(std::max<int64_t>(-left, 0));
    result.top = static_cast<int>(std::max<int64_t>(-top, 0));
  }
  const bool over_background = has_alpha(image) && p.alpha == AlphaPolicy::kComposite;
  if (p.rgb_order == RgbOrder::kBeforeResize) {
    result.pixels = over_background ? resize_window(composite(image, p.background), window, p.filter)
                                    : resize_window(image, window, p.filter);
    return result;
  }
  const bool indexed = image.mode == PixelMode::kPalette || image.mode == PixelMode::kBilevel;
  const bool same_size = size.width == image.width && size.height == image.height;
  if (indexed) {
    result.pixels = resize_window(image, window, ResizeFilter::kNearest);
  } else if (has_alpha(image) && p.filter != ResizeFilter::kNearest && !same_size) {
    result.pixels = resize_premultiplied(image, window, p.filter);
  } else {
    result.pixels = resize_window(image, window, p.filter);
  }
  if (over_background) result.pixels = composite(result.pixels, p.background);
  return result;
}

bool covers(const Rendered& rendered, const Preprocessing& p) {
  return rendered.pixels.width == p.output_width() && rendered.pixels.height == p.output_height();
}

// Returns the index of colour c within a pixel.
size_t colour_at(const Image& image, size_t c) {
  return image.channels >= 3 ? c : 0;
}

}  // namespace

Result<Image> preprocess_pixels(const Image& image, const Preprocessing& preprocessing) {
  SACCADE_TRY(check(image, preprocessing));
  try {
    Rendered rendered = render(image, preprocessing);
    if (covers(rendered, preprocessing) && rendered.pixels.channels == 3) {
      rendered.pixels.mode = PixelMode::kRgb;
      return std::move(rendered.pixels);
    }
    Image out{preprocessing.output_width(), preprocessing.output_height(), 3, PixelMode::kRgb, {}};
    const auto width = static_cast<size_t>(out.width);
    out.pixels.resize(width * static_cast<size_t>(out.height) * 3);
    for (size_t i = 0; i < out.pixels.size(); ++i) out.pixels[i] = preprocessing.fill[i % 3];
    const uint8_t* from = rendered.pixels.pixels.data();
    for (int y = 0; y < rendered.pixels.height; ++y) {
      uint8_t* to = out.pixels.data() +
                    (static_cast<size_t>(rendered.top + y) * width + static_cast<size_t>(rendered.left)) * 3;
      for (int x = 0; x < rendered.pixels.width; ++x, from += rendered.pixels.channels) {
        for (size_t c = 0; c < 3; ++c) *to++ = from[colour_at(rendered.pixels, c)];
      }
    }
    return out;
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kLimit, "not enough memory to resize {} x {} pixels", image.width, image.height);
  }
}

int vector_side(const Preprocessing& preprocessing) {
  return std::min(4096, 2 * std::max({1, preprocessing.resize_height, preprocessing.resize_width,
                                      preprocessing.output_height(), preprocessing.output_width()}));
}

Status preprocess(const Image& image, const Preprocessing& preprocessing, std::span<float> out) {
  return preprocess(ImageView(image), preprocessing, out);
}

Status preprocess(const ImageView& image, const Preprocessing& preprocessing, std::span<float> out) {
  SACCADE_TRY(check(image, preprocessing));
  const auto width = static_cast<size_t>(preprocessing.output_width());
  const auto height = static_cast<size_t>(preprocessing.output_height());
  if (out.size() != 3 * width * height) {
    return fail(ErrorCode::kUsage, "room for {} numbers, 3 x {} x {} needed", out.size(), height, width);
  }
  try {
    const Rendered rendered = render(image, preprocessing);
    const Image& pixels = rendered.pixels;
    const auto channels = static_cast<size_t>(pixels.channels);
    for (size_t c = 0; c < 3; ++c) {
      // Table of the 256 results of a channel: each is computed once, in double.
      std::array<float, 256> values;
      for (size_t v = 0; v < values.size(); ++v) {
        const double scaled =
            static_cast<double>(v) * preprocessing.rescale_factor + preprocessing.rescale_offset;
        values[v] = static_cast<float>((scaled - preprocessing.mean[c]) / preprocessing.std[c]);
      }
      const std::span<float> plane = out.subspan(c * width * height, width * height);
      if (!covers(rendered, preprocessing)) std::ranges::fill(plane, values[preprocessing.fill[c]]);
      const uint8_t* from = pixels.pixels.data() + colour_at(pixels, c);
      for (int y = 0; y < pixels.height; ++y) {
        float* to =
            plane.data() + static_cast<size_t>(rendered.top + y) * width + static_cast<size_t>(rendered.left);
        for (int x = 0; x < pixels.width; ++x, from += channels) to[x] = values[*from];
      }
    }
    return {};
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kLimit, "not enough memory to resize {} x {} pixels", image.width, image.height);
  }
}

}  // namespace saccade
