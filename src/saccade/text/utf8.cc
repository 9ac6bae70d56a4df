#include "saccade/text/utf8.h"

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

}  // namespace saccade
