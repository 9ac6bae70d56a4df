// Pictures by address: what is fetched, and all that is not.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/seconds_since.h"
#include "saccade/core/test_environment.h"
#include "saccade/hub/address_range.h"
#include "saccade/hub/test_server.h"
#include "saccade/serve/files/remote_pictures.h"
#include "saccade/serve/test_serving.h"

namespace saccade::serve {
namespace {

using hub::AddressRange;
using hub::ip_address;
using hub::is_public;
using saccade::test::ServerReply;
using saccade::test::ServerRequest;
using testing::HasSubstr;
using testing::SizeIs;

TEST(Addresses, ThoseOfTheInternetAreTold) {
  const auto is = [](const char* text) {
    const auto address = ip_address(text);
    EXPECT_TRUE(address) << text;
    return address && is_public(*address);
  };
  for (const char* text :
       {"1.1.1.1",        "8.8.8.8",         "9.255.255.255",   "11.0.0.0",        "100.63.255.255",
        "100.128.0.0",    "126.255.255.255", "128.0.0.0",       "169.253.255.255", "169.255.0.0",
        "172.15.255.255", "172.32.0.0",      "192.167.255.255", "192.169.0.0",     "198.17.255.255",
        "198.20.0.0",     "223.255.255.255", "2001:200::1",     "2606:4700::1111", "2a00::1",
        "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"}) {
    EXPECT_TRUE(is(text)) << text;
  }
  for (const char* text : {"0.0.0.0",
                           "0.1.2.3",
                           "10.0.0.0",
                           "10.255.255.255",
                           "100.64.0.0",
                           "100.127.255.255",
                           "127.0.0.1",
                           "127.255.255.255",
                           "169.254.169.254",
                           "172.16.0.0",
                           "172.31.255.255",
                           "192.0.0.1",
                           "192.0.2.1",
                           "192.88.99.1",
                           "192.168.0.0",
                           "192.168.255.255",
                           "198.18.0.0",
                           "198.19.255.255",
                           "198.51.100.7",
                           "203.0.113.7",
                           "224.0.0.1",
                           "239.255.255.255",
                           "240.0.0.0",
                           "255.255.255.255",
                           "::",
                           "::1",
                           "::127.0.0.1",
                           "::ffff:127.0.0.1",
                           "::ffff:10.0.0.1",
                           "::ffff:a9fe:a9fe",
                           "64:ff9b::10.0.0.1",
                           "64:ff9b::127.0.0.1",
                           "64:ff9b:1::8.8.8.8",
                           "100::1",
                           "2001::1",
                           "2001:db8::1",
                           "2002:7f00:1::",
                           "2002:808:808::",
                           "3fff::1",
                           "fc00::1",
                           "fd12:3456::1",
                           "fe80::1",
                           "fec0::1",
                           "ff02::1"}) {
    EXPECT_FALSE(is(text)) << text;
  }
  for (const char* text : {"", "1.2.3", "01.2.3.4", "1.2.3.4.5", "0x7f.0.0.1", "fe80::1%eth0", "[::1]", "a"})
    EXPECT_FALSE(ip_address(text)) << text;
}

TEST(Addresses, RangesEndAtABit) {
  const auto range = AddressRange::parse("172.16.0.0/12").value();
  EXPECT_TRUE(range.contains(*ip_address("172.31.255.255")));
  EXPECT_TRUE(range.contains(*ip_address("::ffff:172.16.0.1")));
  EXPECT_FALSE(range.contains(*ip_address("172.32.0.0")));
  EXPECT_FALSE(range.contains(*ip_address("::172.16.0.1")));
  EXPECT_TRUE(AddressRange::parse("127.0.0.1").value().contains(*ip_address("127.0.0.1")));
  EXPECT_FALSE(AddressRange::parse("127.0.0.1").value().contains(*ip_address("127.0.0.2")));
  for (const char* text : {"", "a", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/8x", "fd00::/129"})
    EXPECT_EQ(AddressRange::parse(text).error().code, ErrorCode::kUsage) << text;
}

class Remote : public ServingTest {
 protected:
  using Handler = saccade::test::TestServer::Handler;

  // Another server that answers so; what is served may ask it as "pictures.test", and `more` beside.
  void fetch_from(Handler handler, std::vector<std::string> more = {}) {
    server_ = std::make_unique<saccade::test::TestServer>(std::move(handler));
    const std::string endpoint = server_->endpoint();
    port_ = endpoint.substr(endpoint.rfind(':') + 1);
    options_.hosts = {fmt::format("pictures.test:{}=127.0.0.0/8", port_)};
    for (const std::string& host : more) options_.hosts.push_back(fmt::format(fmt::runtime(host), port_));
    options_.resolve = [this](const std::string& host) -> Result<std::vector<std::string>> {
      const std::lock_guard lock(resolving_);
      ++resolved_[host];
      const auto found = names_.find(host);
      if (found == names_.end()) return fail(ErrorCode::kBadData, "no address is known of {}", host);
      return found->second;
    };
    open();
  }
  void open() {
    service_ = nullptr;
    auto opened = RemotePictures::open(options_, metrics_);
    ASSERT_TRUE(opened) << opened.error().message;
    remote_ = *std::move(opened);
    service_ = std::make_unique<Service>(ServiceOptions{}, *served_, keys_, pool_, metrics_, nullptr, nullptr,
                                         remote_.get());
  }
  [[nodiscard]] std::string at(const std::string& path, const std::string& host = "pictures.test") const {
    return fmt::format("http://{}:{}{}", host, port_, path);
  }
  static ServerReply picture(int seed) { return {.body = saccade::test::png(seed)}; }
  [[nodiscard]] HttpResponse embed(const Json& input, const Json& more = Json::object()) const {
    Json body = {{"input", input}};
    body.update(more);
    return post("/v1/embeddings", body.dump());
  }
  [[nodiscard]] HttpResponse embed_picture(const std::string& address) const {
    return embed(Json::array({{{"image", address}}}));
  }
  // Expects a refusal with that status and message, in OpenAI's form.
  void refused(const std::string& address, int status, const char* words) const {
    const HttpResponse response = embed_picture(address);
    EXPECT_EQ(response.status, status) << address << response.body;
    EXPECT_THAT(json_of(response)["error"]["message"].get<std::string>(), HasSubstr(words)) << address;
  }
  [[nodiscard]] int64_t counted(const std::string& event) const {
    const std::string text = metrics_.text({});
    const std::string line = "saccade_events_total{event=\"" + event + "\"} ";
    const size_t found = text.find(line);
    return found == std::string::npos ? 0 : std::stoll(text.substr(found + line.size()));
  }

  RemoteOptions options_;
  std::map<std::string, std::vector<std::string>> names_ = {{"pictures.test", {"127.0.0.1"}}};
  std::mutex resolving_;
  std::map<std::string, int> resolved_;  // how often
  std::string port_;
  std::unique_ptr<saccade::test::TestServer> server_;
  std::unique_ptr<RemotePictures> remote_;
};

TEST_F(Remote, EveryFormatThatCarriesAddressesHasThemFetched) {
  fetch_from([](const ServerRequest& request) { return picture(request.path == "/3.png?size=1" ? 3 : 2); });
  const std::string address = at("/3.png?size=1#part");
  const Json wanted = json_of(embed(Json::array({{{"image", data_address(3)}}})))["data"][0]["embedding"];
  const auto row = [&](const HttpResponse& response) {
    EXPECT_EQ(response.status, 200) << response.body;
    return json_of(response)["data"][0]["embedding"];
  };
  EXPECT_EQ(row(embed_picture(address)), wanted);                       // Jina
  EXPECT_EQ(row(embed({address}, {{"modality", "image"}})), wanted);    // infinity
  EXPECT_EQ(row(embed(address, {{"modality", "image"}})), wanted);      // the same, one
  EXPECT_EQ(row(embed({address}, {{"modality", {"image"}}})), wanted);  // NIM
  EXPECT_EQ(row(embed({{{"type", "image_url"}, {"image_url", {{"url", address}}}}})),
            wanted);  // OpenAI, vLLM
  EXPECT_EQ(row(embed({{{"type", "image_url"}, {"image_url", address}}})), wanted);
  // An address that is not marked as an image is a text.
  EXPECT_NE(row(embed({address})), wanted);
  EXPECT_NE(row(embed({address}, {{"modality", {"text"}}})), wanted);

  const Json own = json_of(post("/api/search", Json{{"image", data_address(3)}}.dump()));
  const Json found = json_of(post("/api/search", Json{{"image", address}}.dump()));
  ASSERT_THAT(found["hits"], SizeIs(6));
  EXPECT_EQ(found["hits"], own["hits"]);
  const Json back_end = json_of(post("/knn-service", Json{{"image_url", address}, {"num_images", 3}}.dump()));
  ASSERT_THAT(back_end, SizeIs(3));
  EXPECT_EQ(back_end[0]["id"], own["hits"][0]["id"]);
  // Jina, of documents and of a query.
  const Json ranked = json_of(post(
      "/v1/rerank",
      Json{{"query", {{"image", address}}},
           {"documents", {{{"image", data_address(2)}}, {{"image", address}}, {{"image", data_address(3)}}}}}
          .dump()));
  ASSERT_THAT(ranked["results"], SizeIs(3)) << ranked;
  EXPECT_EQ(ranked["results"][2]["index"], 0);
  for (const size_t same : {0, 1}) {
    EXPECT_NEAR(ranked["results"][same]["relevance_score"].get<double>(), 1, 1e-5);
  }
  for (const ServerRequest& request : server_->requests()) {
    EXPECT_EQ(request.path, "/3.png?size=1");
    EXPECT_EQ(request.header("host"), "pictures.test:" + port_);
    EXPECT_EQ(request.header("authorization"), "");
  }
  EXPECT_EQ(server_->requests().size(), 10);
  EXPECT_EQ(counted("image fetched"), 10);
  EXPECT_THAT(metrics_.text({}), HasSubstr("saccade_stage_seconds_count{stage=\"fetch\"} 10\n"));
}

TEST_F(Remote, AMatchingHeadRanksThemToo) {
  add_matching_model();
  fetch_from([](const ServerRequest&) { return picture(3); });
  const Json documents = {{{"image", data_address(2)}}, {{"image", at("/")}}, {{"image", data_address(3)}}};
  const HttpResponse response =
      post("/v1/rerank", Json{{"query", "a red bird"}, {"documents", documents}}.dump());
  EXPECT_EQ(header(response, "X-Saccade-Scored-By"), "pairs") << response.body;
  std::map<int, double> scores;
  const Json answer = json_of(response);
  for (const Json& result : answer["results"]) scores[result["index"]] = result["relevance_score"];
  ASSERT_THAT(scores, SizeIs(3)) << response.body;
  EXPECT_NEAR(scores[1], scores[2], 1e-6);
  EXPECT_GT(std::abs(scores[0] - scores[2]), 1e-5);
}

TEST_F(Remote, SeveralComeInTheirOrderSoManyAtATime) {
  options_.at_a_time = 2;
  fetch_from([](const ServerRequest& request) {
    ServerReply reply = picture(request.path[1] - '0');
    reply.wait_ms = request.path == "/0" ? 300 : 50;
    return reply;
  });
  Json remote = Json::array();
  Json brought = Json::array();
  for (int i = 0; i < 6; ++i) {
    remote.push_back({{"image", at(fmt::format("/{}", i))}});
    brought.push_back({{"image", data_address(i)}});
  }
  EXPECT_EQ(json_of(embed(remote))["data"], json_of(embed(brought))["data"]);
  EXPECT_EQ(server_->most_at_a_time(), 2);
}

TEST_F(Remote, ThoseOfASearchAreFetchedTogether) {
  fetch_from([](const ServerRequest& request) -> ServerReply {
    if (request.path == "/none") return {.status = 404};
    ServerReply reply = picture(request.path[1] - '0');
    reply.wait_ms = 300;
    return reply;
  });
  const auto search = [&](const auto& image) {
    Json more = Json::array();
    for (int i = 0; i < 5; ++i) more.push_back({{"image", image(i)}, {"weight", i + 1}});
    return post("/api/search", Json{{"image", image(5)}, {"images", more}}.dump());
  };
  const HttpResponse found = search([&](int i) { return at(fmt::format("/{}", i)); });
  EXPECT_EQ(found.status, 200) << found.body;
  EXPECT_GT(server_->most_at_a_time(), 1);
  const Json brought = json_of(search([&](int i) { return data_address(i); }));
  EXPECT_EQ(json_of(found)["hits"], brought["hits"]);
  // Each is named by its place.
  const auto refused_with = [&](const Json& body, int status, const char* words) {
    const HttpResponse response = post("/api/search", body.dump());
    EXPECT_EQ(response.status, status) << response.body;
    EXPECT_THAT(json_of(response)["error"]["message"].get<std::string>(), HasSubstr(words));
  };
  const Json list = {{{"image", at("/1")}}, {{"image", data_address(2)}}, {{"image", at("/none")}}};
  refused_with({{"images", list}}, 422, "\"images\": number 2: pictures.test answers with status 404");
  refused_with({{"image", at("/none")}, {"images", list}}, 422, "\"image\": pictures.test answers");
  // Nothing is fetched for a request that has an error of its own. Fetches of the requests before may still go on.
  refused_with({{"image", at("/7")}, {"images", Json::array({{{"image", "data:image/png;base64,?"}}})}}, 422,
               "\"images\": number 0");
  EXPECT_TRUE(std::ranges::none_of(server_->requests(),
                                   [](const ServerRequest& request) { return request.path == "/7"; }));
}

TEST_F(Remote, OnlyHostsThatWereNamedAreAsked) {
  fetch_from([](const ServerRequest&) { return picture(1); },
             {"*.below.test:{}=127.0.0.0/8", "[::1]:{}=::1"});
  names_["a.below.test"] = names_["below.test"] = names_["other.test"] = {"127.0.0.1"};
  EXPECT_EQ(embed_picture(at("/", "a.below.test")).status, 200);
  EXPECT_EQ(embed_picture(at("/", "PICTURES.test")).status, 200);
  const size_t asked = server_->requests().size();
  refused(at("/", "other.test"), 415, "none of the hosts");
  refused(at("/", "below.test"), 415, "none of the hosts");
  refused(at("/", "notbelow.test"), 415, "none of the hosts");
  refused(at("/", "pictures.test."), 415, "none of the hosts");
  refused(at("/", "127.0.0.1"), 415, "none of the hosts");
  refused("http://pictures.test/", 415, "none of the hosts");  // another port
  refused("http://pictures.test:1/", 415, "none of the hosts");
  refused(at("/", "other.test@pictures.test"), 415, "user or password");
  refused(at("/", "a:b@pictures.test"), 415, "user or password");
  refused("ftp://pictures.test/", 415, "by http and https alone");
  refused("file:///etc/passwd", 415, "by http and https alone");
  refused("http://", 422, "not a URL");
  refused("http://" + std::string(9000, 'a') + "/", 413, "at most 8192");
  // However its numbers are written, it is the same host, and none of those named.
  for (const char* host : {"2130706433", "0x7f.1", "0177.0.0.1", "[::ffff:127.0.0.1]", "[::1%25lo]"})
    refused(at("/", host), 415, "");
  EXPECT_EQ(server_->requests().size(), asked);
  EXPECT_EQ(resolved_.count("other.test"), 0);
  EXPECT_GT(counted("image fetch refused"), 10);
}

TEST_F(Remote, NamesThatLeadIntoTheNetworkAreNotAsked) {
  fetch_from([](const ServerRequest&) { return picture(1); }, {"public.test:{}", "lan.test:{}=10.0.0.0/8"});
  for (const std::vector<std::string>& addresses :
       std::vector<std::vector<std::string>>{{"127.0.0.1"},
                                             {"1.1.1.1", "127.0.0.1"},
                                             {"127.0.0.1", "1.1.1.1"},
                                             {"10.0.0.1"},
                                             {"169.254.169.254"},
                                             {"::1"},
                                             {"::ffff:127.0.0.1"},
                                             {"64:ff9b::127.0.0.1"},
                                             {"2606:4700::1111", "fd00::1"},
                                             {"fe80::1%lo"},
                                             {"what"}}) {
    names_["public.test"] = addresses;
    resolved_.clear();
    refused(at("/", "public.test"), 415, "public.test has an address that this server does not ask");
    EXPECT_EQ(resolved_["public.test"], 1);
  }
  names_["lan.test"] = {"127.0.0.1"};
  refused(at("/", "lan.test"), 415, "outside of the range");
  names_["lan.test"] = {"10.0.0.1", "1.1.1.1"};
  refused(at("/", "lan.test"), 415, "outside of the range");
  names_["lan.test"] = {};
  refused(at("/", "lan.test"), 422, "no address is known");
  EXPECT_THAT(server_->requests(), SizeIs(0));
}

// A name that stands for something else a moment later is not looked up again.
TEST_F(Remote, ItConnectsToTheAddressThatWasLookedAt) {
  fetch_from([](const ServerRequest&) { return picture(1); });
  options_.resolve = [this](const std::string& host) -> Result<std::vector<std::string>> {
    return std::vector<std::string>{resolved_[host]++ == 0 ? "127.0.0.1" : "10.0.0.1"};
  };
  open();
  EXPECT_EQ(embed_picture(at("/")).status, 200);
  EXPECT_EQ(resolved_["pictures.test"], 1);
  refused(at("/"), 415, "outside of the range");
  EXPECT_THAT(server_->requests(), SizeIs(1));
}

TEST_F(Remote, RedirectsAreFollowedWhereTheFirstAddressMightHaveLed) {
  fetch_from(
      [this](const ServerRequest& request) -> ServerReply {
        const auto to = [](const std::string& where) {
          return ServerReply{.status = 302, .headers = {{"Location", where}}};
        };
        if (request.path == "/picture") return picture(1);
        if (request.path == "/once") return to("picture");
        if (request.path == "/three") return to("/two");
        if (request.path == "/two") return to("/once");
        if (request.path == "/four") return to("/three");
        if (request.path == "/loop") return to("/loop");
        if (request.path == "/loopback") return to(at("/picture", "127.0.0.1"));
        if (request.path == "/inside") return to(at("/picture", "inside.test"));
        if (request.path == "/file") return to("file:///etc/passwd");
        if (request.path == "/user") return to(at("/picture", "a:b@pictures.test"));
        if (request.path == "/nowhere") return {.status = 301};
        return {.status = 404};
      },
      {"inside.test:{}"});
  names_["inside.test"] = {"127.0.0.1"};
  EXPECT_EQ(embed_picture(at("/once")).status, 200);
  EXPECT_EQ(embed_picture(at("/three")).status, 200);
  refused(at("/four"), 415, "more than 3 redirects");
  refused(at("/loop"), 415, "more than 3 redirects");
  const size_t asked = server_->requests().size();
  refused(at("/loopback"), 415, "none of the hosts");
  refused(at("/inside"), 415, "not public");
  refused(at("/file"), 415, "by http and https alone");
  refused(at("/user"), 415, "user or password");
  EXPECT_EQ(server_->requests().size(), asked + 4);  // each asked once, and none led anywhere
  refused(at("/nowhere"), 422, "redirects to nowhere");
}

TEST_F(Remote, WhatIsNoPictureOrTooMuchOrTooSlowIsRefused) {
  options_.most_bytes = 100'000;
  options_.seconds = 2;
  fetch_from([](const ServerRequest& request) -> ServerReply {
    if (request.path == "/page") return {.body = "<!doctype html><html>not found</html>"};
    if (request.path == "/empty") return {};
    if (request.path == "/endless")
      return {.body = std::string(1 << 20, 'a'), .no_length = true, .hold = true};
    if (request.path == "/large") return {.body = std::string(1 << 20, 'a')};
    if (request.path == "/silent") return {.body = "a", .no_length = true, .hold = true};
    if (request.path == "/late") return {.body = saccade::test::png(1), .wait_ms = 20'000};
    if (request.path == "/cut") return {.body = saccade::test::png(1), .cut_after = 20};
    if (request.path == "/gone") return {.no_answer = true};
    if (request.path == "/half") return {.status = 206, .body = saccade::test::png(1)};
    if (request.path == "/60000") return {.body = std::string(60'000, 'a')};
    return {.status = 500};
  });
  refused(at("/page"), 415, "input 0");
  refused(at("/empty"), 422, "sends nothing");
  refused(at("/endless"), 413, "more than 100000 bytes");
  refused(at("/large"), 413, "more than 100000 bytes");
  const auto start = std::chrono::steady_clock::now();
  refused(at("/silent"), 413, "within 2 s");
  refused(at("/late"), 413, "within 2 s");
  EXPECT_LT(seconds_since(start), 10);
  refused(at("/cut"), 422, "input 0");
  refused(at("/gone"), 422, "input 0");
  refused(at("/half"), 422, "status 206");
  refused(at("/other"), 422, "status 500");
  refused(at("/", "unknown.test"), 415, "none of the hosts");
  // Each alone is small enough; both together are not.
  const HttpResponse both = embed(Json::array({{{"image", at("/60000")}}, {{"image", at("/60000")}}}));
  EXPECT_EQ(both.status, 413) << both.body;
  EXPECT_THAT(both.body, HasSubstr("together"));
  EXPECT_GE(counted("image fetch failed"), 8);
  // In the other formats' shapes.
  const HttpResponse own = post("/api/search", Json{{"image", at("/empty")}}.dump());
  EXPECT_EQ(own.status, 422);
  EXPECT_THAT(json_of(own)["error"]["message"].get<std::string>(),
              HasSubstr("\"image\": pictures.test sends"));
  const HttpResponse knn = post("/knn-service", Json{{"image_url", at("/large")}}.dump());
  EXPECT_EQ(knn.status, 413);
  EXPECT_THAT(json_of(knn)["message"].get<std::string>(), HasSubstr("\"image_url\""));
}

// However many come while the first is waited for: no more of them is held than a request may have.
TEST_F(Remote, NoMoreIsTakenThanARequestMayHave) {
  options_.most_bytes = 100'000;
  options_.at_a_time = 2;
  fetch_from([](const ServerRequest& request) -> ServerReply {
    if (request.path == "/slow") return {.body = saccade::test::png(1), .wait_ms = 300};
    return {.body = std::string(60'000, 'a')};
  });
  Json inputs = Json::array({{{"image", at("/slow")}}});
  for (int i = 0; i < 12; ++i) inputs.push_back({{"image", at("/60000")}});
  const HttpResponse response = embed(inputs);
  EXPECT_EQ(response.status, 413) << response.body;
  EXPECT_THAT(response.body, HasSubstr("more than 100000 bytes together"));
  EXPECT_LE(server_->requests().size(), 4) << "the slow one, one that fits, and those on the way with it";
}

TEST_F(Remote, WhoHasGoneWaitsNoLongerAndOthersAreAnswered) {
  options_.at_a_time = 1;
  fetch_from([](const ServerRequest& request) -> ServerReply {
    if (request.path == "/late") return {.body = "a", .wait_ms = 20'000};
    return picture(1);
  });
  const auto begin = std::chrono::steady_clock::now();
  const Json pictures = {{{"image", at("/late")}}, {{"image", at("/late")}}};
  for (const auto& [path, body] : {std::pair{"/v1/embeddings", Json{{"input", pictures}}},
                                   std::pair{"/rerank", Json{{"query", "a"}, {"documents", pictures}}}}) {
    const auto start = std::chrono::steady_clock::now();
    HttpRequest request;
    request.method = "POST";
    request.path = path;
    request.body = body.dump();
    std::stop_source gone;
    request.stop = gone.get_token();
    const std::jthread leaves([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      gone.request_stop();
    });
    const HttpResponse response = ask(request);
    EXPECT_EQ(response.status, 503) << response.body;
    EXPECT_EQ(header(response, "Retry-After"), "1");
    EXPECT_TRUE(json_of(response)["error"]["message"].is_string()) << response.body;
    EXPECT_LT(seconds_since(start), 3);
  }
  EXPECT_EQ(embed_picture(at("/")).status, 200);
  EXPECT_LT(seconds_since(begin), 8);
}

// Proxy settings in the environment apply to model downloads only.
TEST_F(Remote, NoProxyIsAsked) {
  const saccade::test::TestServer proxy([](const ServerRequest&) { return picture(2); });
  const saccade::test::TestVariable lower("http_proxy", proxy.endpoint());
  const saccade::test::TestVariable upper("ALL_PROXY", proxy.endpoint());
  fetch_from([](const ServerRequest&) { return picture(1); });
  EXPECT_EQ(embed_picture(at("/")).status, 200);
  EXPECT_THAT(proxy.requests(), SizeIs(0));
  EXPECT_THAT(server_->requests(), SizeIs(1));
}

TEST_F(Remote, WithoutHostsNothingIsFetched) {
  refused("https://pictures.test/", 415, "addresses are not fetched");
  EXPECT_EQ(post("/knn-service", R"({"image_url": "https://pictures.test/"})").status, 415);
  EXPECT_EQ(post("/api/search", R"({"image": "https://pictures.test/"})").status, 415);
}

TEST_F(Remote, HostsThatAreNoneAreToldOf) {
  for (const char* host : {"",
                           "*",
                           "*.",
                           "https://a.test",
                           "a.test/",
                           "a.test:",
                           "a.test:0",
                           "a.test:70000",
                           "a.test:80:80",
                           "a b",
                           "a.test.",
                           ".a.test",
                           "[::1",
                           "[a]",
                           "a.test=",
                           "a.test=10.0.0.0/7",
                           "a.test=0.0.0.0/0",
                           "a.test=::/0",
                           "a.test=::ffff:0:0/96",
                           "a.test=::/64",
                           "a.test=b",
                           "a*.test"}) {
    options_.hosts = {host};
    const auto opened = RemotePictures::open(options_, metrics_);
    ASSERT_FALSE(opened) << host;
    EXPECT_EQ(opened.error().code, ErrorCode::kUsage) << host;
  }
}

}  // namespace
}  // namespace saccade::serve
