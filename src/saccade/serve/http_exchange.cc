// One request and its answer: read within bounds, handed to a worker, looked after, written.
#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <stop_token>
#include <unistd.h>

#include <fmt/format.h>

#include "saccade/core/ascii.h"
#include "saccade/core/process/memory_reserve.h"
#include "saccade/core/seconds_since.h"
#include "saccade/serve/http_server_state.h"

#include <boost/asio/post.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/http/error.hpp>

namespace saccade::serve {
namespace {

// Interval between checks of a pending request: its client may have gone, or it may have waited too long.
constexpr auto kLook = std::chrono::milliseconds(250);
// Number of checks of a client that has closed its side before it is probed. The probe is "100 Continue",
// which clients ignore. A client that has gone answers with a reset.
constexpr int kLooksBeforeProbe = 4;
constexpr int kEmptyLines = 8;
// Polling interval of an event stream, and the number of polls for which nothing may be sent.
constexpr auto kEventsPause = std::chrono::milliseconds(200);
constexpr int kQuietLooks = 50;

// A request in the queue: its connection and a worker race for it, and the first to take it answers it. It holds
// all that the worker needs: the connection's coroutine may end first, where memory has run out.
struct Turn {
  Turn(std::shared_ptr<Connection> whose, HttpRequest asked)
      : connection(std::move(whose)), request(std::move(asked)), looks(connection->executor()) {
    request.stop = stop.get_token();
  }
  [[nodiscard]] bool take() { return !taken_.exchange(true); }

  const std::shared_ptr<Connection> connection;
  std::stop_source stop;
  HttpRequest request;
  HttpResponse response;
  double queued = 0;  // seconds before a worker took it
  // On the connection's strand: the time of the next look, and whether a worker has answered it.
  asio::steady_timer looks;
  bool done = false;

