#include "saccade/serve/formats/multipart.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "saccade/core/ascii.h"

namespace saccade::serve {
namespace {

std::string_view trimmed(std::string_view text) {
  return trim_ascii(text, " \t");
}

// A parameter of "type; name=value; name=\"value\"": its value, with \" and \\ of a quoted one decoded.
std::optional<std::string> parameter(std::string_view header, std::string_view name) {
  for (size_t at = header.find(';'); at != std::string_view::npos;) {
    std::string_view rest = trimmed(header.substr(at + 1));
    const size_t equals = rest.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    const std::string_view found = trimmed(rest.substr(0, equals));
    rest = trimmed(rest.substr(equals + 1));
    std::string value;
    size_t end = 0;
    if (rest.starts_with('"')) {
      for (end = 1; end < rest.size() && rest[end] != '"'; ++end) {
        if (rest[end] == '\\' && end + 1 < rest.size()) ++end;
        value += rest[end];
      }
      if (end >= rest.size()) return std::nullopt;
    } else {
      end = std::min(rest.find(';'), rest.size());
      value = trimmed(rest.substr(0, end));
    }
    if (equal_in_any_case(found, name)) return value;
    header = rest.substr(std::min(end, rest.size()));
    at = header.find(';');
  }
  return std::nullopt;
}

// The part's name, from its headers' lines.
std::optional<std::string> name_of(std::string_view headers) {
  while (!headers.empty()) {
    const size_t end = std::min(headers.find("\r\n"), headers.size());
    const std::string_view line = headers.substr(0, end);
    const size_t colon = line.find(':');
    if (colon != std::string_view::npos &&
        equal_in_any_case(trimmed(line.substr(0, colon)), "content-disposition")) {
      return parameter(line.substr(colon + 1), "name");
    }
    headers.remove_prefix(std::min(end + 2, headers.size()));
  }
  return std::nullopt;
}

}  // namespace

Result<std::vector<FormPart>> parse_form(std::string_view content_type, std::string_view body) {
  const std::string_view type = trimmed(content_type.substr(0, content_type.find(';')));
  if (!equal_in_any_case(type, "multipart/form-data")) {
    return fail(ErrorCode::kUsage, "a body of type \"{}\", expected multipart/form-data", type);
  }
  const std::optional<std::string> boundary = parameter(content_type, "boundary");
  if (!boundary || boundary->empty() || boundary->size() > 70) {
    return fail(ErrorCode::kUsage, "multipart/form-data without a boundary of 1 to 70 characters");
  }
  const std::string first = "--" + *boundary;
  const std::string between = "\r\n" + first;
  size_t at = 0;
  if (!body.starts_with(first)) {
    at = body.find(between);
    if (at == std::string_view::npos)
      return fail(ErrorCode::kBadData, "body: no part begins with the boundary");
    at += 2;
  }
  at += first.size();
  std::vector<FormPart> parts;
  for (;;) {
    if (body.substr(at).starts_with("--")) return parts;
    const size_t line = body.find("\r\n", at);
    const size_t end = line == std::string_view::npos ? line : body.find(between, line);
    if (end == std::string_view::npos) {
      return fail(ErrorCode::kBadData, "body: part {} does not end: it is cut off", parts.size());
    }
    if (parts.size() == kMostFormParts)
      return fail(ErrorCode::kLimit, "body: more than {} parts", kMostFormParts);
    // A part whose headers are empty begins with their empty line.
    const size_t blank = body.find("\r\n\r\n", line);
    if (blank == std::string_view::npos || blank > end) {
      return fail(ErrorCode::kBadData, "body: part {} has no empty line behind its headers", parts.size());
    }
    const std::string_view headers =
        blank == line ? std::string_view() : body.substr(line + 2, blank - line - 2);
    std::optional<std::string> name = name_of(headers);
    if (!name) return fail(ErrorCode::kBadData, "body: part {} has no name", parts.size());
    const size_t begin = std::min(blank + 4, end);
    parts.push_back({*std::move(name), body.substr(begin, end - begin)});
    at = end + between.size();
  }
}

}  // namespace saccade::serve
