// Classes and cases of ASCII characters, whatever the locale, and escapes made of them. Other bytes, such as those of
// UTF-8, are in no class and stay as they are. Also the byte order mark in front of texts.
#pragma once

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace saccade {

inline constexpr std::string_view kAsciiSpace = " \t\n\v\f\r";

constexpr char lower_ascii(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
constexpr bool is_ascii_digit(char c) {
  return c >= '0' && c <= '9';
}
constexpr bool is_ascii_letter(char c) {
  return lower_ascii(c) >= 'a' && lower_ascii(c) <= 'z';
}
constexpr bool is_ascii_alphanumeric(char c) {
  return is_ascii_letter(c) || is_ascii_digit(c);
}
constexpr bool is_ascii_space(char c) {
  return kAsciiSpace.find(c) != std::string_view::npos;
}

inline std::string lower_ascii(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = lower_ascii(c);
  return lower;
}

// Returns true if the texts differ at most in the case of their letters.
constexpr bool equal_in_any_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return lower_ascii(x) == lower_ascii(y); });
}
constexpr bool starts_in_any_case(std::string_view text, std::string_view start) {
  return equal_in_any_case(text.substr(0, start.size()), start);
}

// Returns the text without the characters of `space` at its two ends.
constexpr std::string_view trim_ascii(std::string_view text, std::string_view space = kAsciiSpace) {
  const size_t begin = std::min(text.find_first_not_of(space), text.size());
  return text.substr(begin, text.find_last_not_of(space) + 1 - begin);
}

// Returns the text behind a byte order mark of UTF-8, which some programs write in front of a file's text.
constexpr std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  return text.starts_with(kMark) ? text.substr(kMark.size()) : text;
}

// Returns views of the parts between runs of characters of `space`; none of them is empty.
inline std::vector<std::string_view> split_ascii(std::string_view text,
                                                 std::string_view space = kAsciiSpace) {
  std::vector<std::string_view> parts;
  for (size_t begin = text.find_first_not_of(space); begin != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(space, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(space, end);
  }
  return parts;
}
// The views would outlive the text.
std::vector<std::string_view> split_ascii(std::string&& text, std::string_view space = kAsciiSpace) = delete;

// Range of the lines of a text, without their line feeds. A line feed at the end begins no further line. The text must
// outlive the range.
class Lines {
 public:
  class Iterator {
   public:
    constexpr explicit Iterator(std::string_view rest) : rest_(rest) {}
    constexpr std::string_view operator*() const { return rest_.substr(0, rest_.find('\n')); }
    constexpr Iterator& operator++() {
      rest_.remove_prefix(std::min((**this).size() + 1, rest_.size()));
      return *this;
    }
    constexpr bool operator==(std::default_sentinel_t /*end*/) const { return rest_.empty(); }

   private:
    std::string_view rest_;
  };
  constexpr explicit Lines(std::string_view text) : text_(text) {}
  explicit Lines(std::string&& text) = delete;
  [[nodiscard]] constexpr Iterator begin() const { return Iterator(text_); }
  [[nodiscard]] static constexpr std::default_sentinel_t end() { return {}; }

 private:
  std::string_view text_;
};

// Returns the value of a hexadecimal digit; -1 for any other character.
constexpr int hex_digit(char c) {
  if (is_ascii_digit(c)) return c - '0';
  const char lower = lower_ascii(c);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}
// Returns true for a SHA-256 as it is written everywhere: 64 hexadecimal digits, letters in lower case.
constexpr bool is_sha256_text(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// Returns the byte of the percent escape ("%2F") at text[at]; -1 if none is there.
constexpr int percent_escape(std::string_view text, size_t at) {
  if (text.size() - at < 3 || text[at] != '%') return -1;
  const int high = hex_digit(text[at + 1]);
  const int low = hex_digit(text[at + 2]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}
// Escapes all but the unreserved characters of RFC 3986 and those of `safe`.
inline std::string percent_encoded(std::string_view text, std::string_view safe = "") {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string result;
  for (const char c : text) {
    if (is_ascii_alphanumeric(c) || std::string_view("-_.~").find(c) != std::string_view::npos ||
        safe.find(c) != std::string_view::npos) {
      result += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      result += {'%', kHex[byte >> 4U], kHex[byte & 15U]};
    }
  }
  return result;
}

}  // namespace saccade
