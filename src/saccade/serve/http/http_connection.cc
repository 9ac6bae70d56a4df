#include "saccade/serve/http/http_connection.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <utility>
#include <vector>

#include <boost/asio/write.hpp>
#include <boost/beast/core/error.hpp>

namespace saccade::serve {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::awaitable;
using boost::system::error_code;

Result<std::shared_ptr<asio::ssl::context>> tls_context(const std::string& certificate,
                                                        const std::string& key) {
  struct stat status = {};
  if (::stat(certificate.c_str(), &status) != 0) return fail_errno(errno, certificate);
  if (::stat(key.c_str(), &status) != 0) return fail_errno(errno, key);
  if ((status.st_mode & S_IRWXO) != 0) {
    return fail(ErrorCode::kUsage, "{}: everybody on this machine may read it (mode {:o}): chmod 600 it", key,
                status.st_mode & 0777U);
  }
  try {
    auto context = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_server);
    using Options = asio::ssl::context;
    context->set_options(Options::default_workarounds | Options::no_sslv2 | Options::no_sslv3 |
                         Options::no_tlsv1 | Options::no_tlsv1_1 | Options::no_compression);
    // Nobody is there to be asked for a password.
    context->set_password_callback([](std::size_t, asio::ssl::context::password_purpose) { return ""; });
    error_code error;
    if (context->use_certificate_chain_file(certificate, error)) {
      return fail(ErrorCode::kBadData, "{}: no certificate in PEM: {}", certificate, error.message());
    }
    if (context->use_private_key_file(key, asio::ssl::context::pem, error)) {
      return fail(ErrorCode::kBadData,
                  "{}: no private key in PEM, without a password, of the certificate {}: {}", key,
                  certificate, error.message());
    }
    return context;
  } catch (const std::exception& problem) {
    return fail(ErrorCode::kInternal, "TLS: {}", problem.what());
  }
}

Connection::Connection(asio::ip::tcp::socket socket, std::shared_ptr<asio::ssl::context> tls)
    : context_(std::move(tls)),
      stream_(std::move(socket)),
      reading_ends_(stream_.get_executor()),
      socket_(stream_.socket().native_handle()) {
  if (context_) tls_.emplace(stream_, *context_);
  set_idle(true);
}

std::string Connection::peer() {
  error_code gone;
  const auto endpoint = stream_.socket().remote_endpoint(gone);
  return gone ? "" : endpoint.address().to_string();
}

namespace {

std::chrono::steady_clock::duration duration_of(double seconds) {
  using Duration = std::chrono::steady_clock::duration;
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

void Connection::limit(double seconds) {
  no_limit();
  stream_.expires_after(duration_of(seconds));
}

// The stream's own limit closes it: nothing could be said any more.
void Connection::limit_reading(double seconds) {
  no_limit();
  reading_limited_ = true;
  reading_ends_.expires_after(duration_of(seconds));
  reading_ends_.async_wait([weak = weak_from_this()](error_code stopped) {
    const auto connection = weak.lock();
    if (stopped || !connection || !connection->reading_limited_) return;
    // The limit was moved after this handler had been queued.
    if (connection->reading_ends_.expiry() > std::chrono::steady_clock::now()) return;
    connection->late_ = true;
    connection->stream_.cancel();
  });
}

void Connection::no_limit() {
  stream_.expires_never();
  if (reading_limited_) reading_ends_.cancel();
  reading_limited_ = false;
  late_ = false;
}

awaitable<bool> Connection::greet() {
  if (!tls_) co_return true;
  const auto [error] = co_await tls_->async_handshake(asio::ssl::stream_base::server, kAwait);
  greeted_ = !error;
  co_return greeted_;
}

awaitable<size_t> Connection::read_some(asio::mutable_buffer into, error_code& error) {
  size_t bytes = 0;
  if (late_) {
    error = beast::error::timeout;
  } else if (tls_) {
    const auto [failed, got] = co_await tls_->async_read_some(into, kAwait);
    error = failed;
    bytes = got;
  } else {
    const auto [failed, got] = co_await stream_.async_read_some(into, kAwait);
    error = failed;
    bytes = got;
  }
  if (error && late_) error = beast::error::timeout;
  co_return bytes;
}

awaitable<bool> Connection::write(std::string_view first, asio::const_buffer second) {
  const std::array<asio::const_buffer, 2> parts = {asio::buffer(first), second};
  if (tls_) {
    const auto [failed, written] = co_await asio::async_write(*tls_, parts, kAwait);
    co_return !failed;
  }
  const auto [failed, written] = co_await asio::async_write(stream_, parts, kAwait);
  co_return !failed;
}

awaitable<void> Connection::linger(double seconds, int64_t bytes) {
  limit(seconds);
  if (tls_ && greeted_) {
    const auto [unfinished] = co_await tls_->async_shutdown(kAwait);
    if (unfinished) co_return;
  }
  error_code error;
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, error);
  std::vector<char> rest(size_t{16} << 10);
  const asio::mutable_buffer into = asio::buffer(rest);
  while (bytes > 0) {
    const auto [failed, got] = co_await stream_.async_read_some(into, kAwait);
    if (failed) co_return;
    bytes -= static_cast<int64_t>(got);
  }
}

void Connection::refuse(std::string_view text) {
  if (!tls_) {
    std::array<char, 4096> rest{};
    (void)::send(socket_, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    // Bytes that are left unread would make a reset of the close.
    for (int reads = 0; reads < 16; ++reads) {
      if (::recv(socket_, rest.data(), rest.size(), MSG_DONTWAIT) <= 0) break;
    }
  }
  close();
}

bool Connection::gone() const {
  pollfd look{.fd = socket_, .events = 0, .revents = 0};
  return ::poll(&look, 1, 0) > 0 && (look.revents & (POLLHUP | POLLERR)) != 0;
}

bool Connection::half_closed() const {
  pollfd look{.fd = socket_, .events = POLLRDHUP, .revents = 0};
  return ::poll(&look, 1, 0) > 0 && (look.revents & POLLRDHUP) != 0;
}

void Connection::set_idle(bool idle) {
  if (idle == idle_ && idle_since_ != 0) return;
  idle_ = idle;
  idle_since_ = idle ? std::chrono::steady_clock::now().time_since_epoch().count() : 0;
}

void Connection::close() {
  error_code ignored;
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  stream_.close();
}

}  // namespace saccade::serve