 private:
  std::atomic<bool> taken_ = false;
};

// Asks for a stop where a coroutine ends, however it does.
struct StopsAtEnd {
  std::shared_ptr<Turn> turn;
  ~StopsAtEnd() { turn->stop.request_stop(); }
};

constexpr const char* kBusy = "too much is asked at once: try again in a second";
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

// Leaves out empty lines before a request (RFC 9112, section 2.2), as many as `lines` says. Returns false where
// half of one may be there: more has to be read.
bool skip_empty_lines(beast::flat_buffer& buffer, int& lines) {
  const auto text = [&] {
    return std::string_view(static_cast<const char*>(buffer.cdata().data()), buffer.size());
  };
  for (; lines > 0 && text().starts_with("\r\n"); --lines) buffer.consume(2);
  return lines == 0 || text() != "\r";
}

}  // namespace

void HttpServerState::observe(const HttpRequest& request, HttpExchange exchange) const {
  if (!handlers.observe) return;
  exchange.method = request.method;
  exchange.path = request.path;
  exchange.id = request.id;
  exchange.peer = request.peer;
  handlers.observe(exchange);
}

awaitable<error_code> HttpServerState::read_head_of(Connection& connection, beast::flat_buffer& buffer,
                                                    Parser& parser) {
  error_code error;
  const auto most = static_cast<size_t>(options.header_bytes);
  size_t read = 0;  // the parser's own limit is one on the first line and one on the rest
  int empty_lines = kEmptyLines;
  while (!parser.is_header_done()) {
    const bool begun = read > 0 || skip_empty_lines(buffer, empty_lines);
    if (begun && buffer.size() > 0) {
      const size_t used = parser.put(buffer.data(), error);
      buffer.consume(used);
      read += used;
      const bool more = error == http::error::need_more;
      if (read > most || (more && read + buffer.size() > most)) co_return http::error::header_limit;
      if (!error) continue;
      if (!more) co_return error;
    }
    const asio::mutable_buffer room = buffer.prepare(4096);
    const size_t got = co_await connection.read_some(room, error);
    if (error) co_return error;
    buffer.commit(got);
  }
  co_return error;
}

// Serves one request. Returns true if another one may follow.
awaitable<bool> HttpServerState::serve_one(Connection& connection, beast::flat_buffer& buffer) {
  if (stopping) co_return false;
  connection.set_idle(true);
  if (buffer.size() == 0) {
    connection.limit(options.idle_seconds);
    error_code error;
    const asio::mutable_buffer room = buffer.prepare(4096);
    const size_t got = co_await connection.read_some(room, error);
    if (error) co_return false;
    buffer.commit(got);
  }
  HttpRequest request;
  request.id = fmt::format("{:08x}", ++ids);
  request.peer = connection.peer();
  request.secure = connection.secure();
  Parser parser;
  parser.header_limit(static_cast<uint32_t>(options.header_bytes));
  parser.body_limit(boost::none);  // looked at once it is known who asks for what
  connection.limit_reading(options.header_seconds);
  const error_code broken = co_await read_head_of(connection, buffer, parser);
  if (broken) {
    co_await give_up(connection, request, broken, "request", 0);
    co_return false;
  }
  const auto arrived = Clock::now();
  const std::optional<HeadProblem> problem = read_head(parser, request);
  if (problem) {
    co_await refuse_and_close(connection, request, problem->status, problem->message);
    co_return false;
  }
  Admission admission;
  if (handlers.admit) admission = handlers.admit(request);
  Held bytes_held;
  if (!parser.is_done()) {
    const bool whole = co_await take_body(connection, buffer, parser, request, admission, bytes_held);
    if (!whole) co_return false;
  }
  connection.set_idle(false);
  const bool keep_alive = parser.get().keep_alive();
  const bool probes = parser.get().version() >= 11;
  request.body = std::move(parser.get().body());

  connection.no_limit();
  Held request_held;
  HttpResponse response;
  HttpExchange exchange;
  if (admission.answer) {
    response = *std::move(admission.answer);
  } else if (admission.at_once || request_held.take(requests, 1, options.requests)) {
    if (!admission.at_once) ++for_workers;
    co_await handle(connection, request, admission.at_once, probes, response, exchange.queue_seconds);
  } else {
    co_await refuse_and_close(connection, request, 429, kBusy);
    co_return false;
  }
  const auto writing = Clock::now();
  const bool head_only = request.method == "HEAD";
  const bool again = keep_alive && !stopping && !response.events;
  bool written = false;
  if (response.events && !head_only) {
    request_held.release();
    bytes_held.release();
    co_await write_events(connection, response, request.id);
  } else {
    written = co_await write(connection, response, again, head_only, request.id);
  }
  exchange.status = response.status;
  exchange.about = response.about;
  exchange.bytes = response.file ? response.file->bytes : static_cast<int64_t>(response.body.size());
  exchange.seconds = seconds_since(arrived);
  exchange.write_seconds = seconds_since(writing);
  observe(request, exchange);
  if (written && !again && connection.secure()) co_await connection.linger(kLingerSeconds, kLingerBytes);
  co_return written&& again;
}

awaitable<void> HttpServerState::give_up(Connection& connection, const HttpRequest& request,
                                         const error_code& error, std::string_view what, int64_t most_bytes) {
  const int status = status_of(error);
  if (status == 0) co_return;
  std::string message = fmt::format("no HTTP {}: {}", what, error.message());
  if (status == 431) message = fmt::format("a header of more than {} bytes", options.header_bytes);
  if (status == 413) message = fmt::format("a body of more than {} bytes", most_bytes);
  if (status == 408)
    message = what == "body" ? fmt::format("a body that took more than {} s, or {} s without a byte",
                                           options.body_seconds, options.stall_seconds)
                             : fmt::format("a header that took more than {} s", options.header_seconds);
  co_await refuse_and_close(connection, request, status, message);
}

// All that can be known before a body is read; then the body.
awaitable<bool> HttpServerState::take_body(Connection& connection, beast::flat_buffer& buffer, Parser& parser,
                                           const HttpRequest& request, const Admission& admission,
                                           Held& held) {
  if (admission.answer) {
    co_await answer_and_close(connection, request, *admission.answer);
    co_return false;
  }
  const int64_t most =
      admission.open ? std::min(options.open_body_bytes, options.body_bytes) : options.body_bytes;
  const auto length = parser.content_length();
  if (length && *length > static_cast<uint64_t>(most)) {
    const std::string message = fmt::format("a body of {} bytes, at most {} are taken", *length, most);
    co_await refuse_and_close(connection, request, 413, message);
    co_return false;
  }
  const bool busy = !admission.at_once && requests >= options.requests;
  if (busy || bytes + static_cast<int64_t>(length.value_or(0)) > options.bytes) {
    co_await refuse_and_close(connection, request, 429, kBusy);
    co_return false;
  }
  if (!admission.open) connection.set_idle(false);
  const bool whole = co_await read_body(connection, buffer, parser, request, most, held);
  co_return whole;
}

awaitable<bool> HttpServerState::read_body(Connection& connection, beast::flat_buffer& buffer, Parser& parser,
                                           const HttpRequest& request, int64_t most, Held& held) {
  const auto started = Clock::now();
  const asio::const_buffer none;
  if (const auto expected = request.header("expect"); expected && lower_ascii(*expected) == "100-continue") {
    connection.limit(options.write_seconds);
    const bool sent = co_await connection.write(kContinue, none);
    if (!sent) co_return false;
  }
  parser.body_limit(static_cast<uint64_t>(most));
  parser.eager(true);
  error_code error;
  size_t counted = 0;
  for (;;) {
    if (buffer.size() > 0) {
      const size_t used = parser.put(buffer.data(), error);
      buffer.consume(used);
      if (error && error != http::error::need_more) break;
      const size_t read = parser.get().body().size();
      if (!held.take(bytes, static_cast<int64_t>(read - counted), options.bytes)) {
        const std::string message = "too many bytes are sent at once: try again in a second";
        co_await refuse_and_close(connection, request, 429, message);
        co_return false;
      }
      counted = read;
      // A body that goes on would take what was set aside for the others.
      if (!restore_memory_reserve()) {
        const std::string message = "no memory for this now";
        co_await refuse_and_close(connection, request, 503, message);
        co_return false;
      }
      if (parser.is_done()) co_return true;
      if (!error && buffer.size() > 0) continue;
      // The parser leaves nothing in the buffer but a chunk's header, or a trailer, that has not ended.
      if (buffer.size() > static_cast<size_t>(options.header_bytes)) {
        error = http::error::header_limit;
        break;
      }
    }
    connection.limit_reading(std::min(options.stall_seconds, options.body_seconds - seconds_since(started)));
    const asio::mutable_buffer room = buffer.prepare(kSlice);
    const size_t got = co_await connection.read_some(room, error);
    if (error) break;
    buffer.commit(got);
  }
  co_await give_up(connection, request, error, "body", most);
  co_return false;
}

// The answer to a request that no handler is called for.
HttpResponse HttpServerState::not_begun(const HttpRequest& request, double waited) const {
  if (!stopping && waited <= options.queue_seconds) {
    HttpResponse nobody_reads_this;
    nobody_reads_this.status = 499;
    return nobody_reads_this;
  }
  HttpResponse response =
      handlers.refuse(request, 503, stopping ? "the server is stopping" : "waited too long for its turn");
  response.headers.emplace_back("Retry-After", "1");
  return response;
}

void HttpServerState::run(const HttpRequest& request, bool gone, bool memory, double waited,
                          HttpResponse& response) noexcept {
  const auto refuse = [&](int status, const char* message) {
    try {
      response = handlers.refuse(request, status, message);
    } catch (...) {  // no memory for more than this
      response.status = status;
      response.headers.clear();
      response.body.clear();
      response.file.reset();
    }
  };
  try {
    if (!memory) throw std::bad_alloc();
    const bool begins = !gone && !stopping && waited <= options.queue_seconds;
    response = begins ? handlers.handle(request) : not_begun(request, waited);
  } catch (const std::bad_alloc&) {
    refuse(503, "no memory for this now");
  } catch (const std::exception& error) {
    refuse(500, error.what());
  } catch (...) {
    refuse(500, "the handler failed");
  }
}

// The handler runs on a worker. The connection's coroutine looks after the request meanwhile, holding no
// thread; it answers itself what no worker has taken in time.
awaitable<void> HttpServerState::handle(Connection& connection, HttpRequest& request, bool at_once,
                                        bool probes, HttpResponse& response, double& queued) {
  const auto started = Clock::now();
  const auto turn = std::make_shared<Turn>(connection.shared_from_this(), std::move(request));
  const StopsAtEnd ends{turn};
  const asio::const_buffer none;
  asio::post(at_once ? at_once_workers : workers, [this, turn, started, at_once] {
    if (!turn->take()) return;
    turn->queued = seconds_since(started);
    // Once the reserve was needed, nothing larger than an answer at once is begun.
    const bool memory = at_once || restore_memory_reserve();
    run(turn->request, turn->connection->gone(), memory, turn->queued, turn->response);
    asio::post(turn->connection->executor(), [turn] {
      turn->done = true;
      turn->looks.cancel();
    });
  });
  int half_closed = 0;
  while (!turn->done) {
    turn->looks.expires_after(kLook);
    (void)co_await turn->looks.async_wait(kAwait);
    if (turn->done) break;
    const double waited = seconds_since(started);
    const bool gone = connection.gone();
    if (gone || cancelling) turn->stop.request_stop();
    if ((gone || stopping || waited > options.queue_seconds) && turn->take()) {
      turn->queued = waited;
      turn->response = not_begun(turn->request, waited);
      break;
    }
    if (!probes || !connection.half_closed() || ++half_closed != kLooksBeforeProbe) continue;
    connection.limit(options.write_seconds);
    const bool sent = co_await connection.write(kContinue, none);
    if (!sent) turn->stop.request_stop();
    connection.no_limit();
  }
  queued = turn->queued;
  request = std::move(turn->request);
  response = std::move(turn->response);
}

awaitable<bool> HttpServerState::write(Connection& connection, const HttpResponse& response, bool keep_alive,
                                       bool head_only, const std::string& id) {
  const int64_t total = response.file ? response.file->bytes : static_cast<int64_t>(response.body.size());
  const std::string head = head_of(response, total, keep_alive, id);
  const bool no_body = head_only || response.status == 204 || response.status == 304;
  std::vector<char> block;
  if (response.file && !no_body) block.resize(std::min<size_t>(kSlice, static_cast<size_t>(total)));
  int64_t sent = no_body ? total : 0;
  std::string_view first = head;
  do {
    asio::const_buffer slice;
    if (sent < total) {
      const auto size = std::min<size_t>(kSlice, static_cast<size_t>(total - sent));
      if (response.file) {
        const ssize_t got = ::pread(response.file->file->get(), block.data(), std::min(size, block.size()),
                                    response.file->offset + sent);
        if (got <= 0) co_return false;  // the file has shrunk: what was promised cannot be sent
        slice = asio::const_buffer(block.data(), static_cast<size_t>(got));
      } else {
        slice = asio::const_buffer(response.body.data() + sent, size);
      }
    }
    connection.limit(options.write_seconds);
    const bool written = co_await connection.write(first, slice);
    if (!written) co_return false;
    sent += static_cast<int64_t>(slice.size());
    first = {};
  } while (sent < total);
  co_return true;
}

awaitable<void> HttpServerState::write_events(Connection& connection, const HttpResponse& response,
                                              const std::string& id) {
  std::string text = head_of(response, std::nullopt, false, id);
  const asio::const_buffer none;
  asio::steady_timer timer(connection.executor());
  for (int quiet = 0; !stopping;) {
    if (!text.empty()) {
      connection.limit(options.write_seconds);
      const bool written = co_await connection.write(text, none);
      if (!written) co_return;
      quiet = 0;
    }
    std::optional<std::string> more = response.events();
    if (!more) break;
    text = *std::move(more);
    if (text.empty()) {
      if (connection.gone()) co_return;
      // A comment, which clients leave out: what stands between may close a connection that says nothing.
      if (++quiet == kQuietLooks) text = ":\n\n";
      timer.expires_after(kEventsPause);
      (void)co_await timer.async_wait(kAwait);
    }
  }
  co_await connection.linger(kLingerSeconds, kLingerBytes);
}

awaitable<void> HttpServerState::refuse_and_close(Connection& connection, const HttpRequest& request,
                                                  int status, const std::string& message) {
  HttpResponse response = handlers.refuse(request, status, message);
  if (status == 429 || status == 503) response.headers.emplace_back("Retry-After", "1");
  co_await answer_and_close(connection, request, response);
}

awaitable<void> HttpServerState::answer_and_close(Connection& connection, const HttpRequest& request,
                                                  const HttpResponse& response) {
  const auto started = Clock::now();
  connection.set_idle(false);
  const bool head_only = request.method == "HEAD";
  const bool written = co_await write(connection, response, false, head_only, request.id);
  HttpExchange exchange;
  exchange.status = response.status;
  exchange.refused = true;
  exchange.bytes = static_cast<int64_t>(response.body.size());
  exchange.seconds = seconds_since(started);
  observe(request, exchange);
  if (written) co_await connection.linger(kLingerSeconds, kLingerBytes);
}

}  // namespace saccade::serve
