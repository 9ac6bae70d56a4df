#include "saccade/serve/http/http_server.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <ctime>
#include <exception>
#include <malloc.h>
#include <mutex>
#include <thread>
#include <unistd.h>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/chrono.h>

#include "saccade/core/files/file_stamp.h"
#include "saccade/core/seconds_since.h"
#include "saccade/serve/http/http_connection.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/string_body.hpp>

namespace saccade::serve {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::awaitable;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using Parser = http::request_parser<http::string_body>;

constexpr int kReadingThreads = 2;  // they wait for sockets and parse headers
constexpr size_t kSlice = size_t{64} << 10;
// How long, and for how much, a connection is read after a refusal (Connection::linger).
constexpr double kLingerSeconds = 2;
constexpr int64_t kLingerBytes = int64_t{4} << 20;
// Connections past the limit that are told so at a time; more are closed with no word.
constexpr int64_t kTurnedAway = 256;
// Of a stream of events: how often it is looked for more, and for how many looks nothing may be sent.
constexpr auto kEventsPause = std::chrono::milliseconds(200);
constexpr int kQuietLooks = 50;
// How often a server looks whether it is idle; it is where a whole pause brought no request.
constexpr auto kIdlePause = std::chrono::seconds(1);

// A share of a budget, given back when it goes.
class Held {
 public:
  Held() = default;
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() { release(); }
  // `amount` more of `total`, always of the same one; false, and nothing taken, where
  // that would be more than `limit`.
  [[nodiscard]] bool take(std::atomic<int64_t>& total, int64_t amount, int64_t limit) {
    if (total.fetch_add(amount) + amount > limit) {
      total -= amount;
      return false;
    }
    total_ = &total;
    amount_ += amount;
    return true;
  }
  void release() {
    if (total_ != nullptr) *total_ -= amount_;
    total_ = nullptr;
    amount_ = 0;
  }

 private:
  std::atomic<int64_t>* total_ = nullptr;
  int64_t amount_ = 0;
};

// What a header may hold: a line, so that no value of a client's begins another header.
std::string header_value(std::string_view text) {
  std::string value(text);
  std::erase_if(value,
                [](char c) { return (static_cast<unsigned char>(c) < ' ' && c != '\t') || c == '\x7f'; });
  return value;
}

// A client's request id is taken if it is one that logs and headers can carry.
bool usable_id(std::string_view id) {
  return !id.empty() && id.size() <= 64 && std::ranges::all_of(id, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  });
}

// Nothing is said of the body's length where it is not known: it ends with the connection.
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

// What a request that cannot be read is answered with; 0: it has gone.
int status_of(const error_code& error) {
  if (error == beast::error::timeout) return 408;
  if (error == http::error::header_limit || error == http::error::buffer_overflow) return 431;
  if (error == http::error::body_limit) return 413;
  if (error == http::error::bad_transfer_encoding) return 501;
  if (error == http::error::end_of_stream || error == http::error::partial_message) return 0;
  return error.category() == make_error_code(http::error::bad_method).category() ? 400 : 0;
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return std::tolower(c); });
  return result;
}

// What shows that a certificate or its key was replaced.
std::string state_of(const HttpServerOptions& options) {
  std::string state;
  for (const std::string& name : {options.certificate, options.certificate_key}) {
    const auto stamp = file_stamp(name);
    state += (stamp ? stamp->text() : "") + ";";
  }
  return state;
}

// Method and headers, as handlers see them; path and query where the target is a path.
bool read_head(const Parser& parser, HttpRequest& request) {
  const auto& head = parser.get();
  request.method = std::string(head.method_string());
  for (const auto& field : head) {
    request.headers.emplace_back(lower(field.name_string()), std::string(field.value()));
  }
  if (const auto id = request.header("x-request-id"); id && usable_id(*id)) request.id = std::string(*id);
  const std::string target(head.target());
  const size_t question = std::min(target.find('?'), target.size());
  const auto path = decode_path(std::string_view(target).substr(0, question));
  if (!path || !path->starts_with('/')) return false;
  request.path = *path;
  request.query = parse_query(std::string_view(target).substr(std::min(question + 1, target.size())));
  return true;
}

}  // namespace

