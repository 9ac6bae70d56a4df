#include "saccade/serve/http_head.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "saccade/core/ascii.h"

#include <boost/beast/core/error.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/status.hpp>

namespace saccade::serve {

namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;

namespace {

// Returns the text as a valid header value: a single line, so that a client's value cannot begin another
// header.
std::string header_value(std::string_view text) {
  std::string value(text);
  std::erase_if(value,
                [](char c) { return (static_cast<unsigned char>(c) < ' ' && c != '\t') || c == '\x7f'; });
  return value;
}

// A client's request id is taken if it is one that logs and headers can carry.
bool usable_id(std::string_view id) {
  return !id.empty() && id.size() <= 64 && std::ranges::all_of(id, [](char c) {
    return is_ascii_alphanumeric(c) || c == '-' || c == '_' || c == '.';
  });
}

// Splits a target in absolute form: takes scheme and authority off it, and returns the authority.
std::optional<std::string> take_authority(std::string_view& target) {
  const std::string begin = lower_ascii(target.substr(0, std::string_view("https://").size()));
  for (const std::string_view scheme : {std::string_view("http://"), std::string_view("https://")}) {
    if (!begin.starts_with(scheme)) continue;
    target.remove_prefix(scheme.size());
    const size_t end = std::min(target.find_first_of("/?"), target.size());
    std::string authority(target.substr(0, end));
    target.remove_prefix(end);
    return authority;
  }
  return std::nullopt;
}

std::optional<HeadProblem> read_target(std::string_view target, HttpRequest& request) {
  if (auto authority = take_authority(target)) {
    if (authority->empty() || authority->find('@') != std::string::npos)
      return HeadProblem{400, "the request's target names no host, or a user"};
    std::ranges::find(request.headers, "host", &NamedValue::first)->second = *std::move(authority);
    if (!target.starts_with('/')) {  // "http://host", "http://host?query"
      request.path.assign(1, '/');
      request.query = parse_query(target.substr(std::min<size_t>(1, target.size())));
      return std::nullopt;
    }
  }
  const size_t question = std::min(target.find('?'), target.size());
  auto path = decode_path(target.substr(0, question));
  if (!path || !path->starts_with('/')) return HeadProblem{400, "the request's target is no path"};
  request.path = *std::move(path);
  request.query = parse_query(target.substr(std::min(question + 1, target.size())));
  return std::nullopt;
}

}  // namespace

std::optional<HeadProblem> read_head(const RequestParser& parser, HttpRequest& request) {
  const auto& head = parser.get();
  request.method = std::string(head.method_string());
  for (const auto& field : head) {
    request.headers.emplace_back(lower_ascii(field.name_string()), std::string(field.value()));
  }
  if (const auto id = request.header("x-request-id"); id && usable_id(*id)) request.id = std::string(*id);
  const auto count = [&](std::string_view name) {
    return std::ranges::count(request.headers, name, &NamedValue::first);
  };
  const bool current = head.version() >= 11;
  if (const auto encodings = count("transfer-encoding"); encodings > 0) {
    const std::string encoding = lower_ascii(*request.header("transfer-encoding"));
    if (!current) return HeadProblem{400, "Transfer-Encoding is not for HTTP/1.0: send Content-Length"};
    if (encodings > 1 || encoding != "chunked") {
      return HeadProblem{501, fmt::format("Transfer-Encoding \"{}\": \"chunked\" alone, once, is taken",
                                          header_value(encoding))};
    }
  }
  const auto hosts = count("host");
  if (hosts > 1 || (hosts == 0 && current)) {
    return HeadProblem{400, fmt::format("{} Host headers, expected one", hosts)};
  }
  if (hosts == 0 && !head.target().starts_with('/')) request.headers.emplace_back("host", "");
  return read_target({head.target().data(), head.target().size()}, request);
}

std::string head_of(const HttpResponse& response, std::optional<int64_t> bytes, bool keep_alive,
                    const std::string& id) {
  const auto status = static_cast<unsigned>(response.status);
  const auto reason = http::obsolete_reason(http::int_to_status(status));
  std::string head =
      fmt::format("HTTP/1.1 {} {}\r\nDate: {:%a, %d %b %Y %H:%M:%S} GMT\r\n", status,
                  std::string_view(reason.data(), reason.size()), fmt::gmtime(std::time(nullptr)));
  if (status != 204 && status != 304) {
    head += fmt::format("Content-Type: {}\r\n", header_value(response.content_type));
    if (bytes) head += fmt::format("Content-Length: {}\r\n", *bytes);
  }
  for (const auto& [name, value] : response.headers) {
    head += fmt::format("{}: {}\r\n", name, header_value(value));
  }
  head += fmt::format("X-Request-Id: {}\r\nConnection: {}\r\n\r\n", id, keep_alive ? "keep-alive" : "close");
  return head;
}

int status_of(const error_code& error) {
  if (error == beast::error::timeout) return 408;
  if (error == http::error::header_limit || error == http::error::buffer_overflow) return 431;
  if (error == http::error::body_limit) return 413;
  if (error == http::error::bad_transfer_encoding) return 501;
  if (error == http::error::end_of_stream || error == http::error::partial_message) return 0;
  return error.category() == make_error_code(http::error::bad_method).category() ? 400 : 0;
}

}  // namespace saccade::serve
