// A vector picture's own size in pixels, where it is given in inches, points or centimetres.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace saccade {

// libvips reads an inch as 72 pixels, CSS and every browser as 96. For a picture without a
// viewBox that is more than a matter of scale: its drawing, in pixels, is cut off on the
// right and below. This gives the same document with the root element's width and height
// in pixels; nothing where they are not in physical units, where there is a viewBox, or
// where the text is not understood. Cost: linear in the text up to the end of the root element's tag.
std::optional<std::string> svg_with_pixel_size(std::string_view svg);

}  // namespace saccade
