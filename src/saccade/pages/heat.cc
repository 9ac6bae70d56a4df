#include "saccade/pages/heat.h"

#include <algorithm>
#include <array>

#include "saccade/image/image_codec.h"
#include "saccade/pages/html.h"

namespace saccade {
namespace {

// Samples of matplotlib's colormap "inferno" (CC0), equally spaced: lightness increases uniformly.
constexpr std::array<std::array<uint8_t, 3>, 6> kColours{
    {{20, 11, 52}, {101, 21, 110}, {159, 42, 99}, {212, 72, 66}, {245, 125, 21}, {250, 240, 110}}};
constexpr uint8_t kLeastAlpha = 96;
constexpr uint8_t kMostAlpha = 160;

}  // namespace

Result<std::string> heat_url(std::span<const float> map, int64_t rows, int64_t columns) {
  if (rows < 1 || columns < 1 || std::ssize(map) != rows * columns) {
    return fail(ErrorCode::kUsage, "a map of {} values for {} x {} cells", map.size(), rows, columns);
  }
  const auto [least, most] = std::ranges::minmax(map);
  Image image;
  image.width = static_cast<int>(columns);
  image.height = static_cast<int>(rows);
  image.channels = 4;
  image.mode = PixelMode::kRgba;
  for (const float value : map) {
    const float share = most > least ? (value - least) / (most - least) : 0.0F;
    const float place = share * static_cast<float>(kColours.size() - 1);
    const auto below = std::min(static_cast<size_t>(place), kColours.size() - 2);
    const float part = place - static_cast<float>(below);
    for (size_t c = 0; c < 3; ++c) {
      const float from = kColours[below][c];
      const float to = kColours[below + 1][c];
      image.pixels.push_back(static_cast<uint8_t>(from + part * (to - from) + 0.5F));
    }
    image.pixels.push_back(static_cast<uint8_t>(kLeastAlpha + share * (kMostAlpha - kLeastAlpha)));
  }
  SACCADE_ASSIGN(const std::string png, encode_png(image));
  return data_url("image/png", png);
}

}  // namespace saccade