struct HttpServer::State {
  State(HttpServerOptions given, HttpHandlers called, std::shared_ptr<asio::ssl::context> secret,
        std::string files)
      : options(std::move(given)),
        handlers(std::move(called)),
        tls(std::move(secret)),
        tls_files(std::move(files)),
        workers(static_cast<size_t>(std::max(options.workers, 1))) {}

  awaitable<void> accept();
  awaitable<void> give_memory_back();
  void renew_tls();
  void receive(tcp::socket socket);
  awaitable<void> turn_away(std::shared_ptr<Connection> connection);
  awaitable<void> serve(std::shared_ptr<Connection> connection);
  awaitable<bool> serve_one(Connection& connection, beast::flat_buffer& buffer);
  awaitable<error_code> read_head_of(Connection& connection, beast::flat_buffer& buffer, Parser& parser);
  awaitable<bool> read_body(Connection& connection, beast::flat_buffer& buffer, Parser& parser,
                            const HttpRequest& request, Held& held);
  awaitable<void> handle(const HttpRequest& request, HttpResponse& response, double& queued);
  awaitable<bool> write(Connection& connection, const HttpResponse& response, bool keep_alive, bool head_only,
                        const std::string& id);
  awaitable<void> write_events(Connection& connection, const HttpResponse& response, const std::string& id);
  awaitable<void> refuse_and_close(Connection& connection, const HttpRequest& request, int status,
                                   const std::string& message);
  awaitable<void> answer_and_close(Connection& connection, const HttpRequest& request,
                                   const HttpResponse& response);
  // Not read to its end: refused, or, where the client was slow or has gone, counted.
  awaitable<void> give_up(Connection& connection, const HttpRequest& request, const error_code& error,
                          std::string_view what);
  HttpResponse work(const HttpRequest& request, Clock::time_point queued);
  void run(const HttpRequest& request, HttpResponse& response, Clock::time_point queued) noexcept;
  void observe(const HttpRequest& request, HttpExchange exchange) const;
  void stop();

  const HttpServerOptions options;
  const HttpHandlers handlers;
  // Of the next connection; nullptr: in the clear. This and what follows is for the acceptor's strand alone.
  std::shared_ptr<asio::ssl::context> tls;
  std::string tls_files;  // state_of, when they were read
  Clock::time_point tls_looked = Clock::now();
  std::atomic<int64_t> requests = 0;
  std::atomic<int64_t> bytes = 0;
  std::atomic<int64_t> turned_away = 0;
  std::atomic<uint64_t> ids = 0;
  std::atomic<bool> stopping = false;
  uint16_t port = 0;

  std::mutex mutex;
  std::condition_variable left;
  std::unordered_set<std::shared_ptr<Connection>> open;
  bool stopped = false;

  // Last, so that coroutines that are ended with it find all of the above.
  asio::io_context io{kReadingThreads};
  asio::executor_work_guard<asio::io_context::executor_type> guard{io.get_executor()};
  tcp::acceptor acceptor{asio::make_strand(io)};
  asio::thread_pool workers;
  std::vector<std::thread> threads;
};

awaitable<void> HttpServer::State::accept() {
  asio::steady_timer timer(acceptor.get_executor());
  for (;;) {
    bool failed = false;
    try {
      tcp::socket socket(asio::make_strand(io));
      const auto [error] = co_await acceptor.async_accept(socket, kAwait);
      if (!acceptor.is_open()) co_return;
      failed = static_cast<bool>(error);
      if (!failed) receive(std::move(socket));
    } catch (const std::exception&) {
      failed = true;
    }
    if (failed) {  // no more descriptors, or no memory: others will be closed
      timer.expires_after(std::chrono::milliseconds(100));
      (void)co_await timer.async_wait(kAwait);
    }
  }
}

// What requests took lies in the allocator's arenas, one for a few workers, between blocks that are still in
// use: free, but the process's, and more with each load. An idle server gives it back to the system, once.
awaitable<void> HttpServer::State::give_memory_back() {
  asio::steady_timer timer(io.get_executor());
  uint64_t seen = 0;
  uint64_t given_back = 0;
  for (;;) {
    timer.expires_after(kIdlePause);
    (void)co_await timer.async_wait(kAwait);
    const uint64_t now = ids;
    const bool idle = now == seen && requests == 0;
    seen = now;
    if (!idle || now == given_back) continue;
    given_back = now;
    // Not here: threads that read and write do not wait for it.
    asio::post(workers, [] { (void)::malloc_trim(0); });
  }
}

