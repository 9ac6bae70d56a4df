// Load generator for tests and benchmarks: thousands of concurrent clients over loopback, good, slow, broken
// and huge ones, with the outcome of each of their requests.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

namespace saccade::serve::test {

namespace asio = boost::asio;
using LoadClock = std::chrono::steady_clock;
inline constexpr auto kLoadAwait = asio::as_tuple(asio::use_awaitable);

// One client's connection. In coroutines nothing but names and numbers stands
// beside a co_await (http_connection.h).
class LoadConnection {
 public:
  LoadConnection(asio::io_context& io, uint16_t port) : socket_(io), timer_(io), port_(port) {}

  asio::awaitable<bool> open() {
    const asio::ip::tcp::endpoint server(asio::ip::address_v4::loopback(), port_);
    const auto [error] = co_await socket_.async_connect(server, kLoadAwait);
    boost::system::error_code ignored;
    if (!error) socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
    buffer_.clear();
    co_return !error;
  }
  asio::awaitable<bool> send(std::string_view text) {
    const asio::const_buffer bytes(text.data(), text.size());
    const auto [error, sent] = co_await asio::async_write(socket_, bytes, kLoadAwait);
    co_return !error;
  }
  asio::awaitable<void> pause(double seconds) {
    timer_.expires_after(
        std::chrono::duration_cast<LoadClock::duration>(std::chrono::duration<double>(seconds)));
    (void)co_await timer_.async_wait(kLoadAwait);
  }
  // The status of the next answer, its body read and left out; 0: closed before it, -1: within it, or no HTTP. `slowly`:
  // so long between reads of a few bytes, and only a few of them.
  asio::awaitable<int> answer(double slowly = 0) {
    constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";  // no answer yet
    size_t end = std::string::npos;
    while ((end = buffer_.find("\r\n\r\n")) == std::string::npos || buffer_.starts_with(kContinue)) {
      if (end != std::string::npos) {
        buffer_.erase(0, kContinue.size());
        continue;
      }
      const bool more = co_await fill(4096);
      if (!more) co_return 0;
    }
    if (!buffer_.starts_with("HTTP/1.1 ")) co_return -1;
    const int status = std::atoi(buffer_.substr(9, 3).c_str());
    std::string head = buffer_.substr(0, end);
    std::ranges::transform(head, head.begin(), [](unsigned char c) { return std::tolower(c); });
    buffer_.erase(0, end + 4);
    const size_t length = head.find("content-length: ");
    size_t left = length == std::string::npos ? 0 : std::stoul(head.substr(length + 16));
    if (slowly > 0) {
      for (int i = 0; i < 5 && left > buffer_.size(); ++i) {
        co_await pause(slowly);
        const bool more = co_await fill(16);
        if (!more) co_return -1;
      }
      co_return status;
    }
    while (left > buffer_.size()) {
      left -= buffer_.size();
      buffer_.clear();
      const bool more = co_await fill(std::min<size_t>(left, 65536));
      if (!more) co_return -1;
    }
    buffer_.erase(0, left);
    co_return status;
  }
  // Returns true if the server closes the connection now, within kSoon, and has sent nothing more.
  asio::awaitable<bool> ended() {
    if (!buffer_.empty()) co_return false;
    const auto start = LoadClock::now();
    const bool more = co_await fill(4096);
    co_return !more && LoadClock::now() - start < kSoon;
  }
  void half_close() {
    boost::system::error_code ignored;
    socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  }
  void close() {
    boost::system::error_code ignored;
    socket_.close(ignored);
  }

 private:
  asio::awaitable<bool> fill(size_t most) {
    const size_t size = buffer_.size();
    buffer_.resize(size + most);
    const asio::mutable_buffer room(buffer_.data() + size, most);
    const auto [error, got] = co_await socket_.async_read_some(room, kLoadAwait);
    buffer_.resize(size + got);
    co_return !error && got > 0;
  }

  static constexpr auto kSoon = std::chrono::seconds(10);

