#include "saccade/text/html_unescape.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>

#include "saccade/core/ascii.h"
#include "saccade/text/utf8.h"

namespace saccade {
namespace {

struct Entity {
  std::string_view name;  // without "&", with ";" unless the reference may go without
  std::string_view text;
};

constexpr Entity kEntities[] = {
#include "saccade/text/html_entities.inc"
};
constexpr size_t kLongestName = 32;  // "CounterClockwiseContourIntegral;"

const Entity* find_entity(std::string_view name) {
  const auto* found =
      std::lower_bound(std::begin(kEntities), std::end(kEntities), name,
                       [](const Entity& entity, std::string_view n) { return entity.name < n; });
  return found != std::end(kEntities) && found->name == name ? found : nullptr;
}

// Appends the character of &#number;. The standard reads 0x80 to 0x9f as Windows-1252.
void append_numeric(std::string& out, uint32_t number) {
  constexpr std::array<char16_t, 32> kWindows1252 = {
      0x20ac, 0x81,   0x201a, 0x0192, 0x201e, 0x2026, 0x2020, 0x2021, 0x02c6, 0x2030, 0x0160,
      0x2039, 0x0152, 0x8d,   0x017d, 0x8f,   0x90,   0x2018, 0x2019, 0x201c, 0x201d, 0x2022,
      0x2013, 0x2014, 0x02dc, 0x2122, 0x0161, 0x203a, 0x0153, 0x9d,   0x017e, 0x0178};
  if (number == 0 || (number >= 0xd800 && number <= 0xdfff) || number > 0x10ffff) {
    append_utf8(out, 0xfffd);
  } else if (number >= 0x80 && number <= 0x9f) {
    append_utf8(out, kWindows1252[number - 0x80]);
  } else {
    const bool control =
        (number < 0x20 && number != '\t' && number != '\n' && number != '\f' && number != '\r') ||
        number == 0x7f;
    const bool not_character = (number >= 0xfdd0 && number <= 0xfdef) || (number & 0xfffe) == 0xfffe;
    if (!control && !not_character) append_utf8(out, number);
  }
}

int digit_of(char c, int base) {
  return base == 16 || is_ascii_digit(c) ? hex_digit(c) : -1;
}

// Decodes a reference; `rest` begins after "&#". Returns the number of bytes read, or 0 if it is not a
// reference.
size_t read_numeric(std::string_view rest, std::string& out) {
  const bool hexadecimal = !rest.empty() && (rest[0] == 'x' || rest[0] == 'X');
  const int base = hexadecimal ? 16 : 10;
  size_t i = hexadecimal ? 1 : 0;
  const size_t first_digit = i;
  uint32_t number = 0;
  for (; i < rest.size() && digit_of(rest[i], base) >= 0; ++i) {
    // Digits beyond the last code point change nothing.
    if (number <= 0x10ffff)
      number = number * static_cast<uint32_t>(base) + static_cast<uint32_t>(digit_of(rest[i], base));
  }
  if (i == first_digit) return 0;
  if (i < rest.size() && rest[i] == ';') ++i;
  append_numeric(out, number);
  return i;
}

// Decodes a reference; `rest` begins after "&". Returns the number of bytes read, or 0 if it is not a
// reference.
size_t read_named(std::string_view rest, std::string& out) {
  constexpr std::string_view kStop = "\t\n\f <&#;";
  size_t end = 0;
  for (size_t characters = 0; characters < 32 && end < rest.size(); ++characters) {
    if (kStop.find(rest[end]) != std::string_view::npos) break;
    next_code_point(rest, end);
  }
  if (end == 0) return 0;
  if (end < rest.size() && rest[end] == ';') ++end;
  const std::string_view word = rest.substr(0, end);
  if (const Entity* entity = find_entity(word)) {
    out += entity->text;
    return end;
  }
  for (size_t size = std::min(end - 1, kLongestName); size > 1; --size) {
    if (const Entity* entity = find_entity(word.substr(0, size))) {
      out += entity->text;
      out += word.substr(size);
      return end;
    }
  }
  out += '&';
  out += word;
  return end;
}

}  // namespace

std::string html_unescape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t ampersand = std::min(text.find('&'), text.size());
    out += text.substr(0, ampersand);
    text.remove_prefix(ampersand);
    if (text.empty()) break;
    text.remove_prefix(1);
    const size_t read = text.starts_with('#') ? read_numeric(text.substr(1), out) : read_named(text, out);
    if (read == 0) {
      out += '&';
    } else {
      text.remove_prefix(text.starts_with('#') ? read + 1 : read);
    }
  }
  return out;
}

}  // namespace saccade
