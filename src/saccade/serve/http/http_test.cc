#include "saccade/serve/http/http.h"

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <malloc.h>
#include <memory>
#include <mutex>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/files.h"
#include "saccade/core/test_folder.h"
#include "saccade/hub/http_client.h"
#include "saccade/serve/descriptors.h"
#include "saccade/serve/http/http_server.h"
#include "saccade/serve/http/keys.h"
#include "saccade/serve/http/passed_socket.h"
#include "saccade/serve/metrics.h"
#include "saccade/serve/test_client.h"
#include "saccade/serve/test_tls.h"

namespace saccade::serve {
namespace {

using test::Client;
using test::Reply;
using test::request;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using namespace std::chrono_literals;

// Waits until the condition holds, ten seconds at the most.
template <typename Condition>
void wait_until(Condition holds) {
  for (int i = 0; i < 1000 && !holds(); ++i) std::this_thread::sleep_for(10ms);
}

TEST(Http, QueriesAreDecoded) {
  EXPECT_THAT(parse_query("a=1&b=x%20y+z&&c&d=%"),
              ElementsAre(Pair("a", "1"), Pair("b", "x y z"), Pair("c", ""), Pair("d", "%")));
  EXPECT_THAT(parse_query(""), ElementsAre());
  EXPECT_THAT(parse_query("="), ElementsAre(Pair("", "")));
}

TEST(Http, PathsAreDecodedOrRefused) {
  EXPECT_EQ(decode_path("/a%2Fb+c"), "/a/b+c");
  EXPECT_EQ(decode_path("/%"), std::nullopt);
  EXPECT_EQ(decode_path("/%4"), std::nullopt);
  EXPECT_EQ(decode_path("/%00"), std::nullopt);
  EXPECT_EQ(decode_path("/%zz"), std::nullopt);
}

TEST(Http, RangesAreThoseOfTheStandard) {
  using Kind = ByteRange::Kind;
  const auto range = [](const char* text) { return parse_range(text, 10); };
  const auto is = [](const ByteRange& given, Kind kind, int64_t offset, int64_t bytes) {
    return given.kind == kind && given.offset == offset && given.bytes == bytes;
  };
  EXPECT_TRUE(is(parse_range(std::nullopt, 10), Kind::kWhole, 0, 10));
  EXPECT_TRUE(is(range("bytes=0-0"), Kind::kPart, 0, 1));
  EXPECT_TRUE(is(range("bytes=3-"), Kind::kPart, 3, 7));
  EXPECT_TRUE(is(range("bytes=3-99"), Kind::kPart, 3, 7));
  EXPECT_TRUE(is(range("bytes=-4"), Kind::kPart, 6, 4));
  EXPECT_TRUE(is(range("bytes=-40"), Kind::kPart, 0, 10));
  EXPECT_TRUE(is(range("bytes=10-"), Kind::kUnsatisfiable, 0, 0));
  EXPECT_TRUE(is(range("bytes=-0"), Kind::kUnsatisfiable, 0, 0));
  for (const char* whole : {"bytes=5-3", "bytes=a-b", "bytes=", "bytes=-", "lines=0-1", "bytes=0-1,3-4",
                            "bytes=--5", "bytes=99999999999999999999-"}) {
    EXPECT_TRUE(is(range(whole), Kind::kWhole, 0, 10)) << whole;
  }
  EXPECT_EQ(parse_range("bytes=0-", 0).kind, Kind::kUnsatisfiable);
}

TEST(Keys, AreReadFromAFileThatItsOwnerAloneCanRead) {
  const saccade::test::TestFolder folder;
  const auto path = folder.path() / "keys";
  const auto write = [&](std::string_view text, mode_t mode) {
    ASSERT_TRUE(write_file_atomic(path, text));
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
  };
  write("# of the house\n\n0123456789abcdef\r\nwrite another-key-of-somebody\n", 0600);
  const auto keys = Keys::read(path);
  ASSERT_TRUE(keys) << keys.error().message;
  EXPECT_TRUE(keys->asked_for());
  EXPECT_EQ(keys->right_of("0123456789abcdef"), Right::kRead);
  EXPECT_EQ(keys->right_of("another-key-of-somebody"), Right::kWrite);
  for (const char* wrong :
       {"", "0123456789abcde", "0123456789abcdef0", "# of the house", "write another-key-of-somebody"}) {
    EXPECT_EQ(keys->right_of(wrong), Right::kNone) << wrong;
  }
  EXPECT_FALSE(Keys().asked_for());
  EXPECT_EQ(Keys().right_of(""), Right::kWrite);
  write("0123456789abcdef\n", 0644);
  EXPECT_THAT(Keys::read(path).error().message, HasSubstr("others than its owner may read it (mode 644)"));
  write("write short\n", 0600);
  EXPECT_THAT(Keys::read(path).error().message, HasSubstr("line 1: a key of 5 characters"));
  write("# none\n", 0600);
  EXPECT_THAT(Keys::read(path).error().message, HasSubstr("holds no key"));
  EXPECT_EQ(Keys::read(folder.path() / "none").error().code, ErrorCode::kNotFound);
}

TEST(Keys, AreLimitedToCollections) {
  const saccade::test::TestFolder folder;
  const auto path = folder.path() / "keys";
  const auto write = [&](std::string_view text) {
    ASSERT_TRUE(write_file_atomic(path, text));
    ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  };
  write(
      "read everywhere-0123456\nread\tsome-0123456789ab  photos my%20icons \nwrite both-0123456789ab photos\n"
      "read both-0123456789ab\n");
  const Keys keys = Keys::read(path).value();
  EXPECT_THAT(keys.collections(), testing::ElementsAre("my icons", "photos"));
  const Access everywhere = keys.access_of("everywhere-0123456");
  EXPECT_EQ(everywhere.everywhere(), Right::kRead);
  EXPECT_EQ(everywhere.in("photos"), Right::kRead);
  const Access some = keys.access_of("some-0123456789ab");
  EXPECT_EQ(some.everywhere(), Right::kNone);
  EXPECT_EQ(some.anywhere(), Right::kRead);
  EXPECT_EQ(some.in("photos"), Right::kRead);
  EXPECT_EQ(some.in("my icons"), Right::kRead);
  EXPECT_EQ(some.in("other"), Right::kNone);
  const Access both = keys.access_of("both-0123456789ab");
  EXPECT_EQ(both.in("photos"), Right::kWrite);
  EXPECT_EQ(both.in("other"), Right::kRead);
  Access together = some;
  together.add(everywhere);
  EXPECT_EQ(together.in("other"), Right::kRead);
  EXPECT_EQ(keys.access_of("none").anywhere(), Right::kNone);
  EXPECT_EQ(Keys().access_of("").in("anything"), Right::kWrite);

  for (const char* wrong :
       {"admin 0123456789abcdef\n", "0123456789abcdef photos\n", "Read 0123456789abcdef\n"}) {
    write(wrong);
    const auto refused = Keys::read(path);
    ASSERT_FALSE(refused) << wrong;
    EXPECT_EQ(refused.error().code, ErrorCode::kUsage);
    EXPECT_THAT(refused.error().message,
                HasSubstr("line 1: several words that do not begin with read or write"));
    EXPECT_THAT(refused.error().message, testing::Not(HasSubstr("0123456789abcdef")))
        << "a key is not repeated";
  }
  write("read 0123456789abcdef a%2\n");
  EXPECT_THAT(Keys::read(path).error().message, HasSubstr("name of a collection"));
}

TEST(Keys, FollowTheirFile) {
  const saccade::test::TestFolder folder;
  const auto path = folder.path() / "keys";
  const auto write = [&](std::string_view text) {
    ASSERT_TRUE(write_file_atomic(path, text));
    ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  };
  write("read first-0123456789\n");
  const Keys keys = Keys::read(path).value();
  const Keys copy = keys;  // shares them
  EXPECT_FALSE(keys.follow().value());
  write("write second-0123456789\n");
  EXPECT_TRUE(keys.follow().value());
  EXPECT_EQ(copy.right_of("first-0123456789"), Right::kNone);
  EXPECT_EQ(copy.right_of("second-0123456789"), Right::kWrite);
  // One that is broken, or gone, changes nothing.
  write("nonsense of several words\n");
  EXPECT_EQ(keys.follow().error().code, ErrorCode::kUsage);
  EXPECT_EQ(keys.right_of("second-0123456789"), Right::kWrite);
  std::filesystem::remove(path);
  EXPECT_EQ(keys.follow(true).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(keys.right_of("second-0123456789"), Right::kWrite);
  EXPECT_FALSE(Keys().follow(true).value());
}

TEST(Metrics, AreInThePrometheusFormat) {
  Metrics metrics;
  metrics.answered("/a", 200, 0.004);
  metrics.answered("/a", 200, 0.2);
  metrics.answered("/a\"\n", 404, 0);
  metrics.spent("queue", 20);
  metrics.refused(429);
  metrics.happened("thumbnail kept");
  const std::vector<Metrics::Value> values = {
      {"saccade_x", "a", "b\"", 3}, {"saccade_x", "a", "c", 4}, {"saccade_y_total", "", "", 5}};
  const std::array<double, 2> bounds = {1, 4};
  const std::vector<Metrics::Sizes> sizes = {{"saccade_z", "a", "b", bounds, {2, 3}, 5, 27}};
  const std::string text = metrics.text(values, sizes);
  EXPECT_THAT(text, HasSubstr("saccade_requests_total{route=\"/a\",status=\"200\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("saccade_requests_total{route=\"/a\\\"\\n\",status=\"404\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("saccade_request_seconds_bucket{route=\"/a\",le=\"0.005\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("saccade_request_seconds_bucket{route=\"/a\",le=\"+Inf\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("saccade_stage_seconds_bucket{stage=\"queue\",le=\"10\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE saccade_x gauge\nsaccade_x{a=\"b\\\"\"} 3\nsaccade_x{a=\"c\"} 4\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE saccade_y_total counter\nsaccade_y_total 5\n"));
  EXPECT_THAT(text,
              HasSubstr("# TYPE saccade_z histogram\nsaccade_z_bucket{a=\"b\",le=\"1\"} 2\n"
                        "saccade_z_bucket{a=\"b\",le=\"4\"} 3\nsaccade_z_bucket{a=\"b\",le=\"+Inf\"} 5\n"
                        "saccade_z_sum{a=\"b\"} 27\nsaccade_z_count{a=\"b\"} 5\n"));
  EXPECT_THAT(text, HasSubstr("saccade_refused_total{status=\"429\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("saccade_events_total{event=\"thumbnail kept\"} 1\n"));
}

// A server whose handler answers with what it was asked, or as the path says.
class Server : public testing::Test {
 protected:
  void start(HttpServerOptions options = {}) {
    options.port = 0;
    HttpHandlers handlers;
    handlers.handle = [this](const HttpRequest& asked) { return answer(asked); };
    handlers.refuse = [](const HttpRequest&, int status, const std::string& message) {
      HttpResponse response;
      response.status = status;
      response.content_type = "text/plain";
      response.body = message;
      return response;
    };
    handlers.admit = [](const HttpRequest& asked) {
      Admission admission;
      if (asked.path == "/turned-down") admission.answer.emplace().status = 403;
      admission.open = asked.path == "/open";
      admission.at_once = asked.path == "/health";
      return admission;
    };
    handlers.observe = [this](const HttpExchange& exchange) {
      const std::lock_guard lock(mutex_);
      observed_.emplace_back(exchange.status, exchange.refused);
    };
    handlers.trouble = [this](const std::string&) { ++troubles_; };
    auto server = HttpServer::start(options, handlers);
    ASSERT_TRUE(server) << server.error().message;
    server_ = *std::move(server);
  }
  [[nodiscard]] int troubles() const { return troubles_; }
  HttpResponse answer(const HttpRequest& asked) {
    ++handled_;
    HttpResponse response;
    response.content_type = "text/plain";
    if (asked.path == "/throw") throw std::runtime_error("of the handler");
    if (asked.path == "/wait") {
      std::unique_lock lock(mutex_);
      let_go_.wait_for(lock, 30s, [this] { return open_; });
    }
    if (asked.path == "/large") response.body.assign(size_t{32} << 20, 'x');
    if (asked.path == "/scattered") {  // 32 MB, of which a sixty-fourth stays, here and there
      std::vector<std::string> blocks(8192);
      for (std::string& block : blocks) block.assign(4000, 'x');
      const std::lock_guard lock(mutex_);
      for (size_t i = 63; i < blocks.size(); i += 64) kept_.push_back(std::move(blocks[i]));
    }
    if (asked.path == "/gone") {
      for (int i = 0; i < 3000 && !asked.gone(); ++i) std::this_thread::sleep_for(10ms);
      saw_gone_ = asked.gone();
    }
    if (asked.path == "/file") {
      const int file = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
      response.file = FilePart{std::make_shared<const Descriptor>(file), 1, 3};
    }
    if (asked.path == "/host") response.body = *asked.header("host");
    if (asked.path == "/late") std::this_thread::sleep_for(2s);
    if (asked.path == "/events") {
      response.content_type = "text/event-stream";
      response.events = [n = 0]() mutable -> std::optional<std::string> {
        if (++n > 4) return std::nullopt;
        return n % 2 == 0 ? "" : "data: " + std::to_string(n) + "\n\n";
      };
    }
    if (asked.path == "/header")
      response.headers.emplace_back("X-Given", std::string(asked.query.front().second));
    if (response.body.empty()) {
      response.body = asked.method + " " + asked.path;
      for (const auto& [name, value] : asked.query) response.body += " " + name + "=" + value;
      response.body += " " + asked.body;
    }
    return response;
  }
  void let_go() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    let_go_.notify_all();
  }
  [[nodiscard]] uint16_t port() const { return server_->port(); }

  std::mutex mutex_;
  std::condition_variable let_go_;
  bool open_ = false;
  std::atomic<int> handled_ = 0;
  std::atomic<int> troubles_ = 0;
  std::atomic<bool> saw_gone_ = false;
  std::vector<std::string> kept_;
  std::vector<std::pair<int, bool>> observed_;  // status, and whether the server itself refused
  std::unique_ptr<HttpServer> server_;
};

TEST_F(Server, AnswersOneRequestAfterAnother) {
  start();
  Client client(port());
  const Reply first = client.exchange(request("GET", "/a%20b?x=1%26"));
  EXPECT_EQ(first.status, 200);
  EXPECT_EQ(first.body, "GET /a b x=1& ");
  EXPECT_EQ(first.header("connection"), "keep-alive");
  EXPECT_EQ(client.exchange(request("POST", "/p", "hello")).body, "POST /p hello");
  const Reply head = client.exchange(request("HEAD", "/h"), true);
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.header("content-length"), "8");
  // Two at once, one behind the other.
  client.send(request("GET", "/1") + request("GET", "/2"));
  EXPECT_EQ(client.read().body, "GET /1 ");
  EXPECT_EQ(client.read().body, "GET /2 ");
  const Reply last =
      client.exchange(request("GET", "/z", "", "Connection: close\r\nX-Request-Id: mine-1\r\n"));
  EXPECT_EQ(last.header("connection"), "close");
  EXPECT_EQ(last.header("x-request-id"), "mine-1");
  EXPECT_TRUE(client.closed());
}

TEST_F(Server, TakesChunkedBodiesAndThoseThatWaitToBeAskedFor) {
  start();
  Client client(port());
  EXPECT_EQ(
      client
          .exchange(
              "POST /c HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
          .body,
      "POST /c abcde");
  client.send("POST /e HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.read().status, 100);
  EXPECT_EQ(client.exchange("hi").body, "POST /e hi");
}

TEST_F(Server, SendsPartsOfFilesAndLargeAnswers) {
  start();
  Client client(port());
  EXPECT_EQ(client.exchange(request("GET", "/file")).body, "ELF");
  EXPECT_EQ(client.exchange(request("GET", "/large")).body.size(), size_t{32} << 20);
}

TEST_F(Server, WhatIsNoRequestIsRefused) {
  HttpServerOptions options;
  options.body_bytes = 1000;
  start(options);
  const auto refused = [&](std::string_view text, int status) {
    Client client(port());
    const Reply reply = client.exchange(text);
    EXPECT_EQ(reply.status, status) << text.substr(0, 60) << reply.body;
    EXPECT_TRUE(client.closed()) << text.substr(0, 60);
  };
  refused("nonsense\r\n\r\n", 400);
  refused("GET nonsense HTTP/1.1\r\nHost: a\r\n\r\n", 400);
  refused("GET /% HTTP/1.1\r\nHost: a\r\n\r\n", 400);
  refused("GET / HTTP/1.1\r\nno colon\r\n\r\n", 400);
  refused("GET / HTTP/1.1\r\nA: " + std::string(20'000, 'x') + "\r\n\r\n", 431);
  refused("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n", 413);
  refused("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n", 400);
  refused("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400);
  refused(
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
      "400\r\n" +
          std::string(1024, 'x') + "\r\n0\r\n\r\n",
      413);
  EXPECT_EQ(handled_, 0);
  // A client's value begins no header of its own.
  Client client(port());
  const Reply reply = client.exchange(request("GET", "/header?a=x%0d%0aX-Evil:%201"));
  EXPECT_EQ(reply.header("x-given"), "xX-Evil: 1");
  EXPECT_EQ(reply.header("x-evil"), "");
}

TEST_F(Server, AHandlerThatThrowsIsOneAnswerAndNoEnd) {
  start();
  Client client(port());
  EXPECT_EQ(client.exchange(request("GET", "/throw")).status, 500);
  EXPECT_EQ(client.exchange(request("GET", "/on")).status, 200);
}

// Resident bytes of this process.
int64_t memory_now() {
  std::ifstream file("/proc/self/statm");
  int64_t pages = 0;
  file >> pages >> pages;
  return pages * ::sysconf(_SC_PAGESIZE);
}

TEST_F(Server, GivesMemoryBackOnceItIsIdle) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers' allocators keep what is freed";
#endif
  start();
  constexpr int64_t kRoom = int64_t{8} << 20;
  EXPECT_EQ(Client(port()).exchange(request("GET", "/before")).status, 200);
  (void)::malloc_trim(0);  // what other tests left
  const int64_t before = memory_now();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Client(port()).exchange(request("GET", "/scattered")).status, 200);
  EXPECT_GT(memory_now(), before + 2 * kRoom);
  // Probes of its health keep no server from being idle.
  for (int i = 0; i < 100 && memory_now() > before + kRoom; ++i) {
    EXPECT_EQ(Client(port()).exchange(request("GET", "/health")).status, 200);
    std::this_thread::sleep_for(100ms);
  }
  EXPECT_LT(memory_now(), before + kRoom);
}

TEST_F(Server, SlowClientsAreEndedAndHoldNothingUp) {
  HttpServerOptions options;
  options.header_seconds = 0.3;
  options.body_seconds = 0.3;
  options.idle_seconds = 0.3;
  options.write_seconds = 0.3;
  start(options);
  Client header(port());
  Client body(port());
  Client idle(port());
  Client reader(port());
  header.send("GET / HTTP/1.1\r\nHo");
  body.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc");
  reader.send(request("GET", "/large"));
  Client good(port());
  EXPECT_EQ(good.exchange(request("GET", "/good")).status, 200);
  EXPECT_EQ(header.read().status, 408);
  EXPECT_EQ(body.read().status, 408);
  EXPECT_TRUE(header.closed(5000));
  EXPECT_TRUE(body.closed(5000));
  EXPECT_TRUE(idle.closed(5000));
  wait_until([&] { return server_->connections() <= 1; });
  EXPECT_LE(server_->connections(), 1);  // the good one may still be within its idle time
}

TEST_F(Server, MoreThanItHasRoomForIsRefusedBeforeItsBodyIsRead) {
  HttpServerOptions options;
  options.requests = 2;
  options.workers = 1;
  options.bytes = 1000;
  start(options);
  Client first(port());
  Client second(port());
  first.send(request("GET", "/wait"));
  second.send(request("GET", "/wait"));
  wait_until([&] { return server_->requests() >= 2; });
  Client third(port());
  const Reply refused = third.exchange("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.header("retry-after"), "1");
  let_go();
  EXPECT_EQ(first.read().status, 200);
  EXPECT_EQ(second.read().status, 200);
  EXPECT_EQ(Client(port()).exchange(request("POST", "/", std::string(1001, 'x'))).status, 429);
  EXPECT_EQ(Client(port()).exchange(request("POST", "/", std::string(999, 'x'))).status, 200);
}

// The missing part of a slow client's body takes no room from other clients. The time it takes does not count
// as time in the queue.
TEST_F(Server, SlowBodiesTakeNoRoomAndWaitForNobody) {
  HttpServerOptions options;
  options.requests = 2;
  options.bytes = 1000;
  options.queue_seconds = 0.2;
  start(options);
  std::vector<std::unique_ptr<Client>> slow;
  for (int i = 0; i < 8; ++i) {
    slow.push_back(std::make_unique<Client>(port()));
    slow.back()->send("POST /slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900\r\n\r\nab");
  }
  wait_until([&] { return server_->body_bytes() >= 16; });
  EXPECT_EQ(server_->body_bytes(), 16);
  EXPECT_EQ(server_->requests(), 0);
  EXPECT_EQ(Client(port()).exchange(request("POST", "/good", std::string(500, 'x'))).status, 200);
  std::this_thread::sleep_for(400ms);
  EXPECT_EQ(slow.front()->exchange(std::string(898, 'x')).status, 200);
  // Memory of a request is released after its answer.
  wait_until([&] { return server_->body_bytes() <= 14; });
  EXPECT_EQ(server_->body_bytes(), 14);
  // Bytes that come are counted as they come: the second of these is refused on its way.
  slow[1]->send(std::string(800, 'x'));
  wait_until([&] { return server_->body_bytes() >= 814; });
  EXPECT_EQ(slow[2]->exchange(std::string(800, 'x')).status, 429);
  slow.clear();
  wait_until([&] { return server_->body_bytes() == 0; });
  EXPECT_EQ(server_->body_bytes(), 0);
}

TEST_F(Server, WhatNeedsNoBodyIsAnsweredBeforeItIsRead) {
  start();
  Client client(port());
  const Reply reply =
      client.exchange("POST /turned-down HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n");
  EXPECT_EQ(reply.status, 403);
  EXPECT_EQ(reply.header("connection"), "close");
  EXPECT_EQ(handled_, 0);
  EXPECT_TRUE(client.closed());  // counted before
  const std::lock_guard lock(mutex_);
  EXPECT_THAT(observed_, ElementsAre(Pair(403, true)));
}

TEST_F(Server, EventsAreSentAsTheyComeAndEnd) {
  start();
  Client client(port());
  const Reply head = client.exchange(request("GET", "/events"));
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.header("content-type"), "text/event-stream");
  EXPECT_EQ(head.header("content-length"), "");
  EXPECT_EQ(client.rest(), "data: 1\n\ndata: 3\n\n");
  EXPECT_EQ(server_->requests(), 0);
}

TEST_F(Server, MoreConnectionsThanItTakesAreClosedWithAWord) {
  HttpServerOptions options;
  options.connections = 2;
  options.evict_seconds = 0;
  start(options);
  Client first(port());
  Client second(port());
  first.send(request("GET", "/wait"));
  second.send(request("GET", "/wait"));
  wait_until([&] { return server_->requests() >= 2; });
  Client third(port());
  EXPECT_EQ(third.exchange(request("POST", "/", std::string(100'000, 'x'))).status, 503);  // and no reset
  let_go();
  EXPECT_EQ(first.read().status, 200);
  EXPECT_EQ(second.read().status, 200);
  first.close();
  wait_until([&] { return server_->connections() <= 1; });
  EXPECT_EQ(Client(port()).exchange(request("GET", "/")).status, 200);
}

TEST_F(Server, WithoutRoomToReadRefusedConnectionsTheyAreToldAllTheSame) {
  HttpServerOptions options;
  options.connections = 1;
  options.refusals = 0;
  start(options);
  Client busy(port());
  busy.send(request("GET", "/wait"));
  wait_until([&] { return server_->requests() >= 1; });
  for (int i = 0; i < 20; ++i) {
    Client client(port());
    EXPECT_EQ(client.exchange(request("GET", "/")).status, 503);
    EXPECT_TRUE(client.closed());
  }
  let_go();
  EXPECT_EQ(busy.read().status, 200);
}

// Silent clients would else shut everybody out for a minute at a time.
TEST_F(Server, AFullServerClosesTheConnectionThatHasBeenIdleTheLongest) {
  HttpServerOptions options;
  options.connections = 4;
  options.evict_seconds = 0.2;
  start(options);
  std::vector<std::unique_ptr<Client>> silent;
  for (int i = 0; i < 3; ++i) {
    silent.push_back(std::make_unique<Client>(port()));
    wait_until([&] { return server_->connections() > i; });
    if (i == 1) silent.back()->send("GET / HTTP/1.1\r\nHo");  // nor does half a request help
  }
  Client busy(port());
  busy.send(request("GET", "/wait"));
  wait_until([&] { return server_->requests() >= 1; });
  // None has been idle for long enough yet, or the first is closed for this one: it is answered in any case.
  std::this_thread::sleep_for(300ms);
  Client good(port());
  EXPECT_EQ(good.exchange(request("GET", "/good")).status, 200);
  EXPECT_TRUE(silent[0]->closed(5000));
  Client another(port());
  EXPECT_EQ(another.exchange(request("GET", "/good")).status, 200);
  EXPECT_TRUE(silent[1]->closed(5000));
  EXPECT_FALSE(silent[2]->closed(0));
  let_go();
  EXPECT_EQ(busy.read().status, 200);
}

// Whoever asks without a key takes little room: a body of 4 KiB, and a place that is given to others.
TEST_F(Server, BodiesThatNeedNoKeyAreSmall) {
  HttpServerOptions options;
  options.connections = 1;
  options.evict_seconds = 0.1;
  start(options);
  {
    Client client(port());
    EXPECT_EQ(client.exchange(request("POST", "/open", std::string(4096, 'x'))).status, 200);
    const Reply refused = client.exchange("POST /open HTTP/1.1\r\nHost: a\r\nContent-Length: 4097\r\n\r\n");
    EXPECT_EQ(refused.status, 413);
    EXPECT_THAT(refused.body, HasSubstr("a body of 4097 bytes, at most 4096 are taken"));
  }
  wait_until([&] { return server_->connections() == 0; });
  {
    Client client(port());
    client.send("POST /open HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1001\r\n");
    EXPECT_EQ(client.exchange(std::string(4097, 'x')).status, 413);
  }
  wait_until([&] { return server_->connections() == 0; });
  Client slow(port());
  slow.send("POST /open HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nab");
  wait_until([&] { return server_->body_bytes() >= 2; });
  std::this_thread::sleep_for(200ms);
  EXPECT_EQ(Client(port()).exchange(request("GET", "/good")).status, 200);
  EXPECT_TRUE(slow.closed(5000));
}

// A body whose end is a guess could pass for the next request.
TEST_F(Server, OtherTransferEncodingsAreRefusedAndTheConnectionCloses) {
  start();
  const auto refused = [&](std::string_view headers, std::string_view version = "1.1") {
    Client client(port());
    client.send("POST /open HTTP/" + std::string(version) + "\r\nHost: a\r\n" + std::string(headers) +
                "\r\n" + request("GET", "/smuggled"));
    const Reply reply = client.read();
    EXPECT_TRUE(reply.status == 400 || reply.status == 501) << headers << reply.status;
    EXPECT_EQ(reply.header("connection"), "close") << headers;
    EXPECT_TRUE(client.closed()) << headers;
  };
  for (const char* encoding : {"chunked, gzip", "gzip, chunked", "identity", "xchunked", "chunkedx", "", ",",
                               "chunked,", "chunked, chunked", "\"chunked\"", "chunked;a=b"}) {
    refused("Transfer-Encoding: " + std::string(encoding) + "\r\n");
  }
  refused("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n");
  refused("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n");
  refused("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n");
  refused("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n");
  refused("Content-Length: 3\r\nContent-Length: 4\r\n");
  refused("Transfer-Encoding: chunked\r\n", "1.0");
  EXPECT_EQ(handled_, 0);
  Client client(port());
  EXPECT_EQ(
      client.exchange("POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n1\r\na\r\n0\r\n\r\n")
          .body,
      "POST /c a");
}

TEST_F(Server, ARequestHasOneHost) {
  start();
  const auto status = [&](std::string_view text) { return Client(port()).exchange(text).status; };
  EXPECT_EQ(status("GET / HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(status("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"), 400);
  EXPECT_EQ(status("GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n"), 400);
  EXPECT_EQ(status("GET / HTTP/1.0\r\n\r\n"), 200);
}

TEST_F(Server, TakesTargetsInAbsoluteForm) {
  start();
  const auto body = [&](const std::string& target) {
    return Client(port()).exchange(request("GET", target)).body;
  };
  EXPECT_EQ(body("http://elsewhere:80/a%20b?x=1"), "GET /a b x=1 ");
  EXPECT_EQ(body("HTTPS://elsewhere/a"), "GET /a ");
  EXPECT_EQ(body("http://elsewhere"), "GET / ");
  EXPECT_EQ(body("http://elsewhere?x=1"), "GET / x=1 ");
  EXPECT_EQ(body("http://elsewhere/host"), "elsewhere") << "not that of the header";
  for (const char* wrong : {"http://", "http:///a", "http://me@elsewhere/", "ftp://elsewhere/", "*"}) {
    EXPECT_EQ(Client(port()).exchange(request("GET", wrong)).status, 400) << wrong;
  }
}

TEST_F(Server, EmptyLinesBeforeARequestAreLeftOut) {
  start();
  Client client(port());
  EXPECT_EQ(client.exchange("\r\n" + request("GET", "/1")).body, "GET /1 ");
  client.send("\r");
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(client.exchange("\n\r\n" + request("GET", "/2")).body, "GET /2 ");
  std::string many;
  for (int i = 0; i < 100; ++i) many += "\r\n";
  EXPECT_EQ(client.exchange(many + request("GET", "/3")).status, 400);
}

TEST_F(Server, AHeaderIsBoundedAsAWhole) {
  start();
  std::string fields;
  while (fields.size() < 14'000) fields += "A: " + std::string(1000, 'x') + "\r\n";
  EXPECT_EQ(Client(port()).exchange(request("GET", "/", "", fields)).status, 200);
  // The first line and the fields are within the bound, each alone.
  const Reply both = Client(port()).exchange(request("GET", "/" + std::string(11'000, 'x'), "", fields));
  EXPECT_EQ(both.status, 431);
  EXPECT_THAT(both.body, HasSubstr("a header of more than 16384 bytes"));
  while (fields.size() < 25'000) fields += "A: " + std::string(1000, 'x') + "\r\n";
  EXPECT_EQ(Client(port()).exchange(request("GET", "/", "", fields)).status, 431);
  // Sent slowly, so that it comes in many pieces.
  Client slow(port());
  const std::string text = request("GET", "/", "", fields);
  for (size_t at = 0; at < text.size(); at += 1000) {
    slow.send(text.substr(at, 1000));
    std::this_thread::sleep_for(2ms);
  }
  EXPECT_EQ(slow.read().status, 431);
}

TEST_F(Server, AChunksHeaderIsBoundedAndAnswered) {
  start();
  const std::string head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(Client(port()).exchange(head + "1;a=" + std::string(300'000, 'x') + "\r\na\r\n0\r\n\r\n").status,
            431);
  EXPECT_EQ(Client(port()).exchange(head + "1;a=b\r\na\r\n0\r\n\r\n").body, "POST / a");
  EXPECT_EQ(Client(port()).exchange(head + "0\r\nA: " + std::string(300'000, 'x') + "\r\n\r\n").status, 431);
}

TEST_F(Server, AClientThatHasClosedItsSideGetsItsAnswer) {
  start();
  for (int i = 0; i < 40; ++i) {
    Client client(port());
    client.send(request("POST", "/half", "body"));
    client.close_sending();
    const Reply reply = client.read();
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.body, "POST /half body");
    EXPECT_TRUE(client.closed());
  }
  // One that waits for long is asked whether it is there.
  Client patient(port());
  patient.send(request("GET", "/wait"));
  patient.close_sending();
  EXPECT_EQ(patient.read().status, 100);
  let_go();
  EXPECT_EQ(patient.read().status, 200);
  // HTTP/1.0 knows no "100 Continue".
  Client old(port());
  old.send("GET /late HTTP/1.0\r\n\r\n");
  old.close_sending();
  EXPECT_EQ(old.read().status, 200);
}

TEST_F(Server, HealthAndRefusalsWaitForNoWorker) {
  HttpServerOptions options;
  options.workers = 1;
  options.requests = 2;
  options.queue_seconds = 2;
  start(options);
  Client busy(port());
  Client queued(port());
  busy.send(request("GET", "/wait"));
  wait_until([&] { return handled_ >= 1; });
  queued.send(request("GET", "/queued"));
  wait_until([&] { return server_->requests() >= 2; });
  EXPECT_EQ(Client(port()).exchange(request("GET", "/health")).status, 200);
  Client down(port());
  EXPECT_EQ(down.exchange(request("GET", "/turned-down")).status, 403);
  EXPECT_EQ(down.exchange(request("GET", "/turned-down")).status, 403) << "without a body it stays open";
  EXPECT_EQ(Client(port()).exchange(request("GET", "/")).status, 429);
  const Reply late = queued.read();
  EXPECT_EQ(late.status, 503);
  EXPECT_EQ(late.header("retry-after"), "1");
  EXPECT_EQ(queued.exchange(request("GET", "/health")).status, 200) << "and its connection goes on";
  EXPECT_EQ(server_->requests(), 1);
  let_go();
  EXPECT_EQ(busy.read().status, 200);
  EXPECT_EQ(handled_, 3) << "what was refused is never begun";
}

TEST_F(Server, AHandlerIsToldThatItsClientHasGoneAndOneThatWaitedIsNeverBegun) {
  HttpServerOptions options;
  options.workers = 1;
  start(options);
  Client first(port());
  first.send(request("GET", "/gone"));
  wait_until([&] { return handled_ >= 1; });
  Client second(port());
  second.send(request("GET", "/never"));
  wait_until([&] { return server_->requests() >= 2; });
  second.close();
  wait_until([&] { return server_->requests() <= 1; });
  first.close();
  wait_until([&] { return server_->requests() == 0; });
  EXPECT_TRUE(saw_gone_);
  EXPECT_EQ(handled_, 1);
}

TEST_F(Server, StoppingAnswersWhatIsAtHandAndTakesNothingNew) {
  start();
  Client busy(port());
  Client idle(port());
  Client half(port());
  EXPECT_EQ(idle.exchange(request("GET", "/")).status, 200);
  half.send("GET / HTTP/1.1\r\nHo");
  busy.send(request("GET", "/wait"));
  wait_until([&] { return handled_ >= 2; });
  std::thread stop([this] { server_->stop(); });
  EXPECT_TRUE(idle.closed());
  EXPECT_TRUE(half.closed(5000));
  let_go();
  const Reply reply = busy.read();
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.header("connection"), "close");
  stop.join();
  Client late(port());
  EXPECT_FALSE(late.connected());
}

TEST_F(Server, StoppingAsksHandlersToStopAndRefusesWhatWaits) {
  HttpServerOptions options;
  options.workers = 1;
  options.drain_seconds = 0.5;
  start(options);
  Client busy(port());
  Client queued(port());
  busy.send(request("GET", "/gone"));  // for 30 s
  wait_until([&] { return handled_ >= 1; });
  queued.send(request("GET", "/queued"));
  wait_until([&] { return server_->requests() >= 2; });
  const auto start = std::chrono::steady_clock::now();
  server_->stop();
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
  EXPECT_TRUE(saw_gone_);
  EXPECT_EQ(busy.read().status, 200);
  EXPECT_EQ(queued.read().status, 503);
  EXPECT_EQ(handled_, 1);
}

TEST(Descriptors, ConnectionsAndWorkersLeaveRoomForFiles) {
  for (int64_t free = 28; free < 6000; ++free) {
    HttpServerOptions options;
    ASSERT_TRUE(fit_to_descriptors(free, options)) << free;
    EXPECT_GE(options.connections, 1) << free;
    EXPECT_GE(options.refusals, 1) << free;
    EXPECT_GE(options.workers, 2) << free;
    EXPECT_LE(2 * options.connections + options.refusals + 4 * options.workers, free) << free;
  }
  HttpServerOptions options;
  ASSERT_TRUE(fit_to_descriptors(wanted_descriptors(options), options));
  EXPECT_EQ(options.connections, 2048);
  EXPECT_EQ(options.workers, 64);
  EXPECT_THAT(fit_to_descriptors(27, options).error().message, HasSubstr("27 more files may be opened"));
  EXPECT_GE(open_descriptors(), 3);
}

TEST_F(Server, APortInUseAndAnAddressThatIsNoneAreToldOf) {
  start();
  const auto again = [&](const std::string& address) {
    HttpServerOptions options;
    options.address = address;
    options.port = port();
    return HttpServer::start(options, {}).error();
  };
  EXPECT_THAT(again("127.0.0.1").message, HasSubstr("Address already in use"));
  EXPECT_EQ(again("127.0.0.1").code, ErrorCode::kIo);
  EXPECT_THAT(again("here").message, HasSubstr("\"here\" is no address of an interface"));
}

TEST_F(Server, AnswersUnderTlsWithTheCertificateItIsGiven) {
  const saccade::test::TestFolder folder;
  const test::Certificate certificate(folder.path());
  HttpServerOptions options;
  options.certificate = certificate.certificate.string();
  options.certificate_key = certificate.key.string();
  options.header_seconds = 2;
  start(options);
  const auto exchange = [&](std::string_view text) {
    return test::exchange_under_tls(port(), certificate.certificate, text);
  };
  const std::string answer = exchange(request("GET", "/a?x=1", "", "Connection: close\r\n"));
  EXPECT_THAT(answer, HasSubstr("HTTP/1.1 200 OK"));
  EXPECT_THAT(answer, HasSubstr("GET /a x=1"));
  const std::string large = exchange(request("GET", "/large", "", "Connection: close\r\n"));
  EXPECT_GT(large.size(), size_t{32} << 20);
  const std::string body(200'000, 'b');
  EXPECT_THAT(exchange(request("POST", "/p", body, "Connection: close\r\n")), HasSubstr("POST /p bbb"));
  EXPECT_THAT(exchange("GET /half HTTP/1.1\r\nHo"), HasSubstr("HTTP/1.1 408 Request Timeout"));
  // A client that speaks no TLS, or sends nothing, is disconnected and blocks nobody.
  Client plain(port());
  plain.send(request("GET", "/"));
  Client silent(port());
  EXPECT_THAT(exchange(request("GET", "/on", "", "Connection: close\r\n")), HasSubstr("200 OK"));
  EXPECT_TRUE(plain.closed(30'000) || plain.read().status == 0);
  EXPECT_TRUE(silent.closed(30'000));

  const auto error = [&](const std::string& certificate_file, const std::string& key) {
    HttpServerOptions wrong;
    wrong.port = 0;
    wrong.certificate = certificate_file;
    wrong.certificate_key = key;
    return HttpServer::start(wrong, {}).error();
  };
  EXPECT_EQ(error("/none.pem", options.certificate_key).code, ErrorCode::kNotFound);
  EXPECT_THAT(error(options.certificate_key, options.certificate_key).message,
              HasSubstr("no certificate in PEM"));
  EXPECT_THAT(error(options.certificate, options.certificate).message, HasSubstr("chmod 600"));
  const saccade::test::TestFolder elsewhere;
  const test::Certificate other(elsewhere.path());
  EXPECT_THAT(error(options.certificate, other.key.string()).message, HasSubstr("no private key"));
  std::filesystem::permissions(options.certificate_key, std::filesystem::perms(0644));
  EXPECT_THAT(error(options.certificate, options.certificate_key).message, HasSubstr("mode 644"));
}

TEST_F(Server, AClientOfTheHubNamesWhyACertificateIsNotTrusted) {
  const saccade::test::TestFolder folder;
  const test::Certificate certificate(folder.path());
  HttpServerOptions options;
  options.certificate = certificate.certificate.string();
  options.certificate_key = certificate.key.string();
  start(options);
  const auto asked = [&](const std::string& host, const std::filesystem::path& trusted) {
    hub::HttpRequest get;
    get.url = fmt::format("https://{}:{}/a", host, port());
    get.addresses = {"127.0.0.1"};
    hub::HttpOptions client;
    client.certificates = trusted;
    return hub::HttpSession::open(client).value().send(get, nullptr, {});
  };
  const hub::HttpResult answered = asked("localhost", certificate.certificate);
  ASSERT_TRUE(answered) << answered.error().error.message;
  EXPECT_EQ(answered->status, 200);
  EXPECT_THAT(answered->body, HasSubstr("GET /a"));
  const saccade::test::TestFolder elsewhere;
  const test::Certificate other(elsewhere.path());
  for (const auto& [host, trusted] :
       {std::pair("localhost", other.certificate), std::pair("elsewhere.example", certificate.certificate)}) {
    const hub::HttpResult refused = asked(host, trusted);
    ASSERT_FALSE(refused) << host;
    EXPECT_EQ(refused.error().error.code, ErrorCode::kIo);
    EXPECT_FALSE(refused.error().connected);
    EXPECT_THAT(
        refused.error().error.message,
        testing::AllOf(HasSubstr("the server's certificate is not trusted: "), HasSubstr("SSL_CERT_FILE")));
  }
  const hub::HttpResult none = asked("localhost", folder.path() / "none.pem");
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().error.message,
              HasSubstr("no certificates can be read from " + (folder.path() / "none.pem").string()));
}

TEST_F(Server, ACertificateThatIsReplacedIsUsedWithoutARestart) {
  const saccade::test::TestFolder folder;
  const test::Certificate first(folder.path());
  HttpServerOptions options;
  options.certificate = first.certificate.string();
  options.certificate_key = first.key.string();
  start(options);
  const auto believed = folder.path() / "believed.pem";
  const auto answered = [&] {
    return test::exchange_under_tls(port(), believed, request("GET", "/", "", "Connection: close\r\n"))
               .find("200 OK") != std::string::npos;
  };
  const auto copy = std::filesystem::copy_options::overwrite_existing;
  std::filesystem::copy_file(first.certificate, believed, copy);
  EXPECT_TRUE(answered());
  // Half of a renewal: a certificate that is none yet. The one before stays, and somebody is told.
  ASSERT_TRUE(write_file_atomic(first.certificate, "soon"));
  for (int i = 0; i < 600 && troubles() == 0; ++i) {
    EXPECT_TRUE(answered());
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_GE(troubles(), 1);
  EXPECT_TRUE(answered());
  const test::Certificate second(folder.path());  // in the same files
  std::filesystem::copy_file(second.certificate, believed, copy);
  bool renewed = false;
  for (int i = 0; i < 600 && !renewed; ++i) {
    renewed = answered();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_TRUE(renewed);
}

TEST_F(Server, TakesASocketOverThatListensAlready) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_GE(socket, 0);
  EXPECT_THAT(listening_socket(socket).error().message, HasSubstr("no socket that listens"));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(::listen(socket, 16), 0);
  const auto passed = listening_socket(socket);
  ASSERT_TRUE(passed) << passed.error().message;
  EXPECT_EQ(passed->address, "127.0.0.1");
  Client early(passed->port);  // before anybody answers
  early.send(request("GET", "/early"));
  HttpServerOptions options;
  options.address = passed->address;
  options.socket = passed->socket;
  start(options);
  EXPECT_EQ(port(), passed->port);
  EXPECT_EQ(early.read().status, 200);
}

// systemd passes sockets in the environment, for one process alone.
TEST(PassedSocket, IsThatOfThisProcessAlone) {
  const auto say = [](const char* process, const char* count) {
    ::setenv("LISTEN_PID", process, 1);  // NOLINT(concurrency-mt-unsafe)
    ::setenv("LISTEN_FDS", count, 1);    // NOLINT(concurrency-mt-unsafe)
    return passed_socket();
  };
  const auto none = passed_socket();
  ASSERT_TRUE(none);
  EXPECT_FALSE(none->has_value());
  const auto others = say("1", "1");
  ASSERT_TRUE(others);
  EXPECT_FALSE(others->has_value());
  EXPECT_EQ(std::getenv("LISTEN_FDS"), nullptr);  // NOLINT(concurrency-mt-unsafe)
  const auto several = say(std::to_string(::getpid()).c_str(), "2");
  ASSERT_FALSE(several);
  EXPECT_THAT(several.error().message, HasSubstr("2 sockets were passed, expected one"));
}

TEST_F(Server, HundredsOfClientsAreAnsweredEachItsOwn) {
  start();
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int t = 0; t < 32; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        Client client(port());
        const std::string body = std::to_string(t * 100 + i);
        if (client.exchange(request("POST", "/p", body)).body == "POST /p " + body) ++right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 320);
  EXPECT_EQ(handled_, 320);
}

}  // namespace
}  // namespace saccade::serve
