// Helpers that parse a short text from its front and remove the parsed part.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace saccade {

// Takes the first character if it is one of these.
inline bool take_any(std::string_view& text, std::string_view of) {
  if (text.empty() || of.find(text.front()) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

// Takes exactly `count` digits, at most 9, as a number; takes nothing if there are fewer.
inline std::optional<int> take_digits(std::string_view& text, size_t count) {
  if (text.size() < count) return std::nullopt;
  int value = 0;
  for (const char c : text.substr(0, count)) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  text.remove_prefix(count);
  return value;
}

}  // namespace saccade
