#include "saccade/hub/test_server.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <limits>
#include <netinet/in.h>
#include <optional>
#include <poll.h>
#include <stdexcept>
#include <string_view>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

namespace saccade::test {
namespace {

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::optional<ServerRequest> read_request(int connection) {
  std::string text;
  std::array<char, 65536> block{};
  const auto more = [&] {
    const ssize_t got = ::recv(connection, block.data(), block.size(), 0);
    if (got <= 0 || text.size() > (size_t{256} << 20)) return false;
    text.append(block.data(), static_cast<size_t>(got));
    return true;
  };
  size_t end = 0;
  while ((end = text.find("\r\n\r\n")) == std::string::npos) {
    if (!more()) return {};
  }
  ServerRequest request;
  size_t at = text.find("\r\n");
  const std::string first = text.substr(0, at);
  const size_t space = first.find(' ');
  request.method = first.substr(0, space);
  request.path = first.substr(space + 1, first.rfind(' ') - space - 1);
  while (at < end) {
    const size_t begin = at + 2;
    at = text.find("\r\n", begin);
    const std::string line = text.substr(begin, at - begin);
    const size_t colon = line.find(": ");
    if (colon != std::string::npos) request.headers[lower(line.substr(0, colon))] = line.substr(colon + 2);
  }
  const std::string length = request.header("content-length");
  size_t size = 0;
  std::from_chars(length.data(), length.data() + length.size(), size);
  while (text.size() < end + 4 + size) {
    if (!more()) return {};
  }
  request.body = text.substr(end + 4, size);
  return request;
}

void send_all(int connection, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = ::send(connection, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    text.remove_prefix(static_cast<size_t>(sent));
  }
}

// Returns the value of `key="..."` in a part's head.
std::string quoted(const std::string& head, const std::string& key) {
  const size_t found = head.find(" " + key + "=\"");
  if (found == std::string::npos) return {};
  const size_t begin = found + key.size() + 3;
  return head.substr(begin, head.find('"', begin) - begin);
}

}  // namespace

std::string ServerRequest::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

std::map<std::string, std::string> ServerRequest::form() const {
  std::map<std::string, std::string> fields;
  const std::string type = header("content-type");
  const size_t at = type.find("boundary=");
  if (!type.starts_with("multipart/form-data") || at == std::string::npos) return fields;
  const std::string boundary = "--" + type.substr(at + 9);
  for (size_t begin = body.find(boundary); begin != std::string::npos;) {
    begin += boundary.size() + 2;
    const size_t end = body.find(boundary, begin);
    const size_t head_end = body.find("\r\n\r\n", begin);
    if (end == std::string::npos || head_end > end) break;
    const std::string head = body.substr(begin, head_end - begin);
    const std::string name = quoted(head, "name");
    fields[name] = body.substr(head_end + 4, end - 2 - head_end - 4);
    if (const std::string file = quoted(head, "filename"); !file.empty()) fields[name + " filename"] = file;
    if (const size_t kind = head.find("Content-Type: "); kind != std::string::npos) {
      fields[name + " type"] = head.substr(kind + 14, head.find("\r\n", kind) - kind - 14);
    }
    begin = end;
  }
  return fields;
}

TestServer::TestServer(Handler handler) : handler_(std::move(handler)) {
  descriptor_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(descriptor_, generic, size) != 0 || ::listen(descriptor_, 64) != 0 ||
      ::getsockname(descriptor_, generic, &size) != 0) {
    throw std::runtime_error("no port on loopback for the test's server");
  }
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { serve(); });
}

TestServer::~TestServer() {
  closing_ = true;
  ::shutdown(descriptor_, SHUT_RDWR);
  thread_.join();
  ::close(descriptor_);
  for (std::thread& connection : connections_) connection.join();
}

std::string TestServer::endpoint() const {
  return fmt::format("http://127.0.0.1:{}", port_);
}

std::vector<ServerRequest> TestServer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

void TestServer::serve() {
  while (!closing_) {
    pollfd waiting{.fd = descriptor_, .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, 100) <= 0) continue;
    const int connection = ::accept4(descriptor_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) continue;
    const std::lock_guard lock(mutex_);
    connections_.emplace_back([this, connection] { answer(connection); });
  }
}

bool TestServer::is_gone_within(int connection, int milliseconds) const {
  constexpr int kLook = 10;
  for (int left = milliseconds; left > 0 && !closing_; left -= kLook) {
    pollfd other{.fd = connection, .events = POLLIN, .revents = 0};
    char byte = 0;
    if (::poll(&other, 1, kLook) > 0 && ::recv(connection, &byte, 1, 0) <= 0) return true;
  }
  return false;
}

void TestServer::answer(int connection) {
  if (const auto request = read_request(connection)) {
    const int now = ++now_;
    int most = most_;
    while (now > most && !most_.compare_exchange_weak(most, now)) {
    }
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(*request);
    }
    ServerReply reply;
    {
      const std::lock_guard lock(handling_);
      reply = handler_(*request);
    }
    const bool gone = is_gone_within(connection, reply.wait_ms);
    --now_;
    if (!reply.no_answer && !gone) {
      std::string head = fmt::format("HTTP/1.1 {} Status\r\nConnection: close\r\n", reply.status);
      for (const auto& [name, value] : reply.headers) head += fmt::format("{}: {}\r\n", name, value);
      if (!reply.no_length) head += fmt::format("Content-Length: {}\r\n", reply.body.size());
      send_all(connection, head + "\r\n");
      if (request->method != "HEAD") {
        const auto length = reply.cut_after >= 0 ? static_cast<size_t>(reply.cut_after) : reply.body.size();
        send_all(connection, std::string_view(reply.body).substr(0, length));
        if (reply.hold) static_cast<void>(is_gone_within(connection, std::numeric_limits<int>::max()));
      }
    }
  }
  ::shutdown(connection, SHUT_RDWR);
  ::close(connection);
}

}  // namespace saccade::test
