// One request and one answer, as handlers see them: no socket, no library of HTTP.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/files/files.h"

namespace saccade::serve {

using NamedValue = std::pair<std::string, std::string>;

struct HttpRequest {
  std::string method;               // "GET"
  std::string path;                 // percent-decoded, without the query
  std::vector<NamedValue> query;    // percent-decoded, in the order given
  std::vector<NamedValue> headers;  // names in lower case
  std::string body;
  std::string id;       // of the request: the client's X-Request-Id, or one that we made
  std::string peer;     // address of the client
  bool secure = false;  // it came under TLS
  // Request to stop working on it: nobody will read the answer, or the server has to end.
  std::stop_token stop = {};
  [[nodiscard]] bool gone() const { return stop.stop_requested(); }

  // Returns the first of that name (of a header, in lower case); `nullopt` if there is none.
  [[nodiscard]] std::optional<std::string_view> header(std::string_view name) const;
  [[nodiscard]] std::optional<std::string_view> parameter(std::string_view name) const;
};

// Bytes of a file, sent as they are read.
struct FilePart {
  std::shared_ptr<const Descriptor> file;
  int64_t offset = 0;
  int64_t bytes = 0;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<NamedValue> headers;
  std::string body;
  std::optional<FilePart> file;  // in place of `body`
  std::string about;             // what was searched for, for a log that may have it; not sent
  // Source of an event stream, sent in place of both; the stream ends with the connection. It is called
  // periodically and returns the events since the last call: "" for none yet, `nullopt` at the end. It runs
  // on a thread that serves other connections too, so it must return at once, and not throw.
  std::function<std::optional<std::string>()> events = {};
};

// Decision from a request's header alone.
struct Admission {
  std::optional<HttpResponse> answer = {};  // in place of the handler's: the body is not read
  // Nobody needs a key for it: its body is at most HttpServerOptions::open_body_bytes, and until that is there the connection
  // counts as idle.
  bool open = false;
  // The answer is made at once, from memory: it waits for no worker and takes no place among the requests.
  bool at_once = false;
};

// "a=1&b=%20": percent escapes and + decoded; what is no escape stays as it is.
std::vector<NamedValue> parse_query(std::string_view text);
// Percent escapes decoded. Nothing for a broken escape, and for a NUL.
std::optional<std::string> decode_path(std::string_view text);

// A range that a client asked for, of a body of `size` bytes. RFC 9110, section 14: one range; of several,
// and of units we do not know, the whole body is the answer.
struct ByteRange {
  enum class Kind { kWhole, kPart, kUnsatisfiable };
  Kind kind = Kind::kWhole;
  int64_t offset = 0;
  int64_t bytes = 0;
};
ByteRange parse_range(std::optional<std::string_view> header, int64_t size);

}  // namespace saccade::serve