  asio::ip::tcp::socket socket_;
  asio::steady_timer timer_;
  uint16_t port_ = 0;
  std::string buffer_;
};

inline std::string load_request(std::string_view method, std::string_view target, std::string_view body = {},
                                std::string_view headers = {}) {
  std::string text = std::string(method) + " " + std::string(target) + " HTTP/1.1\r\nHost: localhost\r\n";
  text += headers;
  if (!body.empty()) text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  return text + "\r\n" + std::string(body);
}

// Behaviour of one kind of client.
struct LoadKind {
  std::string name;
  int share = 1;  // of all requests
  std::string request;
  std::vector<int> right;  // statuses that are an answer to it; 0: closed with no word
  size_t cut = 0;          // sent up to here, then a pause, then the rest in pieces; 0: all at once
  double pause = 0;        // between the pieces, in seconds
  size_t pieces = 1;
  bool half_closes = false;  // says that it sends no more, and waits for the answer
  bool leaves = false;       // goes before the answer
  double stays = 0;          // seconds before it does
  double reads_slowly = 0;   // seconds between its reads
  bool last = false;         // the server closes the connection behind its answer, and answers nothing else
};

struct LoadOutcome {
  std::map<std::string, std::map<int, int64_t>> statuses;  // by kind
  std::vector<std::string> wrong;  // the first of those that are no answer to their kind
  int64_t wrong_count = 0;
  int64_t requests = 0;
  int64_t not_opened = 0;       // connections that could not be made; each was tried again
  std::vector<double> seconds;  // of good requests (no pause, not leaving), each

