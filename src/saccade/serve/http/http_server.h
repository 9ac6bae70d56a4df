// HTTP server with bounded connections, time limits on every phase in which a client can be slow, and
// explicit refusals.
//
//   accept -> header -> [admit] -> body -> [queue] -> handler, on a worker thread -> answer
//
// Reading and writing occupy no thread while they wait. Complete requests are bounded in number, and bodies
// that arrive in bytes. Beyond that a request is refused with 429 and Retry-After, before its body is read if
// that can be known. A client that is slow with its request takes no place of faster ones. Refusals need no
// worker, including those of requests that waited too long for one. A full server closes the connection that
// has been idle the longest for a new one.
#pragma once

#include <cstdint>
#include <memory>

#include "saccade/core/error.h"
#include "saccade/serve/http/http_server_options.h"

namespace saccade::serve {

struct HttpServerState;  // http_server_state.h

class HttpServer {
 public:
  // Starts listening. kIo for a port in use, kUsage for an invalid address; errors of tls_context
  // (http_connection.h). A replaced certificate or key is loaded within a second and used for new
  // connections. If it is invalid, the previous one stays.
  static Result<std::unique_ptr<HttpServer>> start(HttpServerOptions options, HttpHandlers handlers);
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  // Stops the server, like stop().
  ~HttpServer();

  [[nodiscard]] uint16_t port() const;
  [[nodiscard]] int64_t connections() const;  // open now
  [[nodiscard]] int64_t requests() const;     // handled and waiting now
  [[nodiscard]] int64_t body_bytes() const;   // of bodies at hand now

  // Accepts no new connection, closes idle ones, and refuses requests that wait for a worker. Running
  // handlers may finish for drain_seconds, and are then asked to stop. Returns once every handler has
  // returned, including those that ignore HttpRequest::stop.
  void stop();

 private:
  explicit HttpServer(std::unique_ptr<HttpServerState> state);
  std::unique_ptr<HttpServerState> state_;
};

}  // namespace saccade::serve
