#include "saccade/document/decoded_text.h"

#include <algorithm>
#include <array>

#include "saccade/text/normalize.h"
#include "saccade/text/utf8.h"

namespace saccade {
namespace {

constexpr std::string_view kUtf8Mark = "\xEF\xBB\xBF";
// Largest share of control characters beyond white space. Text may contain an occasional form feed or escape.
constexpr double kMostControls = 1e-3;

// Code points of 0x80 to 0x9f in the WHATWG's Encoding Standard; unassigned bytes stay unchanged.
constexpr std::array<char32_t, 32> kWindows1252 = {
    0x20ac, 0x81,   0x201a, 0x0192, 0x201e, 0x2026, 0x2020, 0x2021, 0x02c6, 0x2030, 0x0160,
    0x2039, 0x0152, 0x8d,   0x017d, 0x8f,   0x90,   0x2018, 0x2019, 0x201c, 0x201d, 0x2022,
    0x2013, 0x2014, 0x02dc, 0x2122, 0x0161, 0x203a, 0x0153, 0x9d,   0x017e, 0x0178};

bool is_valid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    // A genuine replacement character in the text has three bytes.
    if (next_code_point(text, at) == 0xfffd && text.substr(begin, at - begin) != "\xEF\xBF\xBD") return false;
  }
  return true;
}

Status check_text(std::string_view bytes) {
  if (const size_t nul = bytes.find('\0'); nul != std::string_view::npos) {
    return fail(ErrorCode::kBadData,
                "no text: byte {} is NUL, as in a binary file (or in UTF-16 without a byte order mark)", nul);
  }
  const auto controls = std::ranges::count_if(bytes, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < ' ' && (byte < '\t' || byte > '\r') && byte != 0x1b;
  });
  if (static_cast<double>(controls) > kMostControls * static_cast<double>(bytes.size())) {
    return fail(ErrorCode::kBadData, "no text: {} of its {} bytes are control characters", controls,
                bytes.size());
  }
  return {};
}

Result<DecodedText> from_utf16(std::string_view bytes, bool big) {
  DecodedText text;
  text.encoding = big ? TextEncoding::kUtf16Be : TextEncoding::kUtf16Le;
  text.mark = 2;
  if (bytes.size() % 2 != 0) {
    return fail(ErrorCode::kBadData, "UTF-16 of an odd number of bytes ({})", bytes.size());
  }
  const auto unit = [&](size_t at) {
    const auto first = static_cast<unsigned char>(bytes[at]);
    const auto second = static_cast<unsigned char>(bytes[at + 1]);
    return static_cast<char32_t>(big ? first << 8U | second : second << 8U | first);
  };
  for (size_t at = 2; at < bytes.size(); at += 2) {
    char32_t code = unit(at);
    if (code >= 0xd800 && code < 0xe000) {
      const char32_t low = code < 0xdc00 && at + 2 < bytes.size() ? unit(at + 2) : 0;
      if (low < 0xdc00 || low >= 0xe000) {
        return fail(ErrorCode::kBadData, "broken UTF-16: half a surrogate pair at byte {}", at);
      }
      code = 0x10000 + ((code - 0xd800) << 10U) + (low - 0xdc00);
      at += 2;
    }
    append_utf8(text.utf8, code);
  }
  SACCADE_TRY(check_text(text.utf8));
  return text;
}

DecodedText from_windows_1252(std::string_view bytes) {
  DecodedText text;
  text.encoding = TextEncoding::kLatin1;
  text.utf8.reserve(bytes.size() + bytes.size() / 8);
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    const size_t before = text.utf8.size();
    append_utf8(text.utf8, byte >= 0x80 && byte < 0xa0 ? kWindows1252[byte - 0x80U] : byte);
    if (byte < 0x80) continue;
    const size_t more = text.utf8.size() - before - 1;
    text.longer.emplace_back(text.utf8.size(), more + (text.longer.empty() ? 0 : text.longer.back().second));
  }
  return text;
}

}  // namespace

std::span<const EnumName<TextEncoding>> enum_names(TextEncoding) {
  static constexpr std::array<EnumName<TextEncoding>, 4> kWords = {{{TextEncoding::kUtf8, "UTF-8"},
                                                                    {TextEncoding::kLatin1, "Windows-1252"},
                                                                    {TextEncoding::kUtf16Le, "UTF-16"},
                                                                    {TextEncoding::kUtf16Be, "UTF-16"}}};
  return kWords;
}

size_t DecodedText::source_offset(size_t position) const {
  const auto behind = std::ranges::upper_bound(longer, position, {}, &std::pair<size_t, size_t>::first);
  return mark + position - (behind == longer.begin() ? 0 : std::prev(behind)->second);
}

Result<DecodedText> decode_text(std::string_view bytes, std::string_view declared) {
  if (bytes.starts_with("\xFF\xFE")) return from_utf16(bytes, false);
  if (bytes.starts_with("\xFE\xFF")) return from_utf16(bytes, true);
  SACCADE_TRY(check_text(bytes));
  const std::string name = lowercase_each(declared);
  constexpr std::array<std::string_view, 8> kKnown = {"",           "utf-8",     "utf8",         "us-ascii",
                                                      "iso-8859-1", "iso8859-1", "windows-1252", "latin1"};
  if (std::ranges::find(kKnown, name) == kKnown.end()) {
    return fail(ErrorCode::kUnsupported,
                "its encoding is {}, which is not read here: `iconv -f {} -t UTF-8` converts it",
                name.substr(0, 40), name.substr(0, 40));
  }
  DecodedText text;
  if (bytes.starts_with(kUtf8Mark)) {
    text.mark = kUtf8Mark.size();
    bytes.remove_prefix(text.mark);
  }
  if (!is_valid_utf8(bytes)) {
    if (text.mark > 0) return fail(ErrorCode::kBadData, "it begins as UTF-8 and goes on with other bytes");
    return from_windows_1252(bytes);
  }
  text.utf8 = bytes;
  return text;
}

}  // namespace saccade
