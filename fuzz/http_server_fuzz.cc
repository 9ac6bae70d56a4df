// Bytes on a connection to our server, from its first byte to its end: headers, bodies with a length or in chunks, requests
// one behind the other.
#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <atomic>
#include <netinet/in.h>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <unistd.h>

#include "saccade/serve/http/http_server.h"

#include "fuzz.h"
#include "mutators.h"

namespace {

using namespace saccade;
using namespace saccade::serve;

class Server {
 public:
  Server() {
    HttpServerOptions options;
    options.port = 0;
    options.workers = 2;
    options.body_bytes = 1 << 16;
    options.idle_seconds = options.header_seconds = options.body_seconds = options.stall_seconds = 1;
    HttpHandlers handlers;
    handlers.handle = [this](const HttpRequest& request) {
      ++handled_;
      FUZZ_CHECK(!request.method.empty() && !request.path.empty() && request.body.size() <= (1 << 16));
      HttpResponse response;
      response.content_type = "text/plain";
      response.body = request.path.find("empty") != std::string_view::npos ? "" : "answered";
      return response;
    };
    handlers.refuse = [](const HttpRequest&, int status, const std::string& message) {
      FUZZ_CHECK(status >= 400 && status < 600 && !message.empty());
      HttpResponse response;
      response.status = status;
      response.content_type = "text/plain";
      response.body = "refused";
      return response;
    };
    server_ = HttpServer::start(options, handlers).value();
  }
  // All that the server sends until it closes.
  std::string exchange(std::string_view bytes) const {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(server_->port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    FUZZ_CHECK(::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    const linger at_once{.l_onoff = 1, .l_linger = 0};  // no port is kept from the next
    ::setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    (void)!::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    ::shutdown(socket, SHUT_WR);
    std::string answer;
    std::array<char, 16384> block{};
    pollfd wait{.fd = socket, .events = POLLIN, .revents = 0};
    for (;;) {
      FUZZ_CHECK(::poll(&wait, 1, 60'000) > 0);  // the server neither answers nor closes
      const ssize_t got = ::recv(socket, block.data(), block.size(), 0);
      if (got <= 0) break;
      answer.append(block.data(), static_cast<size_t>(got));
    }
    ::close(socket);
    return answer;
  }
  int take_handled() { return handled_.exchange(0); }

 private:
  std::atomic<int> handled_ = 0;
  std::unique_ptr<HttpServer> server_;
};

size_t count(std::string_view text, std::string_view part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

constexpr std::array<std::string_view, 34> kLines = {"GET / HTTP/1.1\r\n",
                                                     "POST /a HTTP/1.1\r\n",
                                                     "HEAD /empty HTTP/1.1\r\n",
                                                     "DELETE /a?b=%00 HTTP/1.0\r\n",
                                                     "OPTIONS * HTTP/1.1\r\n",
                                                     "GET http://localhost/a HTTP/1.1\r\n",
                                                     "Host: localhost\r\n",
                                                     "Host:\r\n",
                                                     "Content-Length: 3\r\n",
                                                     "Content-Length: 0\r\n",
                                                     "Content-Length: +3\r\n",
                                                     "Content-Length: 3, 3\r\n",
                                                     "Content-Length: 18446744073709551616\r\n",
                                                     "Transfer-Encoding: chunked\r\n",
                                                     "Transfer-Encoding: identity\r\n",
                                                     "Transfer-Encoding: chunked, gzip\r\n",
                                                     "Transfer-Encoding: xchunked\r\n",
                                                     "Transfer-Encoding : chunked\r\n",
                                                     "Transfer-Encoding:\tchunked\r\n",
                                                     "Connection: close\r\n",
                                                     "Connection: keep-alive\r\n",
                                                     "Connection: upgrade\r\n",
                                                     "Expect: 100-continue\r\n",
                                                     "Upgrade: h2c\r\n",
                                                     " folded\r\n",
                                                     "\r\n",
                                                     "\n",
                                                     "abc",
                                                     "3\r\nabc\r\n",
                                                     "0\r\n\r\n",
                                                     "3;a=b\r\nabc\r\n",
                                                     "ffffffffffffffff\r\n",
                                                     "PRI * HTTP/2.0\r\n",
                                                     "0\r\nTrailer: x\r\n\r\n"};
constexpr std::array<std::string_view, 22> kTokens = {
    ":",  " ",        "\t",       "\r",       "\r\n", ",", ";", "chunked", "0",    "1",    "9999999999",
    "-1", "HTTP/1.0", "HTTP/1.1", "HTTP/9.9", "%2f",  "%", "?", "#",       "\x7f", "\xff", "GET"};

}  // namespace

int fuzz_input(const uint8_t* data, size_t size) {
  static Server server;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::string answer = server.exchange(input);
  const auto handled = static_cast<size_t>(server.take_handled());
  // Nothing is handled that was not asked for: each request has a line that ends in its version.
  FUZZ_CHECK(handled <= count(input, "HTTP/1."));
  FUZZ_CHECK(answer.empty() || answer.starts_with("HTTP/1."));
  // A body's length that is not understood must not make its bytes the next request.
  if (count(input, "HTTP/1.") == 1) FUZZ_CHECK(count(answer, "answered") <= 1);
  return 0;
}

std::string fuzz_mutate(std::string input, SplitMix& random) {
  return mutate_lines(input, kLines, kTokens, random);
}
