#include "saccade/text/normalize.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unicode/bytestream.h>
#include <unicode/casemap.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/uversion.h>

#include "saccade/core/ascii.h"
#include "saccade/text/html_unescape.h"
#include "saccade/text/utf8.h"
#include "saccade/tokenizer.h"

namespace saccade {
namespace {

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

UChar32 icu(char32_t code_point) {
  return static_cast<UChar32>(code_point);
}

// Sorts combining marks into canonical order, like normalization. ICU inserts marks one by one, which takes
// hours for a million of them in the worst order. Only long runs are sorted beforehand.
std::string order_long_mark_runs(std::string_view text, const icu::Normalizer2& form) {
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
      if (!form.getDecomposition(icu(c), decomposed)) decomposed = icu::UnicodeString(icu(c));
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
// Python's str.split() also treats the four ASCII separators as white space.
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

// Returns true for the 32 characters of Python's string.punctuation.
bool is_ascii_punctuation(char c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

std::string without_punctuation(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  std::copy_if(text.begin(), text.end(), std::back_inserter(out),
               [](char c) { return !is_ascii_punctuation(c); });
  return out;
}

// Collapses white space and removes it at both ends.
template <typename IsSpace>
std::string stripped(std::string_view text, IsSpace is_space) {
  std::string out = collapse(text, is_space);
  if (out.ends_with(' ')) out.pop_back();
  return out.starts_with(' ') ? out.substr(1) : out;
}

std::string normalized_by(const icu::Normalizer2& form, std::string text) {
  if (is_ascii(text)) return text;
  UErrorCode status = U_ZERO_ERROR;
  std::string out;
  icu::StringByteSink<std::string> sink(&out);
  form.normalizeUTF8(0, order_long_mark_runs(text, form), sink, nullptr, status);
  assert(U_SUCCESS(status));
  return out;
}

// Replaces runs of two or more spaces by one space. A single white space character is kept, for example a
// tab.
std::string collapse_runs(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin;
    int count = 0;
    for (size_t next = begin; next < text.size() && is_python_space(next_code_point(text, next)); ++count) {
      end = next;
    }
    if (count == 0) (void)next_code_point(text, end);
    if (count > 1) {
      out += ' ';
    } else {
      out += text.substr(begin, end - begin);
    }
    begin = end;
  }
  return out;
}

// Converts to lower case with final sigma, like Python's str.lower().
std::string lowercase_words(std::string_view text) {
  std::string out;
  icu::StringByteSink<std::string> sink(&out);
  UErrorCode status = U_ZERO_ERROR;
  icu::CaseMap::utf8ToLower("", 0, icu::StringPiece(text.data(), static_cast<int32_t>(text.size())), sink,
                            nullptr, status);
  assert(U_SUCCESS(status));
  return out;
}

// BlipCaptionProcessor.pre_caption (salesforce/LAVIS, lavis/processors/blip_processors.py).
std::string clean_as_lavis(std::string_view text) {
  constexpr std::string_view kMarks = ".!\"()*#:;~";
  std::string plain = lowercase_words(text);
  std::replace_if(
      plain.begin(), plain.end(), [&](char c) { return kMarks.find(c) != std::string_view::npos; }, ' ');
  std::string out = collapse_runs(plain);
  out.erase(out.find_last_not_of('\n') + 1);
  out.erase(out.find_last_not_of(' ') + 1);
  out.erase(0, std::min(out.find_first_not_of(' '), out.size()));
  return out;
}

}  // namespace

std::string to_nfc(std::string text) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* nfc = icu::Normalizer2::getNFCInstance(status);
  assert(U_SUCCESS(status));
  return normalized_by(*nfc, std::move(text));
}

std::string to_nfd(std::string text) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* nfd = icu::Normalizer2::getNFDInstance(status);
  assert(U_SUCCESS(status));
  return normalized_by(*nfd, std::move(text));
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

std::string fold_case(std::string_view text) {
  if (is_ascii(text) || to_valid_utf8(text) != text) return clean_text(text, TextCleanup::kLowerAscii);
  // Canonical caseless matching (Unicode 15, D145) folds what is decomposed.
  const std::string decomposed = to_nfd(std::string(text));
  std::string out;
  icu::StringByteSink<std::string> sink(&out);
  UErrorCode status = U_ZERO_ERROR;
  icu::CaseMap::utf8Fold(0, icu::StringPiece(decomposed.data(), static_cast<int32_t>(decomposed.size())),
                         sink, nullptr, status);
  assert(U_SUCCESS(status));
  return to_nfc(std::move(out));
}

std::string clean_as_openai(std::string_view text) {
  return lowercase_words(stripped(html_unescape(html_unescape(text)), is_python_space));
}

std::string_view cleanup_name(TextCleanup cleanup) {
  return name(cleanup);
}
std::string_view name(TextCleanup cleanup) {
  switch (cleanup) {
    case TextCleanup::kTokenizerFile:
      return "tokenizer_file";
    case TextCleanup::kOpenAi:
      return "openai";
    case TextCleanup::kSiglip:
      return "siglip";
    case TextCleanup::kCanonical:
      return "canonical";
    case TextCleanup::kLavis:
      return "lavis";
    case TextCleanup::kLower:
      return "lower";
    case TextCleanup::kLowerAscii:
      break;
  }
  return "lower_ascii";
}

std::string clean_text(std::string_view text, TextCleanup cleanup) {
  switch (cleanup) {
    case TextCleanup::kTokenizerFile:
      break;
    case TextCleanup::kOpenAi:
      return clean_as_openai(text);
    case TextCleanup::kSiglip:
      // re's \s on str includes Python's own separators, like str.strip().
      return stripped(without_punctuation(lowercase_words(text)), is_python_space);
    case TextCleanup::kCanonical: {
      std::string plain = html_unescape(html_unescape(text));
      std::replace(plain.begin(), plain.end(), '_', ' ');
      return stripped(lowercase_words(without_punctuation(plain)), is_python_space);
    }
    case TextCleanup::kLower:
      return lowercase_each(text);
    case TextCleanup::kLowerAscii:
      return lower_ascii(text);
    case TextCleanup::kLavis:
      return clean_as_lavis(text);
  }
  return std::string(text);
}

std::string unicode_library_version() {
  UVersionInfo version{};
  u_getVersion(version);
  return fmt::format("{}.{}", version[0], version[1]);
}

}  // namespace saccade
