// Heads of messages: a request's method, target and headers checked and read, an answer's written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "saccade/core/error.h"
#include "saccade/serve/http/http.h"

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

namespace saccade::serve {

using RequestParser = boost::beast::http::request_parser<boost::beast::http::string_body>;

// Why a request cannot be taken.
struct HeadProblem {
  int status = 400;
  std::string message;
};

// Fills method, headers, id, path and query from a parser whose header is complete. A target in absolute form
// ("http://host/path") gives the Host, by RFC 9112, section 3.2.2. Returns a problem for a target that is no
// path, for HTTP/1.1 without exactly one Host, and for a Transfer-Encoding other than "chunked" alone. The
// end of such a body would be a guess, and its bytes could pass for another request.
std::optional<HeadProblem> read_head(const RequestParser& parser, HttpRequest& request);

// Returns the head of an answer. Without `bytes` no length is said: the body ends with the connection.
std::string head_of(const HttpResponse& response, std::optional<int64_t> bytes, bool keep_alive,
                    const std::string& id);

// Returns the status for a request that cannot be read; 0 where the client has gone.
int status_of(const boost::system::error_code& error);

}  // namespace saccade::serve
