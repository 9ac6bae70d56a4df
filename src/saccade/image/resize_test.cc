#include "saccade/image/resize.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "saccade/core/hash.h"

namespace saccade {
namespace {

Image random_image(int width, int height, int channels, uint32_t seed) {
  std::mt19937 random(seed);
  Image image{width, height, channels, PixelMode::kRgb, {}};
  image.pixels.resize(static_cast<size_t>(width) * static_cast<size_t>(height) *
                      static_cast<size_t>(channels));
  // Black and white in long runs beside noise: filters overshoot at edges, which is where clipping shows.
  for (uint8_t& value : image.pixels) {
    const uint32_t r = random();
    value = (r & 3U) == 0 ? static_cast<uint8_t>(r >> 8) : static_cast<uint8_t>((r & 4U) != 0 ? 255 : 0);
  }
  return image;
}

double oracle_weight(ResizeFilter filter, double x) {
  x = std::abs(x);
  const auto sinc = [](double v) { return v == 0 ? 1 : std::sin(v * M_PI) / (v * M_PI); };
  switch (filter) {
    case ResizeFilter::kBilinear:
      return x < 1 ? 1 - x : 0;
    case ResizeFilter::kBicubic:
      if (x < 1) return 1.5 * x * x * x - 2.5 * x * x + 1;
      return x < 2 ? -0.5 * x * x * x + 2.5 * x * x - 4 * x + 2 : 0;
    case ResizeFilter::kLanczos:
      return x < 3 ? sinc(x) * sinc(x / 3) : 0;
    case ResizeFilter::kNearest:
    case ResizeFilter::kBilinearNoAntialias:  // not weights of this kind
      break;
  }
  return 0;
}

// One axis the obvious way: every output is a sum over all
// inputs, with weights of 22 bits, rounded to 8 bits.
std::vector<double> oracle_axis(const std::vector<double>& in, int out_size, ResizeFilter filter) {
  const auto in_size = static_cast<double>(in.size());
  const double scale = in_size / out_size;
  const double stretch = std::max(scale, 1.0);
  const double support = stretch * (filter == ResizeFilter::kBilinear  ? 1
                                    : filter == ResizeFilter::kBicubic ? 2
                                                                       : 3);
  std::vector<double> out;
  for (int i = 0; i < out_size; ++i) {
    const double center = (i + 0.5) * scale;
    // Pillow's window: inputs whose index lies in [center -
    // support + 0.5, center + support + 0.5) cut to whole.
    const double first = std::floor(std::max(center - support + 0.5, 0.0));
    const double last = std::floor(std::min(center + support + 0.5, in_size));
    double total = 0;
    for (double j = first; j < last; ++j) total += oracle_weight(filter, (j + 0.5 - center) / stretch);
    double sum = 0;
    for (double j = first; j < last; ++j) {
      const double weight = oracle_weight(filter, (j + 0.5 - center) / stretch) / total;
      sum += std::round(weight * 0x1p22) * in[static_cast<size_t>(j)];
    }
    out.push_back(std::clamp(std::floor(sum / 0x1p22 + 0.5), 0.0, 255.0));
  }
  return out;
}

Image transposed(const Image& image) {
  Image out{image.height, image.width, image.channels, image.mode, std::vector<uint8_t>(image.pixels.size())};
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      for (int c = 0; c < image.channels; ++c) {
        out.pixels[static_cast<size_t>((x * out.width + y) * out.channels + c)] =
            image.pixels[static_cast<size_t>((y * image.width + x) * image.channels + c)];
      }
    }
  }
  return out;
}

Image oracle_rows(const Image& image, int width, ResizeFilter filter) {
  if (width == image.width) return image;
  Image out{width, image.height, image.channels, image.mode, {}};
  out.pixels.resize(static_cast<size_t>(width * image.height * image.channels));
  for (int y = 0; y < image.height; ++y) {
    for (int c = 0; c < image.channels; ++c) {
      std::vector<double> row;
      for (int x = 0; x < image.width; ++x) {
        row.push_back(image.pixels[static_cast<size_t>((y * image.width + x) * image.channels + c)]);
      }
      row = oracle_axis(row, width, filter);
      for (int x = 0; x < width; ++x) {
        out.pixels[static_cast<size_t>((y * width + x) * image.channels + c)] =
            static_cast<uint8_t>(row[static_cast<size_t>(x)]);
      }
    }
  }
  return out;
}

