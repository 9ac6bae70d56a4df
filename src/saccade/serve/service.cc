#include "saccade/serve/service.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>

namespace saccade::serve {
namespace {

using Clock = std::chrono::steady_clock;

std::vector<std::string_view> parts_of(std::string_view path) {
  std::vector<std::string_view> parts;
  while (!path.empty()) {
    path.remove_prefix(1);  // a slash
    const size_t end = std::min(path.find('/'), path.size());
    parts.push_back(path.substr(0, end));
    path.remove_prefix(end);
  }
  return parts;
}

// The parts of the path that stand where the pattern has braces; nothing where it is another path.
std::optional<std::vector<std::string>> match(std::string_view pattern, std::string_view path) {
  const auto wanted = parts_of(pattern);
  const auto given = parts_of(path);
  if (wanted.size() != given.size()) return std::nullopt;
  std::vector<std::string> found;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i].starts_with('{') && !given[i].empty()) {
      found.emplace_back(given[i]);
    } else if (wanted[i] != given[i]) {
      return std::nullopt;
    }
  }
  return found;
}

// The value of one cookie, decoded; "" where there is none.
std::string cookie(const HttpRequest& request, std::string_view name) {
  std::string_view rest = request.header("cookie").value_or("");
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(';'), rest.size());
    const std::string_view pair = rest.substr(0, end);
    if (pair.size() > name.size() && pair.starts_with(name) && pair[name.size()] == '=') {
      return decode_path(pair.substr(name.size() + 1)).value_or("");
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
    while (rest.starts_with(' ')) rest.remove_prefix(1);
  }
  return {};
}

// "Bearer KEY" of Authorization, X-API-Key, or a browser's cookie.
std::string key_of(const HttpRequest& request) {
  if (const auto key = request.header("x-api-key")) return std::string(*key);
  constexpr std::string_view kBearer = "Bearer ";
  const auto authorization = request.header("authorization");
  if (!authorization || !authorization->starts_with(kBearer)) return cookie(request, kKeyCookie);
  return std::string(authorization->substr(kBearer.size()));
}

// Whether a Host header names this machine's loopback interface.
bool is_own_host(std::string_view host) {
  std::string_view name = host;
  if (name.starts_with('[')) {
    name = name.substr(0, name.find(']') + 1);
  } else {
    name = name.substr(0, name.find(':'));
  }
  return name == "localhost" || name == "[::1]" ||
         (name.starts_with("127.") && name.find_first_not_of("0123456789.") == std::string_view::npos);
}

std::string_view code_of(int status) {
  switch (status) {
    case 400:
      return "bad_request";
    case 401:
      return "no_key";
    case 403:
      return "forbidden";
    case 404:
      return "not_found";
    case 405:
      return "method_not_allowed";
    case 413:
      return "limit";
    case 429:
      return "too_many_requests";
    case 431:
      return "limit";
    case 503:
      return "unavailable";
    default:
      return "internal";
  }
}

// Headers that every answer carries: nothing of ours is a page that runs or frames anything.
void add_security_headers(HttpResponse& response) {
  const auto has = [&](std::string_view name) {
    return std::ranges::find(response.headers, name, &NamedValue::first) != response.headers.end();
  };
  response.headers.emplace_back("X-Content-Type-Options", "nosniff");
  response.headers.emplace_back("Referrer-Policy", "no-referrer");
  response.headers.emplace_back("Cross-Origin-Resource-Policy", "same-origin");
  if (!has("Content-Security-Policy")) {
    response.headers.emplace_back("Content-Security-Policy",
                                  "default-src 'none'; frame-ancestors 'none'; sandbox");
  }
  if (!has("Cache-Control")) response.headers.emplace_back("Cache-Control", "no-store");
}

}  // namespace

Service::Service(ServiceOptions options, const Served& served, const Keys& keys, ThreadPool& pool,
                 Metrics& metrics)
    : options_(std::move(options)), served_(served), keys_(keys), pool_(pool), metrics_(metrics) {
  formats_.push_back(own_format());
  formats_.push_back(page_format());
  formats_.push_back(openai_format());
  formats_.push_back(clip_retrieval_format());
  formats_.push_back(immich_format());
  formats_.push_back(tei_format());
}

const Format& Service::format_of(std::string_view path) const {
  for (const Format& format : formats_) {
    for (const Route& route : format.routes) {
      if (match(route.path, path)) return format;
    }
  }
  return formats_.front();
}

