// UTF-8 from anywhere, made safe to work on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace saccade {

// The text with every ill-formed sequence replaced by U+FFFD, one for each maximal part (as the Unicode
// standard recommends and Python's errors="replace" does). Linear.
std::string to_valid_utf8(std::string_view text);

// The code point that begins at text[position], moving position behind it; U+FFFD where the bytes are
// ill-formed. position < text.size().
char32_t next_code_point(std::string_view text, size_t& position);

void append_utf8(std::string& text, char32_t code_point);

}  // namespace saccade
