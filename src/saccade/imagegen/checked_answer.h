// Validation of an engine's output: untrusted bytes count as an image only after the decoder accepts them,
// under limits.
#pragma once

#include <string>
#include <string_view>

#include "saccade/core/error.h"
#include "saccade/image/image_codec.h"

namespace saccade {

struct AnswerLimits {
  DecodeOptions decode;  // max_pixels, max_bytes, max_seconds, processes
  int width = 0;         // requested width; 0 means any
  int height = 0;
};

struct PictureAnswer {
  int width = 0;
  int height = 0;
  std::string extension;  // "png", "jpg", "webp"
};

// Validates the bytes as an image. Returns kBadData for empty input, an HTML page, other text and a broken
// image. Returns kUnsupported for other image formats, kLimit for an image that is too large, and kMismatch
// for a size other than the requested one. kCancelled and kIo do not depend on the bytes.
Result<PictureAnswer> look_at_answer(std::string_view bytes, const AnswerLimits& limits);

}  // namespace saccade