  // At that share of all, 0 to 1.
  [[nodiscard]] double percentile(double share) {
    if (seconds.empty()) return 0;
    std::ranges::sort(seconds);
    return seconds[std::min(seconds.size() - 1,
                            static_cast<size_t>(share * static_cast<double>(seconds.size())))];
  }
};

// Time that a client may wait for an answer after its end; longer than any limit of a server.
inline constexpr auto kLoadPatience = std::chrono::seconds(90);

// Sends one request on a new connection, and measures the time from its first byte to the end of the answer.
inline LoadOutcome ask_once(uint16_t port, const LoadKind& kind) {
  asio::io_context io{1};
  LoadOutcome outcome;
  int status = 0;
  const auto client = [&]() -> asio::awaitable<void> {
    LoadConnection connection(io, port);
    const bool open = co_await connection.open();
    const auto start = LoadClock::now();
    bool sent = false;
    if (open) sent = co_await connection.send(kind.request);
    if (sent) status = co_await connection.answer();
    outcome.seconds.push_back(std::chrono::duration<double>(LoadClock::now() - start).count());
  };
  asio::co_spawn(io, client(), asio::detached);
  io.run_for(kLoadPatience);
  outcome.requests = 1;
  if (status != 200) {
    outcome.wrong_count = 1;
    outcome.wrong.push_back(kind.name + ": " + std::to_string(status));
  }
  return outcome;
}

// Sends one request as clients of its kind do. The answer's status, as LoadConnection::answer says it; -2: not
// closed behind the answer where it had to be.
inline asio::awaitable<int> ask_as(LoadConnection& connection, const LoadKind& kind) {
  const std::string_view text = kind.request;
  const std::string_view head = text.substr(0, kind.cut == 0 ? text.size() : kind.cut);
  std::string_view rest = text.substr(head.size());
  bool sent = co_await connection.send(head);
  const size_t piece = std::max<size_t>(rest.size() / kind.pieces, 1);
  while (sent && !rest.empty()) {
    co_await connection.pause(kind.pause);
    const std::string_view next = rest.substr(0, piece);
    rest.remove_prefix(next.size());
    sent = co_await connection.send(next);
  }
  if (kind.half_closes) connection.half_close();
  if (kind.leaves) {
    if (kind.stays > 0) co_await connection.pause(kind.stays);
    co_return 0;
  }
  const int status = co_await connection.answer(kind.reads_slowly);
  if (!kind.last || status <= 0) co_return status;
  const bool closed = co_await connection.ended();
  co_return closed ? status : -2;
}

struct LoadOptions {
  uint32_t seed = 1;
  double refused_pause = 0.2;  // seconds that a client waits after 429 and 503
  // Those who still wait at the end are left alone: servers take a while to give up on slow clients.
  bool cut_off = false;
};

// `clients` at a time for `seconds`, each a connection that it uses again where the answer allows that. A
// server that is full says 429 or 503: never wrong.
inline LoadOutcome put_under_load(uint16_t port, int clients, double seconds,
                                  const std::vector<LoadKind>& kinds, const LoadOptions& options = {}) {
  asio::io_context io{1};
  LoadOutcome outcome;
  std::mt19937 random(options.seed);
  std::vector<size_t> shares;
  for (size_t i = 0; i < kinds.size(); ++i)
    shares.insert(shares.end(), static_cast<size_t>(kinds[i].share), i);
  const auto until = LoadClock::now() +
                     std::chrono::duration_cast<LoadClock::duration>(std::chrono::duration<double>(seconds));
  int64_t busy = 0;  // clients that wait for the server
  const auto wrong = [&](const std::string& what) {
    ++outcome.wrong_count;
    if (outcome.wrong.size() < 20) outcome.wrong.push_back(what);
  };
  const auto client = [&]() -> asio::awaitable<void> {
    LoadConnection connection(io, port);
    bool open = false;
    while (LoadClock::now() < until) {
      const LoadKind& kind = kinds[shares[random() % shares.size()]];
      const bool plain = kind.pause == 0 && !kind.leaves && kind.reads_slowly == 0;
      ++busy;
      if (!open) {
        open = co_await connection.open();
        if (!open) {
          --busy;
          ++outcome.not_opened;
          co_await connection.pause(0.05);
          continue;
        }
      }
      const auto start = LoadClock::now();
      const int status = co_await ask_as(connection, kind);
      --busy;
      ++outcome.requests;
      ++outcome.statuses[kind.name][status];
      const bool right = kind.leaves || status == 429 || status == 503 ||
                         std::ranges::find(kind.right, status) != kind.right.end();
      if (!right) wrong(kind.name + ": " + std::to_string(status));
      if (plain && right && status == 200)
        outcome.seconds.push_back(std::chrono::duration<double>(LoadClock::now() - start).count());
      // Whatever was refused is closed, sooner or later, and a slow reader has not read all.
      if (status != 200 || kind.half_closes || kind.reads_slowly > 0) {
        connection.close();
        open = false;
      }
      if (status == 429 || status == 503) co_await connection.pause(options.refused_pause);
    }
  };
  for (int i = 0; i < clients; ++i) asio::co_spawn(io, client(), asio::detached);
  io.run_until(options.cut_off ? until : until + kLoadPatience);
  for (; busy > 0 && !options.cut_off; --busy) wrong("no answer at all");
  return outcome;
}

// Sends requests that arrive by themselves, `rate` a second on average (Poisson), for `seconds`: an arrival does not wait for
// earlier answers. It takes a connection that has its answer, or else a new one. A request's seconds count from its
// arrival, so that a late start counts too.
inline LoadOutcome put_at_rate(uint16_t port, double rate, double seconds, const std::vector<LoadKind>& kinds,
                               const LoadOptions& options = {}) {
  asio::io_context io{1};
  LoadOutcome outcome;
  std::mt19937 random(options.seed);
  std::exponential_distribution<double> gap(rate);
  std::vector<std::unique_ptr<LoadConnection>> idle;
  int64_t busy = 0;
  const auto ask = [&](const LoadKind& kind, LoadClock::time_point arrival) -> asio::awaitable<void> {
    std::unique_ptr<LoadConnection> connection;
    bool open = !idle.empty();
    if (open) {
      connection = std::move(idle.back());
      idle.pop_back();
    } else {
      connection = std::make_unique<LoadConnection>(io, port);
      open = co_await connection->open();
      if (!open) ++outcome.not_opened;
    }
    int status = 0;
    if (open) status = co_await ask_as(*connection, kind);
    --busy;
    ++outcome.requests;
    ++outcome.statuses[kind.name][status];
    if (status == 200) {
      outcome.seconds.push_back(std::chrono::duration<double>(LoadClock::now() - arrival).count());
      idle.push_back(std::move(connection));
    }
    const bool right =
        status == 429 || status == 503 || std::ranges::find(kind.right, status) != kind.right.end();
    if (right) co_return;
    ++outcome.wrong_count;
    if (outcome.wrong.size() < 20) outcome.wrong.push_back(kind.name + ": " + std::to_string(status));
  };
  const auto start = LoadClock::now();
  const auto in = [](double time) {
    return std::chrono::duration_cast<LoadClock::duration>(std::chrono::duration<double>(time));
  };
  const auto until = start + in(seconds);
  const auto arrive = [&]() -> asio::awaitable<void> {
    asio::steady_timer timer(io);
    auto arrival = start + in(gap(random));
    while (arrival < until) {
      timer.expires_at(arrival);
      (void)co_await timer.async_wait(kLoadAwait);
      const LoadKind& kind = kinds[random() % kinds.size()];
      ++busy;
      asio::co_spawn(io, ask(kind, arrival), asio::detached);
      arrival += in(gap(random));
    }
  };
  asio::co_spawn(io, arrive(), asio::detached);
  io.run_until(until + kLoadPatience);
  outcome.wrong_count += busy;
  if (busy > 0) outcome.wrong.emplace_back("no answer at all");
  return outcome;
}

// Clients that ask for what a server is there for. picture_address: a picture as a data: URI.
inline std::vector<LoadKind> good_clients(const std::string& picture_address) {
  std::vector<LoadKind> kinds;
  const auto good = [&](const char* name, int share, const std::string& request) {
    kinds.push_back({.name = name, .share = share, .request = request, .right = {200}});
  };
  const std::string uploaded = R"({"k": 3, "image": ")" + picture_address + "\"}";
  good("search", 30, load_request("GET", "/api/search?q=a+red+bell&k=10"));
  good("search by body", 20, load_request("POST", "/api/search", R"({"text": "red stripes", "k": 10})"));
  good("search by picture", 4, load_request("POST", "/api/search", uploaded));
  good("embed", 8, load_request("POST", "/v1/embeddings", R"({"input": ["a bell", "a red car"]})"));
  good("list", 4, load_request("GET", "/api/collections"));
  good("page", 4, load_request("GET", "/page.js"));
  good("metrics", 1, load_request("GET", "/metrics"));
  return kinds;
}