void HttpServer::State::renew_tls() {
  constexpr double kLookSeconds = 1;
  if (!tls || seconds_since(tls_looked) < kLookSeconds) return;
  tls_looked = Clock::now();
  std::string files = state_of(options);
  if (files == tls_files) return;
  tls_files = std::move(files);
  auto renewed = tls_context(options.certificate, options.certificate_key);
  if (renewed) {
    tls = *std::move(renewed);
  } else if (handlers.trouble) {
    handlers.trouble("the certificate stays the one before: " + renewed.error().message);
  }
}

void HttpServer::State::receive(tcp::socket socket) {
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  renew_tls();
  const auto connection = std::make_shared<Connection>(std::move(socket), tls);
  bool room = false;
  {
    const std::lock_guard lock(mutex);
    room = static_cast<int>(open.size()) < options.connections;
    if (room) open.insert(connection);
  }
  if (!room) {
    if (turned_away < kTurnedAway)
      asio::co_spawn(connection->executor(), turn_away(connection), asio::detached);
    return;
  }
  try {
    asio::co_spawn(connection->executor(), serve(connection), asio::detached);
  } catch (const std::exception&) {
    const std::lock_guard lock(mutex);
    open.erase(connection);
  }
}

awaitable<void> HttpServer::State::turn_away(std::shared_ptr<Connection> connection) {
  Held place;
  if (!place.take(turned_away, 1, kTurnedAway)) co_return;
  try {
    constexpr std::string_view kFull =
        "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    const asio::const_buffer none;
    connection->limit(kLingerSeconds);
    const bool greeted = co_await connection->greet();
    if (!greeted) co_return;
    const bool written = co_await connection->write(kFull, none);
    if (written) co_await connection->linger(kLingerSeconds, kLingerBytes);
  } catch (const std::exception&) {  // it is closed with no word
  }
  connection->close();
}

awaitable<void> HttpServer::State::serve(std::shared_ptr<Connection> connection) {
  try {
    beast::flat_buffer buffer(static_cast<size_t>(options.header_bytes) + 2 * kSlice);
    connection->limit(options.header_seconds);
    const bool greeted = co_await connection->greet();
    bool again = greeted;
    while (again) again = co_await serve_one(*connection, buffer);
  } catch (const std::exception&) {  // no memory: this client's connection alone goes
  }
  connection->close();
  const std::lock_guard lock(mutex);
  open.erase(connection);
  left.notify_all();
}

void HttpServer::State::observe(const HttpRequest& request, HttpExchange exchange) const {
  if (!handlers.observe) return;
  exchange.method = request.method;
  exchange.path = request.path;
  exchange.id = request.id;
  exchange.peer = request.peer;
  handlers.observe(exchange);
}

awaitable<error_code> HttpServer::State::read_head_of(Connection& connection, beast::flat_buffer& buffer,
                                                      Parser& parser) {
  error_code error;
  while (!parser.is_header_done()) {
    if (buffer.size() > 0) {
      const size_t used = parser.put(buffer.data(), error);
      buffer.consume(used);
      if (!error) continue;
      if (error != http::error::need_more) co_return error;
    }
    const asio::mutable_buffer room = buffer.prepare(4096);
    const size_t got = co_await connection.read_some(room, error);
    if (error) co_return error;
    buffer.commit(got);
  }
  co_return error;
}

