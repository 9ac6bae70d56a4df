// Small copies of pictures, for pages.
#pragma once

#include <string>

#include "saccade/core/error.h"
#include "saccade/image/image_codec.h"

namespace saccade {

struct SmallPicture {
  std::string bytes;       // the file
  std::string type;        // "image/jpeg", "image/png" or "image/webp"
  std::string background;  // what it is best seen on: "", or "light" or "dark" where it is transparent
};

// At most `side` pixels on the longer side: JPEG, or PNG where the picture is transparent or tiny; with
// `webp` WebP in place of both but for the tiny. Errors are those of encoding. Thread-safe.
Result<SmallPicture> small_picture(Image image, int side, bool webp = false);

// `limits` for decoding no more of a picture than that needs.
DecodeOptions small_picture_decoding(int side, DecodeOptions limits);

}  // namespace saccade
