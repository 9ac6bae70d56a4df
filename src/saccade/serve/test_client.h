// Test client that sends given bytes, as slowly as requested.
#pragma once

#include <algorithm>
#include <arpa/inet.h>
#include <cctype>
#include <cstdint>
#include <netinet/in.h>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include "saccade/serve/http/http.h"

namespace saccade::serve::test {

struct Reply {
  int status = 0;  // 0: the connection was closed without an answer
  std::string head;
  std::string body;

  // The header's value, its name in lower case; "" where there is none.
  [[nodiscard]] std::string header(std::string name) const {
    std::string lower = head;
    std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
    const size_t found = lower.find("\r\n" + name + ": ");
    if (found == std::string::npos) return "";
    const size_t begin = found + name.size() + 4;
    return head.substr(begin, head.find("\r\n", begin) - begin);
  }
};

class Client {
 public:
  explicit Client(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() { close(); }

  [[nodiscard]] bool connected() const { return connected_; }
  void close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }
  // Says that nothing more is sent; what comes is read on.
  void close_sending() const { ::shutdown(socket_, SHUT_WR); }
  bool send(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t sent = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      text.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  // The next answer; `head_only` for what has none, as of HEAD.
  Reply read(bool head_only = false, int milliseconds = 30'000) {
    Reply reply;
    size_t end = 0;
    while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
      if (!fill(milliseconds)) return reply;
    }
    reply.head = buffer_.substr(0, end + 2);
    buffer_.erase(0, end + 4);
    reply.status = std::stoi(reply.head.substr(9, 3));
    const std::string length = reply.header("content-length");
    const size_t size = head_only || length.empty() ? 0 : std::stoul(length);
    while (buffer_.size() < size) {
      if (!fill(milliseconds)) break;
    }
    reply.body = buffer_.substr(0, size);
    buffer_.erase(0, size);
    return reply;
  }
  Reply exchange(std::string_view text, bool head_only = false) {
    send(text);
    return read(head_only);
  }
  // All that comes until the server closes.
  std::string rest(int milliseconds = 30'000) {
    while (fill(milliseconds)) {
    }
    return std::exchange(buffer_, "");
  }
  // Returns true if the server closes within that time, without sending more.
  bool closed(int milliseconds = 30'000) { return !fill(milliseconds) && ended_; }

 private:
  bool fill(int milliseconds) {
    pollfd wait{.fd = socket_, .events = POLLIN, .revents = 0};
    if (::poll(&wait, 1, milliseconds) <= 0) return false;
    char block[16384];
    const ssize_t got = ::recv(socket_, block, sizeof block, 0);
    if (got <= 0) {
      ended_ = true;
      return false;
    }
    buffer_.append(block, static_cast<size_t>(got));
    return true;
  }

  int socket_ = -1;
  bool connected_ = false;
  bool ended_ = false;
  std::string buffer_;
};

inline std::string request(std::string_view method, std::string_view target, std::string_view body = {},
                           std::string_view headers = {}) {
  std::string text = std::string(method) + " " + std::string(target) + " HTTP/1.1\r\nHost: localhost\r\n";
  text += headers;
  if (!body.empty()) text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  return text + "\r\n" + std::string(body);
}

}  // namespace saccade::serve::test
