// One client's connection, in the clear or under TLS: bytes in and out, each step within a time limit.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "saccade/core/error.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/tcp_stream.hpp>

namespace saccade::serve {

// Completion token of all operations. An expression with co_await may contain only names and numbers besides:
// g++ 12 destroys other temporaries there twice.
inline constexpr auto kAwait = boost::asio::as_tuple(boost::asio::use_awaitable);

// Loads a server's certificate and key. Errors name the file: kNotFound, kUsage for a key that everybody may
// read, kBadData for an invalid certificate, an invalid key, or a key of another certificate.
Result<std::shared_ptr<boost::asio::ssl::context>> tls_context(const std::string& certificate,
                                                               const std::string& key);

// All but gone(), half_closed() and idle_since() on the connection's own strand, one call at a time; in a shared_ptr.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // tls: nullptr: in the clear.
  Connection(boost::asio::ip::tcp::socket socket, std::shared_ptr<boost::asio::ssl::context> tls);

  [[nodiscard]] auto executor() { return stream_.get_executor(); }
  [[nodiscard]] bool secure() const { return tls_.has_value(); }
  // The client's address; "" where it has gone.
  [[nodiscard]] std::string peer();

  // Limits all operations until the next call, in seconds together. A step that has not ended by then ends
  // with an error, and the connection with it.
  void limit(double seconds);
  // Limits reading alone. A read that has not ended by then ends with beast::error::timeout, and the
  // connection can still be written to.
  void limit_reading(double seconds);
  void no_limit();

  // The handshake of TLS; nothing to do in the clear.
  boost::asio::awaitable<bool> greet();
  // The number of bytes read, at least one, or an error.
  boost::asio::awaitable<size_t> read_some(boost::asio::mutable_buffer into,
                                           boost::system::error_code& error);
  // All of both.
  boost::asio::awaitable<bool> write(std::string_view first, boost::asio::const_buffer second);
  // Shuts down sending, and reads what the client still sends, within bounds. If the connection were closed
  // at once, it would be reset, and the client might never see the answer.
  boost::asio::awaitable<void> linger(double seconds, int64_t bytes);

  // Sends what can be sent without waiting, leaves out what has come, and closes. Under TLS it closes alone.
  void refuse(std::string_view text);

  // Tells whether the connection is broken or closed from both sides. While the connection is open.
  [[nodiscard]] bool gone() const;
  // Tells whether the client sends nothing more. It may have closed the connection, or wait for its answer:
  // the two look alike until something is sent to it. While the connection is open.
  [[nodiscard]] bool half_closed() const;
  void cancel() { stream_.cancel(); }
  void close();

  // An idle connection has no request yet that a key admits: it is the first to go when the server stops, or
  // when there is no room for another connection.
  void set_idle(bool idle);
  // Time since it has been idle, of std::chrono::steady_clock; 0 while it is not, or is chosen to go.
  [[nodiscard]] int64_t idle_since() const { return idle_since_; }
  // Chooses it to go if it has been idle since then. Only one caller succeeds.
  [[nodiscard]] bool choose(int64_t since) { return idle_since_.compare_exchange_strong(since, 0); }
  [[nodiscard]] bool idle() const { return idle_; }

 private:
  const std::shared_ptr<boost::asio::ssl::context> context_;
  boost::beast::tcp_stream stream_;
  std::optional<boost::asio::ssl::stream<boost::beast::tcp_stream&>> tls_;
  boost::asio::steady_timer reading_ends_;
  bool reading_limited_ = false;
  bool late_ = false;  // reading has come to its end
  bool greeted_ = false;
  bool idle_ = true;
  std::atomic<int64_t> idle_since_ = 0;
  int socket_ = -1;
};

}  // namespace saccade::serve
