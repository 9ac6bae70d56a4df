// Pictures for terminals that draw sixels (https://vt100.net/docs/vt3xx-gp/chapter14.html), by libsixel.
#pragma once

#include <string>

#include "saccade/core/error.h"
#include "saccade/image/image.h"

namespace saccade::app {

// Loads libsixel; returns true if it is installed.
bool has_sixel_library();

// The sequence that draws the picture where the cursor stands, on white where it is transparent or, with
// `dark`, on black; in 256 colours at most. kUnsupported where libsixel is not installed. Cost:
// milliseconds for small pictures.
Result<std::string> sixel_text(const Image& image, bool dark);

}  // namespace saccade::app
