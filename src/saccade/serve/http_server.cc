#include "saccade/serve/http_server.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <ctime>
#include <exception>
#include <mutex>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/chrono.h>

#include "saccade/core/seconds_since.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/string_body.hpp>

namespace saccade::serve {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::awaitable;
using asio::ip::tcp;
using Clock = std::chrono::steady_clock;
using Parser = http::request_parser<http::string_body>;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr int kReadingThreads = 2;  // they wait for sockets and parse headers
constexpr size_t kSlice = size_t{64} << 10;
// In what follows nothing but names and numbers stands beside a co_await: g++ 12 destroys temporaries there
// twice. How long, and for how much, a connection is read after a refusal: closed at once, it would be reset,
// and the client might never see the answer.
constexpr double kLingerSeconds = 2;
constexpr int64_t kLingerBytes = int64_t{4} << 20;

Clock::duration duration(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

struct Connection {
  explicit Connection(tcp::socket socket) : stream(std::move(socket)) {}
  beast::tcp_stream stream;
  bool idle = true;  // no request has begun; on the stream's strand alone
};

// A share of a budget, given back when it goes.
class Held {
 public:
  Held() = default;
  Held(Held&& other) noexcept : total_(std::exchange(other.total_, nullptr)), amount_(other.amount_) {}
  Held& operator=(Held&& other) noexcept {
    release();
    total_ = std::exchange(other.total_, nullptr);
    amount_ = other.amount_;
    return *this;
  }
  ~Held() { release(); }
  static bool take(std::atomic<int64_t>& total, int64_t amount, int64_t limit, Held& held) {
    if (total.fetch_add(amount) + amount > limit) {
      total -= amount;
      return false;
    }
    held.release();
    held.total_ = &total;
    held.amount_ = amount;
    return true;
  }

 private:
  void release() {
    if (total_ != nullptr) *total_ -= amount_;
    total_ = nullptr;
  }
  std::atomic<int64_t>* total_ = nullptr;
  int64_t amount_ = 0;
};

bool closed_by_peer(int socket) {
  char byte = 0;
  const ssize_t got = ::recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

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

std::string head_of(const HttpResponse& response, int64_t bytes, bool keep_alive, const std::string& id) {
  const auto status = static_cast<unsigned>(response.status);
  const auto reason = http::obsolete_reason(http::int_to_status(status));
  std::string head =
      fmt::format("HTTP/1.1 {} {}\r\nDate: {:%a, %d %b %Y %H:%M:%S} GMT\r\n", status,
                  std::string_view(reason.data(), reason.size()), fmt::gmtime(std::time(nullptr)));
  if (status != 204 && status != 304) {
    head +=
        fmt::format("Content-Type: {}\r\nContent-Length: {}\r\n", header_value(response.content_type), bytes);
  }
  for (const auto& [name, value] : response.headers) {
    head += fmt::format("{}: {}\r\n", name, header_value(value));
  }
  head += fmt::format("X-Request-Id: {}\r\nConnection: {}\r\n\r\n", id, keep_alive ? "keep-alive" : "close");
  return head;
}

// What a request that cannot be read is answered with; 0: nothing, the client has gone,
// or was too slow and is closed.
int status_of(const boost::system::error_code& error) {
  if (error == http::error::header_limit || error == http::error::buffer_overflow) return 431;
  if (error == http::error::body_limit) return 413;
  if (error == http::error::bad_transfer_encoding) return 501;
  if (error == http::error::end_of_stream || error == http::error::partial_message) return 0;
  return error.category() == make_error_code(http::error::bad_method).category() ? 400 : 0;
}

}  // namespace

struct HttpServer::State {
  State(HttpServerOptions given, Handler handle, Refuse refusing, Observe observing)
      : options(std::move(given)),
        handler(std::move(handle)),
        refuse(std::move(refusing)),
        observe(std::move(observing)),
        workers(static_cast<size_t>(std::max(options.workers, 1))) {}

  awaitable<void> accept();
  awaitable<void> serve(std::shared_ptr<Connection> connection);
  awaitable<bool> serve_one(Connection& connection, beast::flat_buffer& buffer);
  awaitable<bool> read_body(Connection& connection, beast::flat_buffer& buffer, Parser& parser,
                            const HttpRequest& request);
  awaitable<void> handle(const HttpRequest& request, HttpResponse& response, Clock::time_point arrived,
                         double& queued);
  awaitable<bool> write(Connection& connection, const HttpResponse& response, bool keep_alive, bool head_only,
                        const std::string& id);
  awaitable<void> refuse_and_close(Connection& connection, const HttpRequest& request, int status,
                                   const std::string& message);
  HttpResponse work(const HttpRequest& request, Clock::time_point arrived);
  void stop();

  const HttpServerOptions options;
  const Handler handler;
  const Refuse refuse;
  const Observe observe;
  asio::io_context io{kReadingThreads};
  asio::executor_work_guard<asio::io_context::executor_type> guard{io.get_executor()};
  tcp::acceptor acceptor{io};
  asio::thread_pool workers;
  std::vector<std::thread> threads;
  std::atomic<int64_t> requests = 0;
  std::atomic<int64_t> bytes = 0;
  std::atomic<uint64_t> ids = 0;
  std::atomic<bool> stopping = false;
  uint16_t port = 0;

  std::mutex mutex;
  std::condition_variable left;
  std::unordered_set<Connection*> open;  // each taken out on its own strand, before it goes
  bool stopped = false;
};

awaitable<void> HttpServer::State::accept() {
  for (;;) {
    tcp::socket socket(asio::make_strand(io));
    const auto [error] = co_await acceptor.async_accept(socket, kAwait);
    if (!acceptor.is_open()) co_return;
    if (error) {  // no more descriptors, say: others will be closed
      asio::steady_timer timer(io, std::chrono::milliseconds(100));
      (void)co_await timer.async_wait(kAwait);
      continue;
    }
    boost::system::error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    auto connection = std::make_shared<Connection>(std::move(socket));
    bool room = false;
    {
      const std::lock_guard lock(mutex);
      room = static_cast<int>(open.size()) < options.connections;
      if (room) open.insert(connection.get());
    }
    if (room) {
      asio::co_spawn(connection->stream.get_executor(), serve(connection), asio::detached);
      continue;
    }
    tcp::socket& full = connection->stream.socket();
    full.non_blocking(true, ignored);
    constexpr std::string_view kFull =
        "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    full.write_some(asio::buffer(kFull), ignored);
    full.shutdown(tcp::socket::shutdown_send, ignored);
  }
}

awaitable<void> HttpServer::State::serve(std::shared_ptr<Connection> connection) {
  try {
    beast::flat_buffer buffer(static_cast<size_t>(options.header_bytes) + 2 * kSlice);
    while (co_await serve_one(*connection, buffer)) {
    }
  } catch (const std::exception&) {  // no memory: this client's connection alone goes
  }
  boost::system::error_code ignored;
  connection->stream.socket().shutdown(tcp::socket::shutdown_both, ignored);
  connection->stream.close();
  const std::lock_guard lock(mutex);
  open.erase(connection.get());
  left.notify_all();
}

// Whether another request may follow.
awaitable<bool> HttpServer::State::serve_one(Connection& connection, beast::flat_buffer& buffer) {
  beast::tcp_stream& stream = connection.stream;
  if (stopping) co_return false;
  if (buffer.size() == 0) {
    connection.idle = true;
    stream.expires_after(duration(options.idle_seconds));
    const auto [error, got] = co_await stream.async_read_some(buffer.prepare(4096), kAwait);
    connection.idle = false;
    if (error) co_return false;
    buffer.commit(got);
  }
  HttpRequest request;
  request.id = fmt::format("{:08x}", ++ids);
  boost::system::error_code ignored;
  const auto peer = stream.socket().remote_endpoint(ignored);
  if (!ignored) request.peer = peer.address().to_string();
  Parser parser;
  parser.header_limit(static_cast<uint32_t>(options.header_bytes));
  parser.body_limit(static_cast<uint64_t>(options.body_bytes));
  stream.expires_after(duration(options.header_seconds));
  const auto [header_error, header_read] = co_await http::async_read_header(stream, buffer, parser, kAwait);
  if (header_error) {
    const int status = status_of(header_error);
    std::string message = "no HTTP request: " + header_error.message();
    if (status == 431) message = fmt::format("a header of more than {} bytes", options.header_bytes);
    if (status != 0) co_await refuse_and_close(connection, request, status, message);
    co_return false;
  }
  const auto arrived = Clock::now();
  const auto& head = parser.get();
  request.method = std::string(head.method_string());
  for (const auto& field : head) {
    std::string name(field.name_string());
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    request.headers.emplace_back(std::move(name), std::string(field.value()));
  }
  if (const auto id = request.header("x-request-id"); id && usable_id(*id)) request.id = std::string(*id);
  const std::string target(head.target());
  const size_t question = std::min(target.find('?'), target.size());
  const auto path = decode_path(std::string_view(target).substr(0, question));
  if (!path || !path->starts_with('/')) {
    const std::string message = "the request's target is no path";
    co_await refuse_and_close(connection, request, 400, message);
    co_return false;
  }
  request.path = *path;
  request.query = parse_query(std::string_view(target).substr(std::min(question + 1, target.size())));

  // Room for it, before its body is read.
  const auto length = parser.content_length();
  if (length && *length > static_cast<uint64_t>(options.body_bytes)) {
    const std::string message =
        fmt::format("a body of {} bytes, at most {} are taken", *length, options.body_bytes);
    co_await refuse_and_close(connection, request, 413, message);
    co_return false;
  }
  const int64_t body_bytes = length             ? static_cast<int64_t>(*length)
                             : parser.chunked() ? options.body_bytes
                                                : 0;
  Held request_held;
  Held bytes_held;
  if (!Held::take(requests, 1, options.requests, request_held) ||
      !Held::take(bytes, body_bytes, options.bytes, bytes_held)) {
    const std::string message = "too much is asked at once: try again in a second";
    co_await refuse_and_close(connection, request, 429, message);
    co_return false;
  }
  if (!co_await read_body(connection, buffer, parser, request)) co_return false;
  const bool keep_alive = parser.get().keep_alive();
  request.body = std::move(parser.get().body());

  stream.expires_never();
  const int socket = stream.socket().native_handle();
  request.gone = [socket] { return closed_by_peer(socket); };
  HttpResponse response;
  double queued = 0;
  co_await handle(request, response, arrived, queued);
  const bool again = keep_alive && !stopping;
  const bool head_only = request.method == "HEAD";
  const bool written = co_await write(connection, response, again, head_only, request.id);
  if (observe) {
    const int64_t sent = response.file ? response.file->bytes : static_cast<int64_t>(response.body.size());
    observe({request.method, request.path, request.id, request.peer, response.status, sent,
             seconds_since(arrived), queued});
  }
  co_return written&& again;
}

awaitable<bool> HttpServer::State::read_body(Connection& connection, beast::flat_buffer& buffer,
                                             Parser& parser, const HttpRequest& request) {
  beast::tcp_stream& stream = connection.stream;
  stream.expires_after(duration(options.body_seconds));
  if (const auto expected = request.header("expect"); expected && *expected == "100-continue") {
    constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    const auto [error, sent] = co_await asio::async_write(stream, asio::buffer(kContinue), kAwait);
    if (error) co_return false;
  }
  const auto [error, got] = co_await http::async_read(stream, buffer, parser, kAwait);
  if (!error) co_return true;
  const int status = status_of(error);
  std::string message = "no HTTP body: " + error.message();
  if (status == 413) message = fmt::format("a body of more than {} bytes", options.body_bytes);
  if (status != 0) co_await refuse_and_close(connection, request, status, message);
  co_return false;
}

HttpResponse HttpServer::State::work(const HttpRequest& request, Clock::time_point arrived) {
  if (seconds_since(arrived) > options.queue_seconds || stopping) {
    HttpResponse response =
        refuse(request, 503, stopping ? "the server is stopping" : "waited too long for its turn");
    response.headers.emplace_back("Retry-After", "1");
    return response;
  }
  if (request.gone()) {
    HttpResponse nobody_reads_this;
    nobody_reads_this.status = 499;
    return nobody_reads_this;
  }
  return handler(request);
}

// On a worker; the connection's coroutine waits meanwhile, holding no thread.
awaitable<void> HttpServer::State::handle(const HttpRequest& request, HttpResponse& response,
                                          Clock::time_point arrived, double& queued) {
  const auto started = Clock::now();
  const auto run = [&] {
    queued = seconds_since(started);
    try {
      response = work(request, arrived);
    } catch (const std::bad_alloc&) {
      response = refuse(request, 503, "no memory for this now");
    } catch (const std::exception& error) {
      response = refuse(request, 500, error.what());
    }
  };
  co_await asio::async_initiate<const asio::use_awaitable_t<>, void()>(
      [this, &run](auto done) {
        asio::post(workers, [&run, done = std::move(done)]() mutable {
          run();
          asio::post(std::move(done));
        });
      },
      asio::use_awaitable);
}

awaitable<bool> HttpServer::State::write(Connection& connection, const HttpResponse& response,
                                         bool keep_alive, bool head_only, const std::string& id) {
  beast::tcp_stream& stream = connection.stream;
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
    const std::array<asio::const_buffer, 2> parts = {asio::buffer(first), slice};
    stream.expires_after(duration(options.write_seconds));
    const auto [error, written] = co_await asio::async_write(stream, parts, kAwait);
    if (error) co_return false;
    sent += static_cast<int64_t>(slice.size());
    first = {};
  } while (sent < total);
  co_return true;
}

awaitable<void> HttpServer::State::refuse_and_close(Connection& connection, const HttpRequest& request,
                                                    int status, const std::string& message) {
  beast::tcp_stream& stream = connection.stream;
  HttpResponse response = refuse(request, status, message);
  if (status == 429 || status == 503) response.headers.emplace_back("Retry-After", "1");
  const auto started = Clock::now();
  const bool head_only = request.method == "HEAD";
  const bool written = co_await write(connection, response, false, head_only, request.id);
  if (!written) co_return;
  if (observe) {
    observe({request.method, request.path, request.id, request.peer, response.status,
             static_cast<int64_t>(response.body.size()), seconds_since(started), 0});
  }
  boost::system::error_code ignored;
  stream.socket().shutdown(tcp::socket::shutdown_send, ignored);
  stream.expires_after(duration(kLingerSeconds));
  std::vector<char> rest(kSlice);
  for (int64_t left_over = kLingerBytes; left_over > 0;) {
    const auto [error, got] = co_await stream.async_read_some(asio::buffer(rest), kAwait);
    if (error) break;
    left_over -= static_cast<int64_t>(got);
  }
}

void HttpServer::State::stop() {
  {
    const std::lock_guard lock(mutex);
    if (stopped) return;
    stopped = true;
  }
  stopping = true;
  asio::post(acceptor.get_executor(), [this] {
    boost::system::error_code ignored;
    acceptor.close(ignored);
  });
  const auto close_all = [this](bool idle_only) {
    const std::lock_guard lock(mutex);
    for (Connection* connection : open) {
      asio::post(connection->stream.get_executor(), [this, connection, idle_only] {
        {
          const std::lock_guard again(mutex);
          if (!open.contains(connection)) return;
        }
        if (!idle_only || connection->idle) connection->stream.cancel();
      });
    }
  };
  close_all(true);
  {
    std::unique_lock lock(mutex);
    left.wait_for(lock, duration(options.drain_seconds), [this] { return open.empty(); });
  }
  close_all(false);
  {
    std::unique_lock lock(mutex);
    left.wait_for(lock, duration(options.drain_seconds), [this] { return open.empty(); });
  }
  workers.join();
  guard.reset();
  io.stop();
  for (std::thread& thread : threads) thread.join();
}

HttpServer::HttpServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

HttpServer::~HttpServer() {
  stop();
}

Result<std::unique_ptr<HttpServer>> HttpServer::start(HttpServerOptions options, Handler handler,
                                                      Refuse refuse, Observe observe) {
  boost::system::error_code error;
  const auto address = asio::ip::make_address(options.address, error);
  if (error) {
    return fail(ErrorCode::kUsage,
                "\"{}\" is no address of an interface: 127.0.0.1, ::1, 0.0.0.0 and the like are",
                options.address);
  }
  try {
    auto state = std::make_unique<State>(std::move(options), std::move(handler), std::move(refuse),
                                         std::move(observe));
    const tcp::endpoint endpoint(address, state->options.port);
    const auto listen = [&] {
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
    asio::co_spawn(state->io, state->accept(), asio::detached);
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

void HttpServer::stop() {
  state_->stop();
}

}  // namespace saccade::serve