// Whether another request may follow.
awaitable<bool> HttpServer::State::serve_one(Connection& connection, beast::flat_buffer& buffer) {
  if (stopping) co_return false;
  connection.idle = true;
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
  connection.idle = false;
  if (broken) {
    co_await give_up(connection, request, broken, "request");
    co_return false;
  }
  const auto arrived = Clock::now();
  if (!read_head(parser, request)) {
    const std::string message = "the request's target is no path";
    co_await refuse_and_close(connection, request, 400, message);
    co_return false;
  }
  const auto length = parser.content_length();
  if (length && *length > static_cast<uint64_t>(options.body_bytes)) {
    const std::string message =
        fmt::format("a body of {} bytes, at most {} are taken", *length, options.body_bytes);
    co_await refuse_and_close(connection, request, 413, message);
    co_return false;
  }
  const std::string busy = "too much is asked at once: try again in a second";
  if (requests >= options.requests || bytes + static_cast<int64_t>(length.value_or(0)) > options.bytes) {
    co_await refuse_and_close(connection, request, 429, busy);
    co_return false;
  }
  Held bytes_held;
  if (!parser.is_done()) {
    if (handlers.admit) {
      const std::optional<HttpResponse> turned_down = handlers.admit(request);
      if (turned_down) {
        co_await answer_and_close(connection, request, *turned_down);
        co_return false;
      }
    }
    const bool whole = co_await read_body(connection, buffer, parser, request, bytes_held);
    if (!whole) co_return false;
  }
  Held request_held;
  if (!request_held.take(requests, 1, options.requests)) {
    co_await refuse_and_close(connection, request, 429, busy);
    co_return false;
  }
  const bool keep_alive = parser.get().keep_alive();
  request.body = std::move(parser.get().body());

  connection.no_limit();
  request.gone = [&connection] { return connection.gone(); };
  HttpResponse response;
  HttpExchange exchange;
  co_await handle(request, response, exchange.queue_seconds);
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

awaitable<void> HttpServer::State::give_up(Connection& connection, const HttpRequest& request,
                                           const error_code& error, std::string_view what) {
  const int status = status_of(error);
  if (status == 0) co_return;
  std::string message = fmt::format("no HTTP {}: {}", what, error.message());
  if (status == 431) message = fmt::format("a header of more than {} bytes", options.header_bytes);
  if (status == 413) message = fmt::format("a body of more than {} bytes", options.body_bytes);
  if (status == 408)
    message = what == "body" ? fmt::format("a body that took more than {} s, or {} s without a byte",
                                           options.body_seconds, options.stall_seconds)
                             : fmt::format("a header that took more than {} s", options.header_seconds);
  co_await refuse_and_close(connection, request, status, message);
}

awaitable<bool> HttpServer::State::read_body(Connection& connection, beast::flat_buffer& buffer,
                                             Parser& parser, const HttpRequest& request, Held& held) {
  const auto started = Clock::now();
  const asio::const_buffer none;
  if (const auto expected = request.header("expect"); expected && lower(*expected) == "100-continue") {
    constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    connection.limit(options.write_seconds);
    const bool sent = co_await connection.write(kContinue, none);
    if (!sent) co_return false;
  }
  parser.body_limit(static_cast<uint64_t>(options.body_bytes));
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
      if (parser.is_done()) co_return true;
      if (!error && buffer.size() > 0) continue;
    }
    connection.limit_reading(std::min(options.stall_seconds, options.body_seconds - seconds_since(started)));
    const asio::mutable_buffer room = buffer.prepare(kSlice);
    const size_t got = co_await connection.read_some(room, error);
    if (error) break;
    buffer.commit(got);
  }
  co_await give_up(connection, request, error, "body");
  co_return false;
}

HttpResponse HttpServer::State::work(const HttpRequest& request, Clock::time_point queued) {
  if (seconds_since(queued) > options.queue_seconds || stopping) {
    HttpResponse response =
        handlers.refuse(request, 503, stopping ? "the server is stopping" : "waited too long for its turn");
    response.headers.emplace_back("Retry-After", "1");
    return response;
  }
  if (request.gone()) {
    HttpResponse nobody_reads_this;
    nobody_reads_this.status = 499;
    return nobody_reads_this;
  }
  return handlers.handle(request);
}

void HttpServer::State::run(const HttpRequest& request, HttpResponse& response,
                            Clock::time_point queued) noexcept {
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
    response = work(request, queued);
  } catch (const std::bad_alloc&) {
    refuse(503, "no memory for this now");
  } catch (const std::exception& error) {
    refuse(500, error.what());
  } catch (...) {
    refuse(500, "the handler failed");
  }
}

// On a worker; the connection's coroutine waits meanwhile, holding no thread.
awaitable<void> HttpServer::State::handle(const HttpRequest& request, HttpResponse& response,
                                          double& queued) {
  const auto started = Clock::now();
  const auto turn = [&] {
    queued = seconds_since(started);
    run(request, response, started);
  };
  co_await asio::async_initiate<const asio::use_awaitable_t<>, void()>(
      [this, &turn](auto done) {
        asio::post(workers, [&turn, done = std::move(done)]() mutable {
          turn();
          asio::post(std::move(done));
        });
      },
      asio::use_awaitable);
}

