#include "saccade/text/utf8.h"

#include <fmt/format.h>
#include <unicode/utf8.h>

namespace saccade {
namespace {

constexpr char32_t kReplacement = 0xfffd;

}  // namespace

char32_t next_code_point(std::string_view text, size_t& position) {
  // ICU's macro only needs an integer offset; a size_t serves for texts of any length.
  const char* bytes = text.data();
  const size_t size = text.size();
  UChar32 code_point = 0;
  U8_NEXT_OR_FFFD(bytes, position, size, code_point);
  return static_cast<char32_t>(code_point);
}

void append_utf8(std::string& text, char32_t code_point) {
  char bytes[U8_MAX_LENGTH];
  size_t size = 0;
  U8_APPEND_UNSAFE(bytes, size, code_point);
  text.append(bytes, size);
}

std::string to_valid_utf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  for (size_t position = 0; position < text.size();) {
    const size_t begin = position;
    const char32_t code_point = next_code_point(text, position);
    if (code_point == kReplacement) {
      append_utf8(valid, kReplacement);
    } else {
      valid.append(text, begin, position - begin);
    }
  }
  return valid;
}

std::string one_line(std::string_view text) {
  // Excludes characters that a terminal interprets rather than shows: control characters (ISO 6429's C0, DEL,
  // C1), characters that change the direction of writing, and invalid UTF-8, whose bytes may be C1 to an
  // 8-bit terminal.
  const auto shown = [](char32_t c) {
    const bool control = c < 0x20 || (c >= 0x7F && c < 0xA0);
    const bool direction = (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
    return !control && !direction;
  };
  constexpr std::string_view kStandIn = "\uFFFD";  // for bytes that are no UTF-8
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = next_code_point(text, at);
    const std::string_view bytes = text.substr(begin, at - begin);
    if (shown(c) && (c != kReplacement || bytes == kStandIn)) {
      result += bytes;
    } else {
      for (const char byte : bytes) result += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
    }
  }
  return result;
}

}  // namespace saccade