Image oracle(const Image& image, int width, int height, ResizeFilter filter) {
  if (height < image.height &&
      image.height - height > 2 * (image.width - width)) {  // the vertical pass first
    return oracle_rows(transposed(oracle_rows(transposed(image), height, filter)), width, filter);
  }
  return transposed(oracle_rows(transposed(oracle_rows(image, width, filter)), height, filter));
}

struct Case {
  int in_width, in_height, out_width, out_height;
};

constexpr Case kCases[] = {{1, 1, 7, 5},     {2, 3, 9, 1},     {50, 37, 64, 86}, {64, 48, 17, 48},
                           {17, 90, 17, 31}, {33, 21, 32, 20}, {131, 77, 5, 63}, {200, 3, 64, 64},
                           {19, 19, 19, 19}, {300, 40, 1, 1}};
constexpr ResizeFilter kFilters[] = {ResizeFilter::kBilinear, ResizeFilter::kBicubic, ResizeFilter::kLanczos};

TEST(Resize, AgreesWithTheObviousComputation) {
  // Weights in units of 2^-22 against doubles: a sum may fall on the other side of one half, once in
  // thousands, and a level may differ by one. Exactness is what the golden files of Pillow's own pixels show.
  for (const Case& c : kCases) {
    for (const ResizeFilter filter : kFilters) {
      const Image image = random_image(c.in_width, c.in_height, 3, 7);
      const Image got = resize(image, c.out_width, c.out_height, filter);
      const Image want = oracle(image, c.out_width, c.out_height, filter);
      ASSERT_EQ(got.pixels.size(), want.pixels.size());
      size_t different = 0;
      for (size_t i = 0; i < got.pixels.size(); ++i) {
        ASSERT_LE(std::abs(got.pixels[i] - want.pixels[i]), 1)
            << c.in_width << "x" << c.in_height << " at " << i;
        different += got.pixels[i] != want.pixels[i];
      }
      EXPECT_LE(different, got.pixels.size() / 1000);
    }
  }
}

// SHA-256 (its first 8 bytes) of what Pillow 13.0.0's Image.resize makes of random_image(width, height, 3,
// 7): around the sizes where it changes which pass comes first.
TEST(Resize, ThePassesOrderIsPillows) {
  struct Reference {
    Case sizes;
    ResizeFilter filter;
    const char* sha256;
  };
  constexpr auto kBicubic = ResizeFilter::kBicubic;
  const Reference references[] = {{{80, 96, 64, 64}, kBicubic, "4cb6601b15c8050e"},
                                  {{80, 97, 64, 64}, kBicubic, "b8b5d8f16eb06eec"},
                                  {{80, 97, 64, 64}, ResizeFilter::kBilinear, "b18f50d2ca7a6ef3"},
                                  {{80, 97, 64, 64}, ResizeFilter::kLanczos, "a474837a64162a6c"},
                                  {{60, 40, 90, 39}, kBicubic, "81f1bb3c07ef1a3d"},
                                  {{60, 40, 90, 41}, kBicubic, "20edc2b34702fefc"},
                                  {{40, 60, 30, 90}, kBicubic, "3d285e9c922d0155"},
                                  {{137, 201, 64, 64}, kBicubic, "3b446a4b4fc7313f"},
                                  {{427, 640, 224, 335}, kBicubic, "2282ca11977a5371"},
                                  {{300, 900, 224, 672}, kBicubic, "66c7757dd1cb33ad"},
                                  {{110, 80, 64, 64}, kBicubic, "19498a65dbc85d8b"},
                                  {{5, 700, 224, 224}, ResizeFilter::kLanczos, "382b6eb0a8d8fb33"}};
  for (const auto& [sizes, filter, sha256] : references) {
    const Image image = random_image(sizes.in_width, sizes.in_height, 3, 7);
    const Image got = resize(image, sizes.out_width, sizes.out_height, filter);
    EXPECT_EQ(sha256_hex(std::as_bytes(std::span(got.pixels))).substr(0, 16), sha256)
        << sizes.in_width << "x" << sizes.in_height << " to " << sizes.out_width << "x" << sizes.out_height;
  }
}

