// What all of Saccade's pages look like: colours, type, header, footer, pictures' tiles.
#pragma once

#include <string_view>

namespace saccade {

// CSS. Colours are named once for light and once for dark, and are dark where the reader's system is, unless
// <html data-theme="light|dark"> says otherwise; --s0 .. --s7 are those of series in charts. The greys behind
// transparent pictures do not follow: what such a picture is seen on belongs to the picture.
std::string_view page_style();

}  // namespace saccade
