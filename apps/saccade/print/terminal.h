// Capabilities of the output terminal beyond plain text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "saccade/core/enum_names.h"
#include "saccade/core/error.h"

namespace saccade::app {

// Protocols for images in a terminal: off, kitty (https://sw.kovidgoyal.net/kitty/graphics-protocol/), iTerm2
// (https://iterm2.com/documentation-images.html), or sixels (sixel.h).
enum class PictureProtocol { kOff, kKitty, kIterm2, kSixel };
std::span<const EnumName<PictureProtocol>> enum_names(PictureProtocol);

struct Terminal {
  bool colour = false;
  bool links = false;  // OSC 8, https://gist.github.com/egmontkob/eb114294efbcd5adb1944c9f3cb5feda
  PictureProtocol pictures = PictureProtocol::kOff;
  int line_height = 20;  // in pixels, as the terminal says, or a usual one
};

// Returns the capabilities of standard output. There are none if it is no terminal, or TERM is "dumb" or not
// set; there is no colour with NO_COLOR (https://no-color.org). `chosen` sets the image protocol, else the
// environment does. If that names none, the terminal is asked whether it draws sixels, for half a second at
// most.
Terminal terminal_of_output(std::optional<PictureProtocol> chosen);

// The text in a colour of the terminal's own; as it is without colour.
std::string dimmed(std::string_view text, const Terminal& terminal);
std::string bold(std::string_view text, const Terminal& terminal);
// The text as a link to the file; as it is without links. `shown` may hold escape sequences already.
std::string file_link(std::string_view shown, std::string_view path, const Terminal& terminal);

// A picture's PNG (kitty) or any file (iTerm2), `rows` lines high, and the line's end
// behind it; nothing for sixels.
std::string inline_picture(std::string_view bytes, int rows, PictureProtocol protocol);

}  // namespace saccade::app