TEST(Resize, AllKernelsGiveTheSameBits) {
  for (int channels = 1; channels <= 4; ++channels) {
    for (const Case& c : kCases) {
      for (const ResizeFilter filter : kFilters) {
        const Image image = random_image(c.in_width, c.in_height, channels, 11);
        const ResizeWindow all{c.out_width, c.out_height, 0, 0, c.out_width, c.out_height};
        EXPECT_EQ(resize_window(image, all, filter, ResizeKernel::kFastest).pixels,
                  resize_window(image, all, filter, ResizeKernel::kPortable).pixels)
            << channels << " channels, " << c.in_width << "x" << c.in_height;
      }
    }
  }
}

TEST(Resize, AWindowIsThatPartOfTheWhole) {
  std::mt19937 random(3);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
  for (const Case& c : kCases) {
    for (const ResizeFilter filter :
         {ResizeFilter::kNearest, ResizeFilter::kBilinear, ResizeFilter::kBicubic, ResizeFilter::kLanczos}) {
      const Image image = random_image(c.in_width, c.in_height, 3, 5);
      const Image whole = resize(image, c.out_width, c.out_height, filter);
      const int left = below(c.out_width);
      const int top = below(c.out_height);
      const int width = 1 + below(c.out_width - left);
      const int height = 1 + below(c.out_height - top);
      const Image part = resize_window(image, {c.out_width, c.out_height, left, top, width, height}, filter);
      for (int y = 0; y < height; ++y) {
        const auto row = part.pixels.begin() + y * width * 3;
        EXPECT_TRUE(
            std::equal(row, row + width * 3, whole.pixels.begin() + ((top + y) * c.out_width + left) * 3))
            << c.in_width << "x" << c.in_height << " row " << y;
      }
    }
  }
}

TEST(Resize, NearestTakesTheMiddlePixel) {
  Image image{4, 2, 1, PixelMode::kGrey, {10, 20, 30, 40, 50, 60, 70, 80}};
  EXPECT_EQ(resize(image, 2, 1, ResizeFilter::kNearest).pixels, (std::vector<uint8_t>{60, 80}));
  EXPECT_EQ(resize(image, 8, 2, ResizeFilter::kNearest).pixels,
            (std::vector<uint8_t>{10, 10, 20, 20, 30, 30, 40, 40, 50, 50, 60, 60, 70, 70, 80, 80}));
}

TEST(Resize, AnEvenPictureStaysEven) {
  for (const uint8_t level : {0, 1, 127, 128, 254, 255}) {
    const Image image{31, 17, 3, PixelMode::kRgb, std::vector<uint8_t>(31 * 17 * 3, level)};
    for (const ResizeFilter filter : kFilters) {
      const Image small = resize(image, 7, 40, filter);
      EXPECT_TRUE(std::ranges::all_of(small.pixels, [&](uint8_t value) { return value == level; }));
    }
  }
}

TEST(Resize, FarWindowsOfEnormousPicturesNeedLittle) {
  // One column of 30,000 pixels enlarged to a height past 2^31: only the window is computed.
  const Image image = random_image(1, 30'000, 3, 9);
  const ResizeWindow window{100'000, 3'000'000'000, 50'000, 1'500'000'000, 8, 8};
  const Image part = resize_window(image, window, ResizeFilter::kBicubic);
  for (int c = 0; c < 3; ++c) {
    EXPECT_NEAR(part.pixels[static_cast<size_t>(c)], image.pixels[static_cast<size_t>(15'000 * 3 + c)], 200);
    EXPECT_EQ(part.pixels[static_cast<size_t>(c)], part.pixels[static_cast<size_t>(3 + c)]);
  }
}

}  // namespace
}  // namespace saccade
