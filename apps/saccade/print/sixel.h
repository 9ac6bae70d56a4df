// Pictures for terminals that draw sixels (https://vt100.net/docs/vt3xx-gp/chapter14.html), by libsixel.
#pragma once

#include <string>

#include "saccade/core/error.h"
#include "saccade/image/image_codec.h"

namespace saccade::app {

// Loads libsixel; returns true if it is installed.
bool has_sixel_library();

// Returns the sequence that draws the image at the cursor. Transparent images are drawn on white or, with
// `dark`, on black. It has at most 256 colours. kUnsupported if libsixel is not installed. Cost: milliseconds
// for small images.
Result<std::string> sixel_text(const Image& image, bool dark);

}  // namespace saccade::app
