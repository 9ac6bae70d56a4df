// The state of a server and its coroutines, for http_server.cc (connections: accepted, closed, turned away) and
// http_exchange.cc (one request and its answer).
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "saccade/serve/http/http_connection.h"
#include "saccade/serve/http/http_server_options.h"
#include "saccade/serve/http_head.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/beast/core/flat_buffer.hpp>

namespace saccade::serve {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::awaitable;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using Parser = RequestParser;

inline constexpr int kReadingThreads = 2;    // they wait for sockets and parse headers
inline constexpr size_t kAtOnceThreads = 2;  // for what is answered at once
inline constexpr size_t kSlice = size_t{64} << 10;
// Limits, in time and bytes, on reading from a connection after a refusal (Connection::linger).
inline constexpr double kLingerSeconds = 2;
inline constexpr int64_t kLingerBytes = int64_t{4} << 20;

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

struct HttpServerState {
  HttpServerState(HttpServerOptions given, HttpHandlers called, std::shared_ptr<asio::ssl::context> secret,
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
  std::shared_ptr<Connection> choose_idle();  // with `mutex` held; nullptr: none is idle for long enough
  static void close_idle(const std::shared_ptr<Connection>& connection);
  awaitable<void> turn_away(std::shared_ptr<Connection> connection);
  awaitable<void> serve(std::shared_ptr<Connection> connection);
  awaitable<bool> serve_one(Connection& connection, beast::flat_buffer& buffer);
  awaitable<error_code> read_head_of(Connection& connection, beast::flat_buffer& buffer, Parser& parser);
  awaitable<bool> take_body(Connection& connection, beast::flat_buffer& buffer, Parser& parser,
                            const HttpRequest& request, const Admission& admission, Held& held);
  awaitable<bool> read_body(Connection& connection, beast::flat_buffer& buffer, Parser& parser,
                            const HttpRequest& request, int64_t most, Held& held);
  awaitable<void> handle(Connection& connection, HttpRequest& request, bool at_once, bool probes,
                         HttpResponse& response, double& queued);
  awaitable<bool> write(Connection& connection, const HttpResponse& response, bool keep_alive, bool head_only,
                        const std::string& id);
  awaitable<void> write_events(Connection& connection, const HttpResponse& response, const std::string& id);
  awaitable<void> refuse_and_close(Connection& connection, const HttpRequest& request, int status,
                                   const std::string& message);
  awaitable<void> answer_and_close(Connection& connection, const HttpRequest& request,
                                   const HttpResponse& response);
  // Ends a request that was not read to its end. It is refused or, if the client was slow or has gone,
  // counted.
  awaitable<void> give_up(Connection& connection, const HttpRequest& request, const error_code& error,
                          std::string_view what, int64_t most_bytes);
  HttpResponse not_begun(const HttpRequest& request, double waited) const;
  void run(const HttpRequest& request, bool gone, bool memory, double waited,
           HttpResponse& response) noexcept;
  void observe(const HttpRequest& request, HttpExchange exchange) const;
  void stop();

  const HttpServerOptions options;
  const HttpHandlers handlers;
  // TLS context for new connections; `nullptr` serves plain HTTP. This and the following fields are used on
  // the acceptor's strand alone.
  std::shared_ptr<asio::ssl::context> tls;
  std::string tls_files;  // state_of, when they were read
  Clock::time_point tls_looked = Clock::now();
  std::atomic<int64_t> requests = 0;
  std::atomic<int64_t> bytes = 0;
  std::atomic<int64_t> turned_away = 0;
  std::atomic<uint64_t> ids = 0;
  std::atomic<uint64_t> for_workers = 0;  // requests that workers were given; probes of health are none
  std::atomic<bool> stopping = false;
  std::atomic<bool> cancelling = false;  // handlers are asked to stop too
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
  asio::thread_pool at_once_workers{kAtOnceThreads};
  std::vector<std::thread> threads;
};

}  // namespace saccade::serve