awaitable<bool> HttpServer::State::write(Connection& connection, const HttpResponse& response,
                                         bool keep_alive, bool head_only, const std::string& id) {
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

awaitable<void> HttpServer::State::write_events(Connection& connection, const HttpResponse& response,
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

awaitable<void> HttpServer::State::refuse_and_close(Connection& connection, const HttpRequest& request,
                                                    int status, const std::string& message) {
  HttpResponse response = handlers.refuse(request, status, message);
  if (status == 429 || status == 503) response.headers.emplace_back("Retry-After", "1");
  co_await answer_and_close(connection, request, response);
}

awaitable<void> HttpServer::State::answer_and_close(Connection& connection, const HttpRequest& request,
                                                    const HttpResponse& response) {
  const auto started = Clock::now();
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

void HttpServer::State::stop() {
  {
    const std::lock_guard lock(mutex);
    if (stopped) return;
    stopped = true;
  }
  stopping = true;
  asio::post(acceptor.get_executor(), [this] {
    error_code ignored;
    acceptor.close(ignored);
  });
  const auto close_all = [this](bool idle_only) {
    const std::lock_guard lock(mutex);
    for (const std::shared_ptr<Connection>& connection : open) {
      asio::post(connection->executor(), [connection, idle_only] {
        if (!idle_only || connection->idle) connection->cancel();
      });
    }
  };
  for (const bool idle_only : {true, false}) {
    close_all(idle_only);
    std::unique_lock lock(mutex);
    left.wait_for(lock, std::chrono::duration<double>(options.drain_seconds),
                  [this] { return open.empty(); });
  }
  workers.join();
  guard.reset();
  io.stop();
  for (std::thread& thread : threads) thread.join();
  open.clear();  // no connection outlives `io`
}

HttpServer::HttpServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

HttpServer::~HttpServer() {
  stop();
}

Result<std::unique_ptr<HttpServer>> HttpServer::start(HttpServerOptions options, HttpHandlers handlers) {
  error_code error;
  const auto address = asio::ip::make_address(options.address, error);
  if (error) {
    return fail(ErrorCode::kUsage,
                "\"{}\" is no address of an interface: 127.0.0.1, ::1, 0.0.0.0 and the like are",
                options.address);
  }
  std::shared_ptr<asio::ssl::context> tls;
  std::string files = state_of(options);  // before they are read: what changes meanwhile is read again
  if (!options.certificate.empty()) {
    SACCADE_ASSIGN(tls, tls_context(options.certificate, options.certificate_key));
  }
  try {
    auto state =
        std::make_unique<State>(std::move(options), std::move(handlers), std::move(tls), std::move(files));
    const tcp::endpoint endpoint(address, state->options.port);
    const auto listen = [&] {
      if (state->options.socket >= 0) {
        state->acceptor.assign(endpoint.protocol(), state->options.socket, error);
        return;
      }
      if (state->acceptor.open(endpoint.protocol(), error)) return;
      if (state->acceptor.set_option(tcp::acceptor::reuse_address(true), error)) return;
      if (state->acceptor.bind(endpoint, error)) return;
      state->acceptor.listen(asio::socket_base::max_listen_connections, error);
    };
    listen();
    if (error) {
      return fail(ErrorCode::kIo, "listen on {}:{}: {}", state->options.address, state->options.port,
                  error.message());
    }
    state->port = state->acceptor.local_endpoint().port();
    asio::co_spawn(state->acceptor.get_executor(), state->accept(), asio::detached);
    asio::co_spawn(state->io, state->give_memory_back(), asio::detached);
    for (int i = 0; i < kReadingThreads; ++i) {
      state->threads.emplace_back([raw = state.get()] { raw->io.run(); });
    }
    return std::unique_ptr<HttpServer>(new HttpServer(std::move(state)));
  } catch (const std::exception& problem) {
    return fail(ErrorCode::kIo, "start the server: {}", problem.what());
  }
}

uint16_t HttpServer::port() const {
  return state_->port;
}

int64_t HttpServer::connections() const {
  const std::lock_guard lock(state_->mutex);
  return static_cast<int64_t>(state_->open.size());
}

int64_t HttpServer::requests() const {
  return state_->requests;
}

int64_t HttpServer::body_bytes() const {
  return state_->bytes;
}

void HttpServer::stop() {
  state_->stop();
}

}  // namespace saccade::serve
