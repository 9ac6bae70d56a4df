#include "saccade/text/normalize.h"

#include <algorithm>
#include <cassert>
#include <utility>
#include <vector>

#include <unicode/bytestream.h>
#include <unicode/casemap.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>

#include "saccade/text/html_unescape.h"
#include "saccade/text/utf8.h"

namespace saccade {
namespace {

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

UChar32 icu(char32_t code_point) {
  return static_cast<UChar32>(code_point);
}

// Combining marks in canonical order, as normalizing would put them. ICU inserts marks one by one, which
// takes hours for a million of them in the worst order: long runs are sorted beforehand, short ones left
// alone.
std::string order_long_mark_runs(std::string_view text, const icu::Normalizer2& nfc) {
  constexpr size_t kLong = 64;
  const auto is_mark = [](char32_t c) {
    return c >= 0x300 && u_getIntPropertyValue(icu(c), UCHAR_LEAD_CANONICAL_COMBINING_CLASS) != 0;
  };
  std::string out;
  out.reserve(text.size());
  for (size_t position = 0; position < text.size();) {
    const size_t begin = position;
    std::vector<std::pair<uint8_t, char32_t>> marks;  // combining class first
    bool mark = true;
    while (mark && position < text.size()) {
      size_t next = position;
      const char32_t c = next_code_point(text, next);
      mark = is_mark(c);
      if (!mark && position != begin) break;
      position = next;
      if (!mark) break;
      icu::UnicodeString decomposed;
      if (!nfc.getDecomposition(icu(c), decomposed)) decomposed = icu::UnicodeString(icu(c));
      for (int32_t i = 0; i < decomposed.length(); i = decomposed.moveIndex32(i, 1)) {
        const UChar32 part = decomposed.char32At(i);
        marks.emplace_back(u_getCombiningClass(part), static_cast<char32_t>(part));
      }
    }
    if (marks.size() <= kLong) {
      out += text.substr(begin, position - begin);
    } else {
      std::stable_sort(marks.begin(), marks.end(),
                       [](const auto& a, const auto& b) { return a.first < b.first; });
      for (const auto& [combining_class, c] : marks) append_utf8(out, c);
    }
  }
  return out;
}

bool is_white_space(char32_t c) {
  return u_isUWhiteSpace(icu(c)) != 0;
}
// str.split() of Python takes the four separators of ASCII for white space too.
bool is_python_space(char32_t c) {
  return (c >= 0x1c && c <= 0x1f) || is_white_space(c);
}

template <typename IsSpace>
std::string collapse(std::string_view text, IsSpace is_space) {
  std::string out;
  out.reserve(text.size());
  bool in_space = false;
  for (size_t position = 0; position < text.size();) {
    const size_t begin = position;
    const bool space = is_space(next_code_point(text, position));
    if (!space) {
      out += text.substr(begin, position - begin);
    } else if (!in_space) {
      out += ' ';
    }
    in_space = space;
  }
  return out;
}

// Python's str.lower(): a capital sigma at a word's end becomes the final one.
std::string lowercase_words(std::string_view text) {
  std::string out;
  icu::StringByteSink<std::string> sink(&out);
  UErrorCode status = U_ZERO_ERROR;
  icu::CaseMap::utf8ToLower("", 0, icu::StringPiece(text.data(), static_cast<int32_t>(text.size())), sink,
                            nullptr, status);
  assert(U_SUCCESS(status));
  return out;
}

}  // namespace

std::string to_nfc(std::string text) {
  if (is_ascii(text)) return text;
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* nfc = icu::Normalizer2::getNFCInstance(status);
  assert(U_SUCCESS(status));
  std::string out;
  icu::StringByteSink<std::string> sink(&out);
  nfc->normalizeUTF8(0, order_long_mark_runs(text, *nfc), sink, nullptr, status);
  assert(U_SUCCESS(status));
  return out;
}

std::string collapse_white_space(std::string_view text) {
  return collapse(text, is_white_space);
}

std::string lowercase_each(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t position = 0; position < text.size();) {
    const char32_t c = next_code_point(text, position);
    if (c == 0x130) {  // the only one whose lower case is two
      out += "i\u0307";
    } else {
      append_utf8(out, static_cast<char32_t>(u_tolower(icu(c))));
    }
  }
  return out;
}

std::string clean_as_openai(std::string_view text) {
  const std::string collapsed = collapse(html_unescape(html_unescape(text)), is_python_space);
  std::string_view stripped = collapsed;
  if (stripped.starts_with(' ')) stripped.remove_prefix(1);
  if (stripped.ends_with(' ')) stripped.remove_suffix(1);
  return lowercase_words(stripped);
}

}  // namespace saccade
