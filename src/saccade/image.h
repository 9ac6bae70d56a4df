// Decoded images: 8-bit pixels in memory.
#pragma once

#include <cstdint>
#include <vector>

namespace saccade {

// Meaning of a pixel in the file. It decides how Pillow resizes an image before a conversion to RGB.
enum class PixelMode {
  kGrey,       // 1 channel
  kGreyAlpha,  // 2 channels
  kRgb,        // 3 channels
  kRgba,       // 4 channels
  kPalette,    // the file had a palette; pixels are expanded to 3 or 4 channels
  kBilevel,    // 1 bit a pixel; pixels are expanded to 1 channel of 0 or 255
};

// Interleaved 8-bit pixels in sRGB, rows top to bottom, no padding: pixels[(y * width + x) * channels + c].
struct Image {
  int width = 0;                     // pixels
  int height = 0;                    // pixels
  int channels = 0;                  // 1 grey, 2 grey + alpha, 3 RGB, 4 RGB + alpha (alpha not premultiplied)
  PixelMode mode = PixelMode::kRgb;  // meaning of a pixel in the file
  std::vector<uint8_t> pixels = {};  // [height, width, channels]
};

}  // namespace saccade
