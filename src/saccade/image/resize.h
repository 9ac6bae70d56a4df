// Parts of a resized picture, for preprocessing: what a crop throws away need not be computed.
#pragma once

#include <cstdint>

#include "saccade/image/image_view.h"
#include "saccade/preprocessing.h"

namespace saccade {

// A rectangle within the picture of `full_width` x `full_height` that a resize would give.
struct ResizeWindow {
  int64_t full_width = 0;
  int64_t full_height = 0;
  int64_t left = 0;
  int64_t top = 0;
  int width = 0;
  int height = 0;
};

// Implementation that runs. Both give the same pixels; tests compare them.
enum class ResizeKernel {
  kFastest,   // AVX2 or NEON where the processor has it
  kPortable,  // plain C++
};

// Pixel for pixel the rectangle of resize(image, full_width, full_height,
// filter), at the cost of the rectangle and of the source rows and columns
// it needs. The window is not empty and lies inside the full size.
Image resize_window(const ImageView& image, const ResizeWindow& window, ResizeFilter filter,
                    ResizeKernel kernel = ResizeKernel::kFastest);

}  // namespace saccade
