// The whole server under good, slow, broken and huge requests at once, for some
// seconds (tests/campaigns/load.cc: for minutes).
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/serve/http/http_server.h"
#include "saccade/serve/test_load.h"
#include "saccade/serve/test_serving.h"

namespace saccade::serve {
namespace {

using testing::IsEmpty;

class Soak : public ServingTest {
 protected:
  [[nodiscard]] std::unique_ptr<HttpServer> start(HttpServerOptions options) {
    options.port = 0;
    HttpHandlers handlers;
    handlers.handle = [this](const HttpRequest& request) { return service_->handle(request); };
    handlers.admit = [this](const HttpRequest& request) { return service_->admit(request); };
    handlers.refuse = [this](const HttpRequest& request, int status, const std::string& message) {
      return service_->refuse(request, status, message);
    };
    handlers.observe = [this](const HttpExchange& exchange) {
      if (exchange.refused) metrics_.refused(exchange.status);
    };
    return HttpServer::start(options, handlers).value();
  }
  // Everything that was taken is given back.
  static void expect_empty(const HttpServer& server) {
    for (int i = 0; i < 1000 && server.connections() > 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(server.connections(), 0);
    EXPECT_EQ(server.requests(), 0);
    EXPECT_EQ(server.body_bytes(), 0);
  }
};

TEST_F(Soak, EveryAnswerIsOneAndNothingIsKept) {
  HttpServerOptions options;
  options.header_seconds = 1;
  options.stall_seconds = 1;
  options.write_seconds = 2;
  const auto server = start(options);
  test::LoadOutcome outcome =
      test::put_under_load(server->port(), 120, 4, test::mixed_clients(data_address(2), 0.05));
  EXPECT_THAT(outcome.wrong, IsEmpty());
  EXPECT_GT(outcome.statuses["search"][200], 10);
  EXPECT_GT(outcome.statuses["slow body"][200], 0);
  EXPECT_GT(outcome.statuses["stalled header"][408], 0);
  EXPECT_GT(outcome.statuses["stalled body"][408], 0);
  EXPECT_GT(outcome.statuses["huge body"][413], 0);
  EXPECT_GT(outcome.statuses["half-closed"][200], 0);
  EXPECT_GT(outcome.statuses["smuggles"][400] + outcome.statuses["smuggles"][501], 0);
  EXPECT_GT(outcome.statuses["many quotes"][400], 0);
  expect_empty(*server);
  const test::LoadKind good{
      .name = "search", .request = test::load_request("GET", "/api/search?q=bell"), .right = {200}};
  EXPECT_EQ(test::ask_once(server->port(), good).wrong_count, 0);
}

// With room for few, the others are told so, and those who are let in are answered.
TEST_F(Soak, AFullServerRefusesAndGoesOn) {
  HttpServerOptions options;
  options.requests = 4;
  options.workers = 2;
  options.connections = 40;
  options.bytes = 4 << 20;
  options.header_seconds = 1;
  options.stall_seconds = 1;
  options.evict_seconds = 2;  // slow clients have their 408 before others take their place
  const auto server = start(options);
  test::LoadOutcome outcome =
      test::put_under_load(server->port(), 80, 3, test::mixed_clients(data_address(2), 0.05));
  EXPECT_THAT(outcome.wrong, IsEmpty());
  int64_t refused = 0;
  for (auto& [kind, statuses] : outcome.statuses) refused += statuses[429] + statuses[503];
  EXPECT_GT(refused, 10);
  EXPECT_GT(outcome.statuses["search"][200], 10);
  expect_empty(*server);
}

// Benchmarks rely on it that a request's time counts from its arrival, however long those before it take.
TEST_F(Soak, RequestsThatArriveByThemselvesWaitForThoseBefore) {
  HttpServerOptions options;
  options.port = 0;
  options.workers = 1;
  HttpHandlers handlers;
  handlers.handle = [](const HttpRequest&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return HttpResponse{};
  };
  const auto server = HttpServer::start(options, handlers).value();
  const std::vector<test::LoadKind> kinds = {
      {.name = "slow", .request = test::load_request("GET", "/"), .right = {200}}};
  // Twice as many as the server can answer: the last ones wait for about a second.
  test::LoadOutcome outcome = test::put_at_rate(server->port(), 40, 2, kinds);
  EXPECT_THAT(outcome.wrong, IsEmpty());
  EXPECT_GT(outcome.requests, 40);
  EXPECT_LT(outcome.requests, 130);
  EXPECT_EQ(outcome.statuses["slow"][200], outcome.requests);
  EXPECT_GE(outcome.percentile(0), 0.05);
  EXPECT_GT(outcome.percentile(0.99), 0.4);
  EXPECT_GT(outcome.percentile(0.99), 3 * outcome.percentile(0.05));
}

}  // namespace
}  // namespace saccade::serve
