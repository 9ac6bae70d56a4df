// Pictures as WebP, for pages: smaller than JPEG at the same look, with transparency.
#pragma once

#include <string>

#include "saccade/core/error.h"
#include "saccade/image/image_codec.h"

namespace saccade {

// `image` has 1 to 4 channels; `quality` 1 to 100. kUnsupported where libvips was
// built without WebP. Thread-safe.
Result<std::string> encode_webp(const Image& image, int quality = 80);

}  // namespace saccade
