// Options and callbacks of an HTTP server (http_server.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "saccade/serve/http/http.h"

namespace saccade::serve {

struct HttpServerOptions {
  std::string address = "127.0.0.1";  // of an interface, as a number
  uint16_t port = 7700;               // 0: any that is free
  int socket = -1;                    // that listens already, to be taken over: address and port are its
  std::string certificate;            // a chain in PEM, for TLS; empty: in the clear
  std::string certificate_key;        // its key in PEM
  int connections = 2048;             // at a time; more take the place of idle ones, or get 503
  int64_t refusals =
      256;  // connections at a time that are read until they end; more get 503 and are closed at once
  int workers = 64;                        // requests handled at a time
  int64_t requests = 512;                  // handled and waiting
  int64_t bytes = int64_t{1} << 30;        // of bodies, of those and of those still being read
  int64_t body_bytes = int64_t{64} << 20;  // of one body
  int64_t open_body_bytes = 4 << 10;       // of one body that is read without a key (Admission::open)
  int header_bytes = 16 << 10;             // of one header, and of one chunk's
  double idle_seconds = 60;                // for the next request to begin
  double header_seconds = 10;              // from its first byte to the end of its header
  double body_seconds = 120;               // for all of the body
  double stall_seconds = 15;               // for any more of the body
  double write_seconds = 30;               // for a client to take the next 64 KiB of an answer
  double queue_seconds = 30;               // waiting for a worker; then 503
  double evict_seconds = 1;                // least time idle before another connection may take the place
  double drain_seconds = 20;               // for what is at hand when the server stops
  double cancel_seconds = 5;               // then for what was asked to stop (HttpRequest::stop)
};

// Statistics of one exchange, for an observer.
struct HttpExchange {
  std::string_view method, path, id, peer;
  std::string_view about;  // HttpResponse::about
  int status = 0;
  // The server itself refused it, no handler.
  bool refused = false;
  int64_t bytes = 0;         // of the answer's body
  double seconds = 0;        // from the end of the header to the end of the answer
  double queue_seconds = 0;  // of which waiting for a worker
  double write_seconds = 0;  // of which sending
};

// Callbacks of a server. All but `handle` are called on the I/O threads, several at a time, and must not
// block.
struct HttpHandlers {
  // Called on worker threads, several at a time. An exception is answered with 500.
  std::function<HttpResponse(const HttpRequest&)> handle;
  // The answer to a request that the server itself refuses, in the form that clients of `path` expect.
  std::function<HttpResponse(const HttpRequest&, int status, const std::string& message)> refuse;
  // Decides on each request before its body is read. May be empty.
  std::function<Admission(const HttpRequest&)> admit = {};
  std::function<void(const HttpExchange&)> observe = {};  // may be empty
  // Reports a problem that concerns no request, such as a new certificate that is invalid. May be empty.
  std::function<void(const std::string& what)> trouble = {};
};

}  // namespace saccade::serve