HttpResponse Service::refuse(const HttpRequest& request, int status, const std::string& message) const {
  HttpResponse response =
      json_response(format_of(request.path).error(status, code_of(status), message), status);
  add_security_headers(response);
  return response;
}

HttpResponse Service::handle(const HttpRequest& request) const {
  HttpResponse response = answer(request);
  add_security_headers(response);
  return response;
}

HttpResponse Service::answer(const HttpRequest& request) const {
  const auto start = Clock::now();
  if (options_.own_host_only) {
    const auto host = request.header("host");
    if (host && !is_own_host(*host)) {
      return refuse(
          request, 403,
          fmt::format("this server answers to localhost, not to \"{}\": start it with keys", *host));
    }
  }
  const Context context{options_, served_, keys_, pool_, metrics_};
  const bool has_key = !keys_.asked_for() || keys_.has(key_of(request));
  std::string methods;
  for (const Format& format : formats_) {
    for (const Route& route : format.routes) {
      const auto parts = match(route.path, request.path);
      if (!parts) continue;
      if (route.method != request.method && !(route.method == "GET" && request.method == "HEAD")) {
        methods += fmt::format("{}{}", methods.empty() ? "" : ", ", route.method);
        continue;
      }
      HttpResponse response;
      if (!has_key && !route.open) {
        response = json_response(
            format.error(401, code_of(401), "a key is needed: Authorization: Bearer KEY, or X-API-Key: KEY"),
            401);
        response.headers.emplace_back("WWW-Authenticate", "Bearer");
      } else if (Result<HttpResponse> handled = route.handle(context, request, *parts)) {
        response = *std::move(handled);
      } else {
        const int status = http_status(handled.error().code);
        response = json_response(
            format.error(status, error_name(handled.error().code), handled.error().message), status);
      }
      const std::chrono::duration<double> seconds = Clock::now() - start;
      metrics_.answered(route.path, response.status, seconds.count());
      return response;
    }
  }
  HttpResponse response = refuse(request, methods.empty() ? 404 : 405,
                                 methods.empty() ? fmt::format("nothing is at {}", request.path)
                                                 : fmt::format("{} takes {}", request.path, methods));
  if (!methods.empty()) response.headers.emplace_back("Allow", methods);
  metrics_.answered("other", response.status, 0);
  return response;
}

HttpResponse json_response(const Json& json, int status) {
  HttpResponse response;
  response.status = status;
  response.body = dump_json(json);
  return response;
}

Result<Json> json_body(const HttpRequest& request, std::span<const std::string_view> fields) {
  SACCADE_ASSIGN(Json json, parse_json(request.body).in("body"));
  if (!json.is_object()) return fail(ErrorCode::kBadData, "body: {}, expected an object", json_kind(json));
  for (const auto& [key, value] : json.items()) {
    if (std::ranges::find(fields, key) == fields.end()) {
      return fail(ErrorCode::kUsage, "\"{}\" is not known here; there are: {}", key, fmt::join(fields, ", "));
    }
  }
  return json;
}

Result<std::string> picture_bytes(std::string_view text) {
  constexpr std::string_view kBase64 = ";base64,";
  if (text.starts_with("data:")) {
    const size_t comma = text.substr(0, 256).find(kBase64);
    if (comma == std::string_view::npos) {
      return fail(ErrorCode::kBadData, "a data: address that is not \"data:image/...;base64,...\"");
    }
    text.remove_prefix(comma + kBase64.size());
  } else if (text.find("://") != std::string_view::npos) {
    return fail(ErrorCode::kUnsupported,
                "addresses are not fetched: send the picture itself, as data:image/...;base64,...");
  }
  if (text.size() > static_cast<size_t>(std::numeric_limits<int>::max())) {
    return fail(ErrorCode::kLimit, "a picture in base64 of {} characters", text.size());
  }
  if (text.empty() || text.size() % 4 != 0) {
    return fail(ErrorCode::kBadData, "a picture in base64 of {} characters: a multiple of 4 is expected",
                text.size());
  }
  std::string bytes(text.size() / 4 * 3, '\0');
  if (::EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                        reinterpret_cast<const unsigned char*>(text.data()),
                        static_cast<int>(text.size())) < 0) {
    return fail(ErrorCode::kBadData, "a picture whose base64 is broken");
  }
  if (text.ends_with("=")) bytes.pop_back();
  if (text.ends_with("==")) bytes.pop_back();
  return bytes;
}

}  // namespace saccade::serve
