// Shared style sheet of Saccade's pages: colors, type, header, footer, image tiles.
#pragma once

#include <string_view>

namespace saccade {

// Returns the CSS. Colors are variables for a light and a dark theme; the reader's system decides, unless
// <html data-theme="light|dark"> is set. --s0 .. --s7 are the colors of series in charts. The greys behind
// transparent images do not depend on the theme, because they belong to the image.
std::string_view page_style();

}  // namespace saccade
