#include "saccade/pages/html.h"

#include <cstddef>

#include <fmt/format.h>

#include "saccade/core/ascii.h"
#include "saccade/core/base64.h"
#include "saccade/core/hash.h"

namespace saccade {
namespace {

// Returns the length of the well-formed UTF-8 character at the start of `text` (Unicode 15, table 3-7), or 0.
size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto continues = [&](size_t i, int low = 0x80, int high = 0xBF) {
    return i < text.size() && byte(i) >= low && byte(i) <= high;
  };
  const int first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return continues(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const int low = first == 0xE0 ? 0xA0 : 0x80;
    const int high = first == 0xED ? 0x9F : 0xBF;
    return continues(1, low, high) && continues(2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const int low = first == 0xF0 ? 0x90 : 0x80;
    const int high = first == 0xF4 ? 0x8F : 0xBF;
    return continues(1, low, high) && continues(2) && continues(3) ? 4 : 0;
  }
  return 0;
}

}  // namespace

std::string escape_html(std::string_view text) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  std::string result;
  result.reserve(text.size() + text.size() / 8);
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    const auto first = static_cast<unsigned char>(text[0]);
    if (length == 0) {
      result += kReplacement;
    } else if (length > 1) {
      const bool c1_control = first == 0xC2 && static_cast<unsigned char>(text[1]) < 0xA0;
      result += c1_control ? kReplacement : text.substr(0, length);
    } else {
      switch (text[0]) {
        case '&':
          result += "&amp;";
          break;
        case '<':
          result += "&lt;";
          break;
        case '>':
          result += "&gt;";
          break;
        case '"':
          result += "&quot;";
          break;
        case '\'':
          result += "&#39;";
          break;
        case '\t':
        case '\n':
          result += text[0];
          break;
        default:
          if (first < 0x20 || first == 0x7F) {
            result += kReplacement;
          } else {
            result += text[0];
          }
      }
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return result;
}

std::string file_url(std::string_view path) {
  return "file://" + percent_encoded(path, "/");
}

std::string data_url(std::string_view media_type, std::string_view bytes) {
  return fmt::format("data:{};base64,{}", media_type, encode_base64(bytes));
}

std::string script_json(const Json& json) {
  std::string result;
  const std::string text = dump_json(json);
  result.reserve(text.size());
  // These characters occur only in strings, where an escape is equivalent.
  for (const char c : text) {
    switch (c) {
      case '<':
        result += "\\u003c";
        break;
      case '>':
        result += "\\u003e";
        break;
      case '&':
        result += "\\u0026";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string script_hash(std::string_view script) {
  return "sha256-" + encode_base64(bytes_of_hex(sha256_hex(script)));
}

}  // namespace saccade
