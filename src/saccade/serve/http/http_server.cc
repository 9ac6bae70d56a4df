#include "saccade/serve/http/http_server.h"

#include <algorithm>
#include <exception>
#include <malloc.h>

#include "saccade/core/files/file_stamp.h"
#include "saccade/core/process/memory_reserve.h"
#include "saccade/core/seconds_since.h"
#include "saccade/serve/http_server_state.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>

namespace saccade::serve {
namespace {

// Interval between checks for idleness. The server is idle if a whole interval brought no request for workers: probes of
// its health go on for ever.
constexpr auto kIdlePause = std::chrono::seconds(1);
// Memory for refusing what there is no other memory for, and for ending what has begun.
constexpr size_t kMemoryReserve = size_t{32} << 20;
constexpr std::string_view kFull =
    "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

// Returns a string that changes if a certificate or its key is replaced.
std::string state_of(const HttpServerOptions& options) {
  std::string state;
  for (const std::string& name : {options.certificate, options.certificate_key}) {
    const auto stamp = file_stamp(name);
    state += (stamp ? stamp->text() : "") + ";";
  }
  return state;
}

}  // namespace

awaitable<void> HttpServerState::accept() {
  asio::steady_timer timer(acceptor.get_executor());
  for (;;) {
    bool failed = false;
    bool full = false;
    try {
      tcp::socket socket(asio::make_strand(io));
      const auto [error] = co_await acceptor.async_accept(socket, kAwait);
      if (!acceptor.is_open()) co_return;
      failed = static_cast<bool>(error);
      full =
          error == asio::error::no_descriptors || error == boost::system::errc::too_many_files_open_in_system;
      if (!failed) receive(std::move(socket));
    } catch (const std::exception&) {
      failed = true;
    }
    if (full) {
      std::shared_ptr<Connection> idle;
      {
        const std::lock_guard lock(mutex);
        idle = choose_idle();
      }
      if (idle != nullptr) close_idle(idle);
    }
    if (failed) {  // no more descriptors, or no memory: others will be closed
      timer.expires_after(std::chrono::milliseconds(100));
      (void)co_await timer.async_wait(kAwait);
    }
  }
}

// Memory freed after requests stays in the allocator's arenas, one for a few workers, between blocks still in
// use. It still counts as the process's, and grows with each load. An idle server returns it to the system,
// once.
awaitable<void> HttpServerState::give_memory_back() {
  asio::steady_timer timer(io.get_executor());
  uint64_t seen = 0;
  uint64_t given_back = 0;
  for (;;) {
    timer.expires_after(kIdlePause);
    (void)co_await timer.async_wait(kAwait);
    const uint64_t now = for_workers;
    const bool idle = now == seen && requests == 0;
    seen = now;
    if (!idle || now == given_back) continue;
    try {
      // Runs on a worker, so that I/O threads do not wait for it.
      asio::post(workers, [] { (void)::malloc_trim(0); });
      given_back = now;
    } catch (const std::bad_alloc&) {  // in a second there may be memory
    }
  }
}

void HttpServerState::renew_tls() {
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

void HttpServerState::receive(tcp::socket socket) {
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  renew_tls();
  const auto connection = std::make_shared<Connection>(std::move(socket), tls);
  bool room = false;
  std::shared_ptr<Connection> idle;
  {
    const std::lock_guard lock(mutex);
    room = static_cast<int>(open.size()) < options.connections;
    if (!room) idle = choose_idle();
    room = room || idle != nullptr;
    if (room) open.insert(connection);
  }
  if (idle != nullptr) close_idle(idle);
  if (!room) {
    if (turned_away < options.refusals) {
      asio::co_spawn(connection->executor(), turn_away(connection), asio::detached);
    } else {
      connection->refuse(kFull);
    }
    return;
  }
  try {
    asio::co_spawn(connection->executor(), serve(connection), asio::detached);
  } catch (const std::exception&) {
    const std::lock_guard lock(mutex);
    open.erase(connection);
  }
}

std::shared_ptr<Connection> HttpServerState::choose_idle() {
  const auto now = Clock::now().time_since_epoch();
  const Clock::duration least =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.evict_seconds));
  std::shared_ptr<Connection> longest;
  int64_t since = (now - least).count();
  for (const std::shared_ptr<Connection>& connection : open) {
    const int64_t idle_since = connection->idle_since();
    if (idle_since == 0 || idle_since > since) continue;
    longest = connection;
    since = idle_since;
  }
  return longest != nullptr && longest->choose(since) ? longest : nullptr;
}

void HttpServerState::close_idle(const std::shared_ptr<Connection>& connection) {
  asio::post(connection->executor(), [connection] {
    if (connection->idle()) connection->cancel();
  });
}

awaitable<void> HttpServerState::turn_away(std::shared_ptr<Connection> connection) {
  Held place;
  if (!place.take(turned_away, 1, options.refusals)) co_return;
  try {
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

awaitable<void> HttpServerState::serve(std::shared_ptr<Connection> connection) {
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

void HttpServerState::stop() {
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
        if (!idle_only || connection->idle()) connection->cancel();
      });
    }
  };
  for (const bool idle_only : {true, false}) {
    cancelling = !idle_only;
    close_all(idle_only);
    std::unique_lock lock(mutex);
    left.wait_for(lock,
                  std::chrono::duration<double>(idle_only ? options.drain_seconds : options.cancel_seconds),
                  [this] { return open.empty(); });
  }
  workers.join();
  at_once_workers.join();
  guard.reset();
  io.stop();
  for (std::thread& thread : threads) thread.join();
  open.clear();  // no connection outlives `io`
}

HttpServer::HttpServer(std::unique_ptr<HttpServerState> state) : state_(std::move(state)) {}

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
  keep_memory_reserve(kMemoryReserve);
  try {
    auto state = std::make_unique<HttpServerState>(std::move(options), std::move(handlers), std::move(tls),
                                                   std::move(files));
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
      state->threads.emplace_back([raw = state.get()] {
        for (;;) {
          try {
            raw->io.run();
            return;
          } catch (const std::bad_alloc&) {  // of one handler: the others go on
          }
        }
      });
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