// Connections: bounded, with time limits on every side that a client can be slow on, and honest refusals.
//
//   accept -> header -> [admit] -> body -> [queue] -> handler, on a worker thread -> answer
//
// Reading and writing take no thread while they wait. Requests that are there as a whole are bounded
// in number, bodies in bytes as they come in: past that a request is refused with 429 and
// Retry-After, before its body is read where that can be known. A client that is slow with its
// request takes no place of those that are not.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "saccade/core/error.h"
#include "saccade/serve/http/http.h"

namespace saccade::serve {

struct HttpServerOptions {
  std::string address = "127.0.0.1";       // of an interface, as a number
  uint16_t port = 7700;                    // 0: any that is free
  int socket = -1;                         // that listens already, to be taken over: address and port are its
  std::string certificate;                 // a chain in PEM, for TLS; empty: in the clear
  std::string certificate_key;             // its key in PEM
  int connections = 2048;                  // at a time; more are closed with 503
  int workers = 64;                        // requests handled at a time
  int64_t requests = 512;                  // handled and waiting
  int64_t bytes = int64_t{1} << 30;        // of bodies, of those and of those still being read
  int64_t body_bytes = int64_t{64} << 20;  // of one body
  int header_bytes = 16 << 10;             // of one header
  double idle_seconds = 60;                // for the next request to begin
  double header_seconds = 10;              // from its first byte to the end of its header
  double body_seconds = 120;               // for all of the body
  double stall_seconds = 15;               // for any more of the body
  double write_seconds = 30;               // for a client to take the next 64 KiB of an answer
  double queue_seconds = 30;               // waiting for a worker; then 503
  double drain_seconds = 20;               // for what is at hand when the server stops
};

// What is counted, for an observer.
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

// What a server calls. All but `handle` are called on the threads that read and write, several at a time,
// and must not keep these waiting.
struct HttpHandlers {
  // On worker threads, several at a time. What it throws is answered with 500.
  std::function<HttpResponse(const HttpRequest&)> handle;
  // The answer to a request that the server itself refuses, in the form that clients of `path` expect.
  std::function<HttpResponse(const HttpRequest&, int status, const std::string& message)> refuse;
  // Asked of a request with a body before that is read: the answer where there is no
  // need to read it. May be empty.
  std::function<std::optional<HttpResponse>(const HttpRequest&)> admit = {};
  std::function<void(const HttpExchange&)> observe = {};  // may be empty
  // What went wrong that concerns no request: a new certificate that cannot be used. May be empty.
  std::function<void(const std::string& what)> trouble = {};
};

class HttpServer {
 public:
  // Listens. kIo for a port in use, kUsage for an address that is none; errors of tls_context
  // (http_connection.h). A certificate that is replaced, or its key, is read again within a second and used
  // for connections from then on; where it cannot be used, the one before it stays.
  static Result<std::unique_ptr<HttpServer>> start(HttpServerOptions options, HttpHandlers handlers);
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  // As stop().
  ~HttpServer();

  [[nodiscard]] uint16_t port() const;
  [[nodiscard]] int64_t connections() const;  // open now
  [[nodiscard]] int64_t requests() const;     // handled and waiting now
  [[nodiscard]] int64_t body_bytes() const;   // of bodies at hand now

  // Takes no new connection, ends idle ones, lets what is at hand finish for
  // drain_seconds, and ends the rest.
  void stop();

 private:
  struct State;
  explicit HttpServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace saccade::serve
