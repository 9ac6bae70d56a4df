// Decoding for requests whose clients leave, or that fail: it ends with them.
#include <chrono>
#include <stop_token>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/seconds_since.h"
#include "saccade/image/decode/hostile_pictures.h"
#include "saccade/image/decode/process/decoder_pool.h"
#include "saccade/serve/test_serving.h"

namespace saccade::serve {
namespace {

using testing::HasSubstr;
using testing::SizeIs;
using Clock = std::chrono::steady_clock;

class Decoding : public ServingTest {
 protected:
  void SetUp() override {
    ServingTest::SetUp();
    auto pool = DecoderPool::start({.program = SACCADE_DECODER, .processes = 2});
    ASSERT_TRUE(pool) << pool.error().message;
    decoders_ = *std::move(pool);
    ServiceOptions options;
    options.limits.processes = decoders_.get();
    options.encode_seconds = 2;
    make(options);
  }
  // The answer to a request for the embeddings of these images, whose client leaves.
  HttpResponse embed(const std::vector<std::string>& images, std::stop_token stop = {}) {
    Json input = Json::array();
    for (const std::string& image : images)
      input.push_back("data:image/svg+xml;base64," + encode_base64(image));
    HttpRequest request;
    request.method = "POST";
    request.path = "/v1/embeddings";
    request.body = Json{{"input", input}}.dump();
    request.stop = std::move(stop);
    return ask(request);
  }

  // Takes half a minute to draw.
  const std::string slow_ = saccade::test::svg_of_nested_groups(20);
  const std::string good_ = saccade::test::svg("<rect width='40' height='20' fill='red'/>");
  std::unique_ptr<DecoderPool> decoders_;
};

TEST_F(Decoding, EndsWhenTheClientLeaves) {
  std::stop_source client;
  const std::jthread leaves([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    client.request_stop();
  });
  const auto start = Clock::now();
  const HttpResponse response = embed(std::vector<std::string>(16, slow_), client.get_token());
  EXPECT_LT(seconds_since(start), 5);
  EXPECT_EQ(response.status, 503);
  // Nothing is left behind that others wait for.
  EXPECT_EQ(embed({good_}).status, 200);
  EXPECT_LT(seconds_since(start), 10);
}

TEST_F(Decoding, EndsAtTheFirstFailure) {
  std::vector<std::string> images(16, slow_);
  images[1] = "<svg";
  const auto start = Clock::now();
  const HttpResponse response = embed(images);
  EXPECT_LT(seconds_since(start), 5);
  EXPECT_EQ(response.status / 100, 4) << response.body;
  EXPECT_THAT(response.body, HasSubstr("input 1"));
}

TEST_F(Decoding, OthersWaitForADecoderOnlySoLong) {
  std::stop_source client;
  const std::jthread busy([&] { (void)embed({slow_, slow_}, client.get_token()); });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const auto start = Clock::now();
  const HttpResponse response = embed({good_});
  EXPECT_EQ(response.status, 503);
  EXPECT_THAT(response.body, HasSubstr("waited 2 seconds for a decoder"));
  EXPECT_GT(seconds_since(start), 1.9);
  EXPECT_LT(seconds_since(start), 8);
  client.request_stop();
}

TEST_F(Decoding, RerankingWaitsForADecoderOnlySoLong) {
  const std::string search = "/api/search?q=red&group_duplicates=false&rerank=starter";
  EXPECT_EQ(json_of(get(search))["rerank"]["reranked"], 6);
  std::stop_source client;
  const std::jthread busy([&] { (void)embed({slow_, slow_}, client.get_token()); });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const auto start = Clock::now();
  const HttpResponse response = get(search);
  EXPECT_LT(seconds_since(start), 5);
  client.request_stop();
  ASSERT_EQ(response.status, 200) << response.body;
  const Json json = json_of(response);
  ASSERT_THAT(json["hits"], SizeIs(6));
  EXPECT_EQ(json["rerank"]["reranked"], 0);
  EXPECT_EQ(json["rerank"]["unreadable"], 0);
  EXPECT_EQ(json["rerank"]["out_of_time"], 6);
  for (const Json& hit : json["hits"]) EXPECT_EQ(hit["rank"], hit["retrieval"]["rank"]);
}

}  // namespace
}  // namespace saccade::serve
