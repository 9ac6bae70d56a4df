// HTTP client for single requests, over libcurl: no redirects, no retries, no interpretation of statuses.
// Those are left to client.h and other callers.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"

namespace saccade::hub {

struct HttpOptions {
  std::chrono::milliseconds connect_limit{15'000};
  // Timeout of a transfer without any byte, in whole seconds.
  std::chrono::seconds silence_limit{60};
  std::chrono::milliseconds time_limit{0};  // limit of a whole transfer; 0 means no limit
  std::filesystem::path certificates;  // a file; empty: the system's. Callers read hub::certificates_from
};

struct HttpReply {
  int status = 0;
  std::map<std::string, std::string, std::less<>> headers;  // names in lower case; of several alike the last
  std::string body;                                         // body, unless it went to a sink

  // Returns a header's value, or an empty string.
  [[nodiscard]] std::string_view header(std::string_view name) const;
};

// Receiver of a large body, for statuses 200 and 206. An error of any of its functions ends the transfer and
// becomes its result.
struct HttpSink {
  std::function<Status(const HttpReply& head)> begin;  // before the first byte; also of an empty body
  std::function<Status(std::span<const std::byte>)> write;
};

// Form field, or a file if it has a file name.
struct HttpFormPart {
  std::string name;
  std::string content;
  std::string file_name = {};
  std::string content_type = {};
};

struct HttpRequest {
  std::string url;
  bool head = false;                 // HEAD instead of GET
  std::string method = {};           // such as PUT or DELETE; empty: the one that the fields below ask for
  std::optional<std::string> body;   // POST of this; its Content-Type is among the headers
  std::vector<HttpFormPart> form;    // POST of these, as multipart/form-data (RFC 7578)
  std::vector<std::string> headers;  // "Name: value"
  int64_t max_body = 64 << 20;       // limit of bodies without a sink; kLimit above it
  // IP addresses to connect to, such as "192.0.2.1" or "2001:db8::1". If not empty, only these are used,
  // without resolving the host name and without a proxy.
  std::vector<std::string> addresses = {};
};

// Failure without a usable reply. The error's text names no host, except one whose certificate is for another name; callers
// add what they requested.
struct HttpFailure {
  Error error;
  bool passing = false;   // may go well the next time: time-outs, connections that broke
  bool connected = true;  // false: nobody was reached at all
  bool late = false;      // a limit of time ended it
};
using HttpResult = tl::expected<HttpReply, HttpFailure>;

// Session that keeps its connection for the next request to the same host. Not thread-safe.
class HttpSession {
 public:
  static Result<HttpSession> open(const HttpOptions& options);
  HttpSession(HttpSession&&) noexcept;
  HttpSession& operator=(HttpSession&&) noexcept;
  ~HttpSession();

  // Sends a request. A stop request ends it with kCancelled; it is checked at least once a second.
  HttpResult send(const HttpRequest& request, const HttpSink* sink, const std::stop_token& stop);

 private:
  struct State;
  explicit HttpSession(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Resolves `reference`, found in a page or header of `base`, to an absolute URL. kBadData if either is
// invalid.
Result<std::string> resolve_url(const std::string& base, const std::string& reference);
// Returns scheme, host and port in comparable form: "https://hub.example:443".
Result<std::string> origin_of(const std::string& url);
// Parts of a URL, by the same parser that requests use.
struct UrlParts {
  std::string url;     // as it would be asked for, without a fragment
  std::string scheme;  // in lower case, as is the host
  std::string
      host;  // an IPv6 address without its brackets; numbers as in "127.0.0.1", however they were written
  uint16_t port = 0;
  bool has_user = false;  // or a password
  bool has_zone = false;  // true for an IPv6 address with a zone: "%eth0"
};
// Parses a URL; kBadData if it is not an absolute URL of a scheme known to libcurl.
Result<UrlParts> url_parts(const std::string& url);

// Returns true for a status that sends the client to another URL.
bool is_redirect(int status);
// Returns true for a status after which the same request may succeed later.
bool is_passing(int status);

}  // namespace saccade::hub
