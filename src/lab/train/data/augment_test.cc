// Tests of augmentation: its effect on an image, and how often each kind occurs.
#include "lab/train/data/augment.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace saccade::lab {
namespace {

TEST(Augment, IsAFunctionOfItsKeyAndKeepsPicturesVisible) {
  std::vector<uint8_t> pixels(size_t{20} * 20 * 4, 0);
  for (size_t i = 0; i < pixels.size() / 4; ++i) {
    if (i / 20 >= 8 && i / 20 < 12) pixels[4 * i + 3] = 255;  // a black bar
  }
  const StoredPicture picture{.pixels = pixels.data(), .side = 20, .transparent = true, .one_colour = true};
  std::vector<float> once(3 * 16 * 16), again(once.size());
  for (uint64_t key = 0; key < 200; ++key) {
    augment(picture, 16, {}, {0, 0, 0}, {1, 1, 1}, KeyedRandom(1, 2, key), once);
    augment(picture, 16, {}, {0, 0, 0}, {1, 1, 1}, KeyedRandom(1, 2, key), again);
    EXPECT_EQ(once, again);
    float least = 2, most = -1;
    for (size_t i = 0; i < 256; ++i) {
      const float luminance = 0.2126F * once[i] + 0.7152F * once[256 + i] + 0.0722F * once[512 + i];
      least = std::min(least, luminance);
      most = std::max(most, luminance);
    }
    EXPECT_GT(most - least, 0.2F) << key;
    EXPECT_TRUE(least >= 0 && most <= 1.001F);
  }
}

constexpr int kSide = 20;
constexpr size_t kPlane = size_t{kSide} * kSide;
constexpr size_t kCorner = 0;
constexpr size_t kCentre = kSide / 2 * kSide + kSide / 2;

// Returns a square in the middle of transparency: black, or red and blue.
std::vector<uint8_t> square(bool one_colour) {
  std::vector<uint8_t> pixels(kPlane * 4, 0);
  for (size_t y = 5; y < 15; ++y) {
    for (size_t x = 5; x < 15; ++x) {
      uint8_t* pixel = pixels.data() + 4 * (y * kSide + x);
      if (!one_colour) pixel[x < 10 ? 0 : 2] = 200;
      pixel[3] = 255;
    }
  }
  return pixels;
}

std::vector<float> augmented(bool one_colour, const Augmentation& options, int key) {
  const std::vector<uint8_t> pixels = square(one_colour);
  const StoredPicture picture{
      .pixels = pixels.data(), .side = kSide, .transparent = true, .one_colour = one_colour};
  std::vector<float> out(3 * kPlane);
  augment(picture, kSide, options, {0, 0, 0}, {1, 1, 1}, KeyedRandom(1, 2, static_cast<uint64_t>(key)), out);
  return out;
}

Augmentation nothing() {
  Augmentation options;
  options.recolour = 0;
  options.white_ground = 1;
  options.dark_ground = 0;
  options.zoom_low = options.zoom_high = 1;
  options.stretch = options.shift = options.turn = 0;
  options.colour_jitter = 0;
  return options;
}

TEST(Augment, AllOffIsThePictureOnWhite) {
  for (const bool one_colour : {true, false}) {
    const std::vector<uint8_t> pixels = square(one_colour);
    const std::vector<float> out = augmented(one_colour, nothing(), 1);
    for (size_t i = 0; i < kPlane; ++i) {
      for (size_t c = 0; c < 3; ++c) {
        const float value = pixels[4 * i + 3] == 0 ? 1 : static_cast<float>(pixels[4 * i + c]) / 255;
        EXPECT_NEAR(out[c * kPlane + i], value, 1e-4) << i << ", " << c;
      }
    }
  }
}

// Tests each kind alone, with its default, and the share of images that it must change.
TEST(Augment, EveryWayChangesPictures) {
  struct Way {
    const char* name;
    bool one_colour;
    double at_least;  // of the keys
    void (*enable)(Augmentation& options, const Augmentation& defaults);
  };
  constexpr Way kWays[] = {
      {"crop", false, 0.8,
       [](auto& o, const auto& d) {
         o.zoom_low = d.zoom_low;
         o.zoom_high = d.zoom_high;
       }},
      {"stretch", false, 0.6, [](auto& o, const auto& d) { o.stretch = d.stretch; }},
      {"shift", false, 0.8, [](auto& o, const auto& d) { o.shift = d.shift; }},
      {"turn", false, 0.6, [](auto& o, const auto& d) { o.turn = d.turn; }},
      {"brightness", false, 0.6, [](auto& o, const auto& d) { o.colour_jitter = d.colour_jitter; }},
      {"recolour", true, 0.25, [](auto& o, const auto& d) { o.recolour = d.recolour; }},
      {"background", false, 0.2, [](auto& o, const auto& d) {
         o.white_ground = d.white_ground;
         o.dark_ground = d.dark_ground;
       }}};
  constexpr int kKeys = 100;
  for (const Way& way : kWays) {
    Augmentation options = nothing();
    way.enable(options, Augmentation{});
    const std::vector<float> plain = augmented(way.one_colour, nothing(), 0);
    int changed = 0;
    for (int key = 0; key < kKeys; ++key) {
      const std::vector<float> out = augmented(way.one_colour, options, key);
      float most = 0;
      for (size_t i = 0; i < out.size(); ++i) most = std::max(most, std::abs(out[i] - plain[i]));
      changed += most > 0.04F ? 1 : 0;
    }
    EXPECT_GE(changed, way.at_least * kKeys) << way.name;
  }
}

// Compares shares of 600 draws, within four standard deviations.
TEST(Augment, MixesBackgroundsAndColours) {
  Augmentation options;
  options.colour_jitter = 0;
  constexpr int kKeys = 600;
  int white = 0, dark = 0, coloured = 0, recoloured = 0;
  for (int key = 0; key < kKeys; ++key) {
    const std::vector<float> many = augmented(false, options, key);
    const float red = many[kCorner], green = many[kPlane + kCorner], blue = many[2 * kPlane + kCorner];
    const bool grey = red == green && green == blue;
    if (grey && red == 1) ++white;
    if (grey && red <= 0.25F) ++dark;
    if (!grey) ++coloured;
    const std::vector<float> one = augmented(true, options, key);
    if (one[kCentre] + one[kPlane + kCentre] + one[2 * kPlane + kCentre] > 0.01F) ++recoloured;
  }
  EXPECT_NEAR(static_cast<double>(white) / kKeys, options.white_ground, 0.08);
  EXPECT_NEAR(static_cast<double>(dark) / kKeys, options.dark_ground, 0.06);
  EXPECT_NEAR(static_cast<double>(coloured) / kKeys, 1 - options.white_ground - options.dark_ground, 0.07);
  EXPECT_NEAR(static_cast<double>(recoloured) / kKeys, options.recolour, 0.08);
}

}  // namespace
}  // namespace saccade::lab
