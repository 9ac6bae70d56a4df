// Whole pictures over white, in squares and in frames.
#include "saccade/image/decode/square.h"

#include <gtest/gtest.h>

namespace saccade {
namespace {

Image of(int width, int height, int channels, std::vector<uint8_t> pixels) {
  return {.width = width, .height = height, .channels = channels, .pixels = std::move(pixels)};
}

TEST(Square, IsPremultipliedAndOverWhite) {
  // Half transparent red beside opaque blue.
  const Image image = of(2, 1, 4, {200, 0, 0, 128, 0, 0, 255, 255});
  const Image square = premultiplied_square(image, 2);
  ASSERT_EQ(square.pixels.size(), 16U);
  EXPECT_EQ(square.pixels[0], 100);
  EXPECT_EQ(square.pixels[3], 128);
  const Image white = over_white(square);
  EXPECT_EQ(std::vector<uint8_t>(white.pixels.begin(), white.pixels.begin() + 6),
            (std::vector<uint8_t>{227, 127, 127, 0, 0, 255}));
  // Grey, and grey with alpha.
  EXPECT_EQ(over_white(premultiplied_square(of(1, 1, 1, {90}), 1)).pixels, (std::vector<uint8_t>(3, 90)));
  EXPECT_EQ(over_white(premultiplied_square(of(1, 1, 2, {90, 0}), 1)).pixels, (std::vector<uint8_t>(3, 255)));
}

TEST(Square, FitsIntoTheMiddle) {
  const Image wide = of(4, 2, 3, std::vector<uint8_t>(24, 0));
  const Image framed = fitted_over_white(wide, 8, 8);
  ASSERT_EQ(framed.width, 8);
  ASSERT_EQ(framed.height, 8);
  for (int y = 0; y < 8; ++y) {
    const uint8_t expected = y >= 2 && y < 6 ? 0 : 255;
    for (int x = 0; x < 8; ++x) EXPECT_EQ(framed.pixels[static_cast<size_t>((y * 8 + x) * 3)], expected);
  }
  const Image thin = of(1, 1000, 1, std::vector<uint8_t>(1000, 0));
  EXPECT_EQ(fitted_over_white(thin, 5, 10).pixels[6], 0);  // no side becomes 0
}

TEST(Square, IsAtMostSoLarge) {
  const Image wide = of(40, 10, 1, std::vector<uint8_t>(400, 7));
  const Image small = at_most_over_white(wide, 20);
  EXPECT_EQ(small.width, 20);
  EXPECT_EQ(small.height, 5);
  EXPECT_EQ(at_most_over_white(wide, 100).width, 40);
}

}  // namespace
}  // namespace saccade
