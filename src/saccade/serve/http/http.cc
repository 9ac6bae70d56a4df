#include "saccade/serve/http/http.h"

#include <algorithm>
#include <charconv>

#include "saccade/core/ascii.h"

namespace saccade::serve {
namespace {

std::optional<std::string_view> find(const std::vector<NamedValue>& values, std::string_view name) {
  const auto found = std::ranges::find(values, name, &NamedValue::first);
  if (found == values.end()) return std::nullopt;
  return found->second;
}

std::string decode_form(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (const int byte = percent_escape(text, i); byte >= 0) {
      decoded += static_cast<char>(byte);
      i += 2;
    } else {
      decoded += text[i] == '+' ? ' ' : text[i];
    }
  }
  return decoded;
}

// Digits alone, as a number that fits.
std::optional<int64_t> digits(std::string_view text) {
  int64_t value = 0;
  if (text.empty() || text.front() == '-') return std::nullopt;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || rest != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<std::string_view> HttpRequest::header(std::string_view name) const {
  return find(headers, name);
}

std::optional<std::string_view> HttpRequest::parameter(std::string_view name) const {
  return find(query, name);
}

std::vector<NamedValue> parse_query(std::string_view text) {
  std::vector<NamedValue> values;
  for (const std::string_view pair : split_ascii(text, "&")) {
    const size_t equals = std::min(pair.find('='), pair.size());
    values.emplace_back(decode_form(pair.substr(0, equals)),
                        equals < pair.size() ? decode_form(pair.substr(equals + 1)) : "");
  }
  return values;
}

std::optional<std::string> decode_path(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\0') return std::nullopt;
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    const int byte = percent_escape(text, i);
    if (byte <= 0) return std::nullopt;
    decoded += static_cast<char>(byte);
    i += 2;
  }
  return decoded;
}

ByteRange parse_range(std::optional<std::string_view> header, int64_t size) {
  const ByteRange whole{ByteRange::Kind::kWhole, 0, size};
  constexpr std::string_view kUnit = "bytes=";
  if (!header || !header->starts_with(kUnit)) return whole;
  const std::string_view range = header->substr(kUnit.size());
  const size_t dash = range.find('-');
  if (dash == std::string_view::npos || range.find(',') != std::string_view::npos) return whole;
  const auto first = digits(range.substr(0, dash));
  const auto last = digits(range.substr(dash + 1));
  const bool open = dash + 1 == range.size();
  if (dash == 0) {  // the last so many bytes
    if (!last) return whole;
    if (*last == 0 || size == 0) return {ByteRange::Kind::kUnsatisfiable, 0, 0};
    const int64_t bytes = std::min(*last, size);
    return {ByteRange::Kind::kPart, size - bytes, bytes};
  }
  if (!first || (!last && !open) || (last && *last < *first)) return whole;
  if (*first >= size) return {ByteRange::Kind::kUnsatisfiable, 0, 0};
  const int64_t end = last ? std::min(*last, size - 1) : size - 1;
  return {ByteRange::Kind::kPart, *first, end - *first + 1};
}

}  // namespace saccade::serve
