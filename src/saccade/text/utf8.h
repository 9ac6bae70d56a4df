// UTF-8 decoding and repair of untrusted text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace saccade {

// Replaces every ill-formed sequence by U+FFFD, one for each maximal part (as the Unicode standard recommends
// and Python's errors="replace" does). Linear.
std::string to_valid_utf8(std::string_view text);

// Returns the code point at text[position] and moves position past it; U+FFFD if the bytes are ill-formed.
// position < text.size().
char32_t next_code_point(std::string_view text, size_t& position);

void append_utf8(std::string& text, char32_t code_point);

// Returns the text on one line, as it may be shown on a terminal: control characters, those that change the direction of
// writing, and ill-formed bytes as \xNN. A file's name cannot write lines of its own then.
std::string one_line(std::string_view text);

}  // namespace saccade