// Requests that a server refuses, each for another reason.
inline std::vector<LoadKind> broken_clients() {
  const auto post = [](std::string_view target, const std::string& body) {
    return load_request("POST", target, body);
  };
  const std::string broken_picture = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1Pe";
  std::string values = "{\"like\": [0";
  for (int i = 0; i < 200'000; ++i) values += ",0";
  std::vector<LoadKind> kinds;
  const auto refused = [&](const char* name, const std::string& request, std::vector<int> right) {
    kinds.push_back({.name = name, .share = 2, .request = request, .right = std::move(right)});
  };
  refused("no request", "nonsense\r\n\r\n", {400});
  refused("no JSON", post("/api/search", "{\"text\": }"), {422});
  refused("no picture", post("/api/search", R"({"image": ")" + broken_picture + "\"}"), {415, 422});
  refused("unknown field", post("/api/search", R"({"txt": "a"})"), {400});
  refused("nowhere", load_request("GET", "/nowhere"), {404});
  refused("many values", post("/api/search", values + "]}"), {413});
  refused("long text", post("/api/search", "{\"text\": \"" + std::string(300'000, 'a') + "\"}"), {413});
  refused("long header", load_request("GET", "/", "", "X: " + std::string(20'000, 'x') + "\r\n"), {431});
  refused("huge body", "POST /api/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000000000\r\n\r\n",
          {413});
  refused("broken chunks",
          "POST /api/search HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", {400});
  kinds.push_back({.name = "large body",
                   .share = 1,
                   .request = post("/api/search", R"({"image": ")" + std::string(4 << 20, 'A') + "\"}"),
                   .right = {415, 422}});
  return kinds;
}

// Clients that are slow, stop in the middle, go before their answer or say nothing. They wait for `pause`
// seconds and a few times that.
inline std::vector<LoadKind> slow_clients(const std::string& picture_address, double pause) {
  const std::string search = load_request("POST", "/api/search", R"({"text": "red stripes", "k": 10})");
  const std::string uploaded =
      load_request("POST", "/api/search", R"({"k": 3, "image": ")" + picture_address + "\"}");
  std::vector<LoadKind> kinds;
  kinds.push_back({.name = "slow header",
                   .share = 3,
                   .request = load_request("GET", "/api/search?q=bell"),
                   .right = {200, 408},
                   .cut = 20,
                   .pause = pause,
                   .pieces = 4});
  kinds.push_back({.name = "slow body",
                   .share = 3,
                   .request = search,
                   .right = {200, 408},
                   .cut = search.size() - 20,
                   .pause = 2 * pause,
                   .pieces = 3});
  kinds.push_back({.name = "stalled header", .share = 1, .request = "GET /api/se", .right = {408}});
  kinds.push_back(
      {.name = "stalled body",
       .share = 1,
       .request = "POST /api/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{\"te",
       .right = {408}});
  kinds.push_back({.name = "slow reader",
                   .share = 2,
                   .request = load_request("GET", "/page.js"),
                   .right = {200, -1},
                   .reads_slowly = pause});
  kinds.push_back({.name = "leaves", .share = 3, .request = search, .right = {}, .leaves = true});
  kinds.push_back(
      {.name = "leaves within", .share = 3, .request = uploaded.substr(0, 300), .right = {}, .leaves = true});
  kinds.push_back(
      {.name = "silent", .share = 2, .request = "", .right = {}, .leaves = true, .stays = 8 * pause});
  return kinds;
}

// Returns hostile clients. Some close their side after the request, speak another protocol, or send a query
// that is slow to parse. Others send a body that is meant to be parsed as the next request.
inline std::vector<LoadKind> tricky_clients() {
  std::vector<LoadKind> kinds;
  std::string quotes = "{\"text\": \"";
  for (int i = 0; i < 60'000; ++i) quotes += "\\\"a ";
  kinds.push_back({.name = "many quotes",
                   .share = 1,
                   .request = load_request("POST", "/api/search", quotes + "\"}"),
                   .right = {400, 413}});
  kinds.push_back({.name = "half-closed",
                   .share = 3,
                   .request = load_request("GET", "/api/search?q=bell"),
                   .right = {200},
                   .half_closes = true});
  std::string noise;
  std::mt19937 random(3);
  for (int i = 0; i < 2'000; ++i) noise += static_cast<char>(random() % 256);
  kinds.push_back({.name = "noise", .share = 2, .request = noise + "\r\n\r\n", .right = {400, 431}});
  const std::string hello("\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00", 10);
  kinds.push_back({.name = "TLS in the clear", .share = 1, .request = hello, .right = {400, 408}});
  const std::string hidden = load_request("GET", "/healthz");
  const std::string length = "Content-Length: " + std::to_string(hidden.size()) + "\r\n";
  const auto smuggles = [&](const std::string& headers, const std::string& body) {
    kinds.push_back({.name = "smuggles",
                     .share = 1,
                     .request = "POST /api/session HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n" + body,
                     .right = {400, 501},
                     .last = true});
  };
  smuggles("Transfer-Encoding: chunked, gzip\r\n", hidden);
  smuggles("Transfer-Encoding: identity\r\n", hidden);
  smuggles("Transfer-Encoding: xchunked\r\n", hidden);
  smuggles(length + "Transfer-Encoding: chunked\r\n", "0\r\n\r\n" + hidden);
  smuggles(length + "Content-Length: 0\r\n", hidden);
  smuggles("Transfer-Encoding : chunked\r\n" + length, "0\r\n\r\n" + hidden);
  return kinds;
}

// Those that a server has to bear beside the good ones.
inline std::vector<LoadKind> hostile_clients(const std::string& picture_address, double pause = 1) {
  std::vector<LoadKind> kinds = broken_clients();
  for (const auto& more : {slow_clients(picture_address, pause), tricky_clients()})
    kinds.insert(kinds.end(), more.begin(), more.end());
  return kinds;
}

// Clients of every kind, for a server with one collection.
inline std::vector<LoadKind> mixed_clients(const std::string& picture_address, double pause = 1) {
  std::vector<LoadKind> kinds = good_clients(picture_address);
  const auto hostile = hostile_clients(picture_address, pause);
  kinds.insert(kinds.end(), hostile.begin(), hostile.end());
  return kinds;
}

}  // namespace saccade::serve::test
