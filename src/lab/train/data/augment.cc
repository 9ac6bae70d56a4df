#include "lab/train/data/augment.h"

#include <algorithm>
#include <cmath>

namespace saccade::lab {
namespace {

using Colour = std::array<float, 3>;  // 0 to 1

float luminance(const Colour& colour) {
  return 0.2126F * colour[0] + 0.7152F * colour[1] + 0.0722F * colour[2];
}

// Draws hue, saturation and value uniformly.
Colour random_colour(KeyedRandom& random) {
  const float hue = random.uniform(0, 6);
  const float saturation = random.uniform();
  const float value = random.uniform();
  Colour colour{};
  for (size_t c = 0; c < 3; ++c) {
    const float k = std::fmod(5 - 2 * static_cast<float>(c) + hue, 6.0F);
    colour[c] = value - value * saturation * std::clamp(std::min(k, 4 - k), 0.0F, 1.0F);
  }
  return colour;
}

Colour ground_colour(const Augmentation& options, KeyedRandom& random) {
  const float choice = random.uniform();
  if (choice < options.white_ground) return {1, 1, 1};
  if (choice < options.white_ground + options.dark_ground) {
    const float grey = random.chance(0.5F) ? 0 : random.uniform(0.05F, 0.25F);
    return {grey, grey, grey};
  }
  return random_colour(random);
}

// Returns the mean colour of the visible pixels, for images of one colour.
Colour own_colour(const StoredPicture& picture) {
  double sum[3] = {0, 0, 0};
  double alpha = 0;
  const auto count = static_cast<size_t>(picture.side) * static_cast<size_t>(picture.side);
  for (size_t i = 0; i < count; ++i) {
    for (size_t c = 0; c < 3; ++c) sum[c] += picture.pixels[4 * i + c];
    alpha += picture.pixels[4 * i + 3];
  }
  Colour colour{};
  if (alpha > 0) {
    for (size_t c = 0; c < 3; ++c) colour[c] = static_cast<float>(sum[c] / alpha);
  }
  return colour;
}

// Maps positions in the result to positions in the image: a rotated, zoomed and shifted window.
struct Window {
  float xx, xy, x0, yx, yy, y0;
};

Window random_window(const Augmentation& options, int from, int to, KeyedRandom& random) {
  const float zoom = std::exp(random.uniform(std::log(options.zoom_low), std::log(options.zoom_high)));
  const float stretch = random.uniform(-options.stretch, options.stretch);
  const float turn = random.uniform(-options.turn, options.turn);
  const float shift_x = random.uniform(-options.shift, options.shift);
  const float shift_y = random.uniform(-options.shift, options.shift);
  const float step = static_cast<float>(from) / static_cast<float>(to) / zoom;
  const float step_x = step * (1 + stretch);
  const float step_y = step * (1 - stretch);
  Window window{};
  window.xx = std::cos(turn) * step_x;
  window.xy = -std::sin(turn) * step_y;
  window.yx = std::sin(turn) * step_x;
  window.yy = std::cos(turn) * step_y;
  // The result's centre maps to the image's centre, shifted. Pixel centres lie at halves.
  const float centre = static_cast<float>(from) / 2;
  const float half = static_cast<float>(to) / 2;
  window.x0 = centre + shift_x * static_cast<float>(from) - half * (window.xx + window.xy) - 0.5F;
  window.y0 = centre + shift_y * static_cast<float>(from) - half * (window.yx + window.yy) - 0.5F;
  window.x0 += 0.5F * (window.xx + window.xy);
  window.y0 += 0.5F * (window.yx + window.yy);
  return window;
}

// Returns premultiplied RGBA at (x, y), bilinear. Outside the image it is transparent for a transparent
// image, and the nearest edge pixel otherwise.
std::array<float, 4> sample(const StoredPicture& picture, float x, float y) {
  const int side = picture.side;
  if (!picture.transparent) {
    x = std::clamp(x, 0.0F, static_cast<float>(side - 1));
    y = std::clamp(y, 0.0F, static_cast<float>(side - 1));
  }
  const float floor_x = std::floor(x);
  const float floor_y = std::floor(y);
  const float part_x = x - floor_x;
  const float part_y = y - floor_y;
  std::array<float, 4> value{};
  for (int dy = 0; dy < 2; ++dy) {
    for (int dx = 0; dx < 2; ++dx) {
      const int px = static_cast<int>(floor_x) + dx;
      const int py = static_cast<int>(floor_y) + dy;
      if (px < 0 || py < 0 || px >= side || py >= side) continue;
      const float weight = (dx == 0 ? 1 - part_x : part_x) * (dy == 0 ? 1 - part_y : part_y);
      const uint8_t* pixel = picture.pixels + 4 * (static_cast<ptrdiff_t>(py) * side + px);
      for (size_t c = 0; c < 4; ++c) value[c] += weight * static_cast<float>(pixel[c]);
    }
  }
  return value;
}

}  // namespace

void augment(const StoredPicture& picture, int side, const Augmentation& options,
             const std::array<float, 3>& mean, const std::array<float, 3>& std, KeyedRandom random,
             std::span<float> out) {
  const bool recolour = picture.one_colour && random.chance(options.recolour);
  const Colour colour = recolour ? random_colour(random) : own_colour(picture);
  Colour ground = ground_colour(options, random);
  if (picture.one_colour) {
    // Minimum contrast. Half of all pairs of colours are too close to distinguish. After a few tries, the far
    // end of the scale is used.
    constexpr float kVisible = 0.25F;
    for (int i = 0; i < 4 && std::abs(luminance(ground) - luminance(colour)) < kVisible; ++i) {
      ground = ground_colour(options, random);
    }
    if (std::abs(luminance(ground) - luminance(colour)) < kVisible) {
      const float far = luminance(colour) > 0.5F ? 0.0F : 1.0F;
      ground = {far, far, far};
    }
  }
  const Window window = random_window(options, picture.side, side, random);
  const float contrast =
      picture.one_colour ? 1 : 1 + random.uniform(-options.colour_jitter, options.colour_jitter);
  const float brightness =
      picture.one_colour ? 0 : random.uniform(-options.colour_jitter, options.colour_jitter) / 2;

  const auto plane = static_cast<size_t>(side) * static_cast<size_t>(side);
  for (int y = 0; y < side; ++y) {
    for (int x = 0; x < side; ++x) {
      const auto fx = static_cast<float>(x);
      const auto fy = static_cast<float>(y);
      const std::array<float, 4> pixel = sample(picture, window.x0 + window.xx * fx + window.xy * fy,
                                                window.y0 + window.yx * fx + window.yy * fy);
      const float alpha = pixel[3] / 255;
      const size_t place = static_cast<size_t>(y) * static_cast<size_t>(side) + static_cast<size_t>(x);
      for (size_t c = 0; c < 3; ++c) {
        const float own = recolour ? colour[c] * alpha : pixel[c] / 255;
        float value = own + (1 - alpha) * ground[c];
        value = std::clamp((value - 0.5F) * contrast + 0.5F + brightness, 0.0F, 1.0F);
        out[c * plane + place] = (value - mean[c]) / std[c];
      }
    }
  }
}

}  // namespace saccade::lab
