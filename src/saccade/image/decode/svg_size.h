// A vector picture's own size in pixels, where it is given in inches, points or centimetres.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace saccade {

// Returns the document with the root element's width and height in pixels. libvips reads an inch as 72
// pixels, CSS and every browser as 96. Without a viewBox this is more than a scale: the drawing, in pixels,
// is cut off on the right and below. Returns `nullopt` if width and height are not in physical units, if
// there is a viewBox, or if the text cannot be parsed. Cost: linear in the text up to the end of the root
// element's tag.
std::optional<std::string> svg_with_pixel_size(std::string_view svg);

}  // namespace saccade
