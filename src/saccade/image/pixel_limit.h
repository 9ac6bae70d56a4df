// The limit on the number of an image's pixels (DecodeOptions::max_pixels), with one message for all formats.
#pragma once

#include <cstdint>

#include "saccade/core/error.h"

namespace saccade {

// Returns kLimit if width x height is more than max_pixels. Both sides are 1 or more.
inline Status check_pixel_limit(int64_t width, int64_t height, int64_t max_pixels) {
  if (height <= max_pixels / width) return {};
  return fail(ErrorCode::kLimit, "{} x {} pixels are more than max_pixels ({})", width, height, max_pixels);
}

}  // namespace saccade
