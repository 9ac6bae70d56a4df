// What an engine sent, looked at: foreign bytes are a picture only once the
// decoder has said so, under limits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "saccade/core/error.h"
#include "saccade/image/image.h"

namespace saccade {

struct AnswerLimits {
  DecodeOptions decode;  // max_pixels, max_bytes, max_seconds, processes
  int width = 0;         // what was asked for; 0: any
  int height = 0;
};

struct PictureAnswer {
  int width = 0;
  int height = 0;
  std::string extension;  // "png", "jpg", "webp"
};

// kBadData for nothing, for a page of HTML, for other text and for a broken picture; kUnsupported for other
// kinds of picture; kLimit for one that is too large; kMismatch for another size than was asked for;
// kCancelled and kIo, which say nothing of the bytes that were sent.
Result<PictureAnswer> look_at_answer(std::string_view bytes, const AnswerLimits& limits);

}  // namespace saccade
