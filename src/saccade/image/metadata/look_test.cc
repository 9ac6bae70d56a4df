#include "saccade/image/metadata/look.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include <gtest/gtest.h>

#include "saccade/core/source_dir.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

Image decoded(const std::string& file, const DecodeOptions& options = {}) {
  return decode_image(std::as_bytes(std::span(file)), options)->image;
}

std::vector<Image> photographs() {
  std::vector<Image> pictures;
  for (const auto& entry :
       fs::directory_iterator(fs::path(test::kSourceDir) / "tests/golden/clip_photographs")) {
    if (entry.path().extension() != ".jpg") continue;
    pictures.push_back(decode_image_file(entry.path()).value().image);
  }
  return pictures;
}

// A disc and a bar on white, as drawing programs make them: edges smoothed over a pixel, all else flat.
Image drawing(int seed) {
  constexpr int kSide = 160;
  Image image{kSide, kSide, 3, PixelMode::kRgb, {}};
  const double radius = 20 + seed * 7 % 50;
  const double cx = 40 + seed * 31 % 80;
  const double cy = 40 + seed * 17 % 80;
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < kSide; ++x) {
      const double inside = std::clamp(radius - std::hypot(x - cx, y - cy) + 0.5, 0.0, 1.0);
      const bool bar = y > 120 + seed % 20 && y < 140 + seed % 20 && x > seed * 5 % 60;
      for (int c = 0; c < 3; ++c) {
        const double ink = (seed * (53 + 40 * c)) % 200;
        image.pixels.push_back(static_cast<uint8_t>(bar ? 90 : 255 - inside * (255 - ink)));
      }
    }
  }
  return image;
}

Image scaled(const Image& image, double factor) {
  Image smaller{static_cast<int>(image.width * factor),
                static_cast<int>(image.height * factor),
                image.channels,
                image.mode,
                {}};
  for (int y = 0; y < smaller.height; ++y) {
    for (int x = 0; x < smaller.width; ++x) {
      // Means of the pixels behind each.
      const int x0 = x * image.width / smaller.width;
      const int x1 = std::max(x0 + 1, (x + 1) * image.width / smaller.width);
      const int y0 = y * image.height / smaller.height;
      const int y1 = std::max(y0 + 1, (y + 1) * image.height / smaller.height);
      for (int c = 0; c < image.channels; ++c) {
        int sum = 0;
        for (int yy = y0; yy < y1; ++yy) {
          for (int xx = x0; xx < x1; ++xx) {
            sum += image.pixels[(static_cast<size_t>(yy) * static_cast<size_t>(image.width) +
                                 static_cast<size_t>(xx)) *
                                    static_cast<size_t>(image.channels) +
                                static_cast<size_t>(c)];
          }
        }
        smaller.pixels.push_back(static_cast<uint8_t>(sum / ((y1 - y0) * (x1 - x0))));
      }
    }
  }
  return smaller;
}

TEST(Look, HashesOfCopiesAreNearAndOfOthersFar) {
  std::vector<Image> pictures = photographs();
  ASSERT_GE(pictures.size(), 7U);
  for (int i = 0; i < 8; ++i) pictures.push_back(drawing(i));
  int farthest_copy = 0;
  int nearest_other = 64;
  for (size_t i = 0; i < pictures.size(); ++i) {
    const uint64_t hash = look_of(pictures[i]).hash;
    Image brighter = pictures[i];
    for (uint8_t& value : brighter.pixels) value = static_cast<uint8_t>(std::min(255, value * 11 / 10 + 5));
    const Image recompressed = decoded(encode_jpeg(pictures[i], 40).value());
    for (const Image& copy : {scaled(pictures[i], 0.5), brighter, recompressed}) {
      farthest_copy = std::max(farthest_copy, hash_distance(hash, look_of(copy).hash));
    }
    // Drawings share their ground and their bar: photographs are what is told apart.
    for (size_t j = 0; j < i && i < 7; ++j) {
      nearest_other = std::min(nearest_other, hash_distance(hash, look_of(pictures[j]).hash));
    }
  }
  EXPECT_LE(farthest_copy, 8);
  EXPECT_GE(nearest_other, 16);
}

TEST(Look, PhotographsAreToldFromDrawings) {
  for (const Image& picture : photographs()) EXPECT_TRUE(is_photograph(look_of(picture).grain));
  for (int i = 0; i < 50; ++i) {
    EXPECT_FALSE(is_photograph(look_of(drawing(i)).grain)) << i;
    // Compression rings at edges, and leaves what is flat as it is.
    const Image jpeg = decoded(encode_jpeg(drawing(i), 75).value());
    EXPECT_FALSE(is_photograph(look_of(jpeg).grain)) << i;
  }
  // Cut out and laid on nothing: what cannot be seen was not taken by a camera.
  Image cut = photographs().front();
  Image transparent{cut.width, cut.height, 4, PixelMode::kRgba, {}};
  for (int i = 0; i < cut.width * cut.height; ++i) {
    for (int c = 0; c < 3; ++c)
      transparent.pixels.push_back(cut.pixels[static_cast<size_t>(i) * 3 + static_cast<size_t>(c)]);
    transparent.pixels.push_back(i % 2 == 0 && i < cut.width * cut.height / 2 ? 255 : 0);
  }
  EXPECT_FALSE(is_photograph(look_of(transparent).grain));
}

// Collections decode large JPEGs at a smaller size (DecodeOptions::shrink_to_side), and look at that.
TEST(Look, IsTheSameOfAJpegDecodedSmaller) {
  std::vector<Image> pictures = photographs();
  ASSERT_GE(pictures.size(), 7U);
  for (int i = 0; i < 20; ++i) pictures.push_back(drawing(i));
  for (size_t i = 0; i < pictures.size(); ++i) {
    const std::string file = encode_jpeg(pictures[i], 90).value();
    const Image whole = decoded(file);
    DecodeOptions options;
    options.shrink_to_side = std::min(whole.width, whole.height) / 2;
    const Image half = decoded(file, options);
    ASSERT_LE(half.width, whole.width / 2 + 1);
    EXPECT_LE(hash_distance(look_of(whole).hash, look_of(half).hash), 6) << i;
    EXPECT_EQ(is_photograph(look_of(whole).grain), is_photograph(look_of(half).grain)) << i;
  }
}

TEST(Look, TakesPicturesOfAnySize) {
  for (const auto& [width, height] : {std::pair{1, 1}, {1, 900}, {900, 1}, {3, 2}}) {
    for (int channels = 1; channels <= 4; ++channels) {
      Image image{width, height, channels, PixelMode::kRgb, {}};
      image.pixels.assign(
          static_cast<size_t>(width) * static_cast<size_t>(height) * static_cast<size_t>(channels), 7);
      EXPECT_EQ(look_of(image).grain, 0);
    }
  }
  EXPECT_EQ(look_of(ImageView{}).hash, 0U);
}

}  // namespace
}  // namespace saccade
