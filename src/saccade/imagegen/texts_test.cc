// Tests of image generation from texts: images are requested once and kept, and a failure affects one image
// only.
#include "saccade/imagegen/texts.h"

#include <atomic>
#include <chrono>
#include <new>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/base64.h"
#include "saccade/core/files/files.h"
#include "saccade/core/test_folder.h"
#include "saccade/hub/test_server.h"

namespace saccade {
namespace {

using test::ServerReply;
using test::ServerRequest;
using test::TestServer;
using testing::HasSubstr;

TEST(TextPictures, AskedForOnceAndKept) {
  const test::TestFolder folder;
  Image image{.width = 16, .height = 16, .channels = 3, .mode = PixelMode::kRgb, .pixels = {}};
  image.pixels.assign(768, 9);
  const std::string png = *encode_png(image);
  bool broken = true;
  TestServer server([&](const ServerRequest& request) -> ServerReply {
    if (broken && request.body.find("a star") != std::string::npos) return {.body = "<html>"};
    return {.body = dump_json({{"data", {{{"b64_json", encode_base64(png)}}}}})};
  });
  ImageEngineOptions engine_options;
  engine_options.kind = EngineKind::kOpenAi;
  engine_options.endpoint = server.endpoint();
  engine_options.retry.tries = 1;
  const auto engine = open_engine(engine_options);
  ASSERT_TRUE(engine) << engine.error().message;
  TextPicturesOptions options;
  options.folder = folder / "page-pictures";
  const std::vector<std::string> texts = {"a bell", "a star", "a moon"};
  const auto make = [&] { return generate_text_pictures(texts, **engine, options, {}, {}); };
  const auto first = make();
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(*read_file((*first)[0].file), png);
  EXPECT_EQ((*first)[0].width, 16);
  EXPECT_TRUE((*first)[1].file.empty());
  EXPECT_THAT((*first)[1].error, HasSubstr("a page of HTML"));
  EXPECT_NE((*first)[0].file, (*first)[2].file);
  EXPECT_EQ(server.requests().size(), 3U);
  for (const ServerRequest& request : server.requests()) EXPECT_EQ(request.path, "/images/generations");
  broken = false;
  const auto second = make();
  ASSERT_TRUE(second);
  EXPECT_EQ(server.requests().size(), 4U);
  EXPECT_EQ((*second)[0].file, (*first)[0].file);
  EXPECT_FALSE((*second)[1].file.empty());
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(generate_text_pictures(texts, **engine, options, {}, stop.get_token()).error().code,
            ErrorCode::kCancelled);
  EXPECT_TRUE(generate_text_pictures({}, **engine, options, {}, {})->empty());
}

// An engine whose memory runs out on every thread but the first.
class ShortOfMemory : public PictureEngine {
 public:
  [[nodiscard]] Json settings() const override { return {{"name", "none"}}; }
  [[nodiscard]] int calls_at_once() const override { return 3; }
  [[nodiscard]] int vector_side() const override { return 16; }
  [[nodiscard]] Image reference(const ImageView& /*picture*/) const override { return {}; }
  [[nodiscard]] std::vector<Result<std::string>> make(std::span<const PictureRequest> /*requests*/,
                                                      const std::stop_token& /*stop*/) override {
    if (std::this_thread::get_id() != caller_) {
      threw_ = true;
      throw std::bad_alloc();
    }
    for (int i = 0; i < 1000 && !threw_; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::vector<Result<std::string>> made;
    made.emplace_back(fail(ErrorCode::kIo, "nothing is made"));
    return made;
  }

 private:
  const std::thread::id caller_ = std::this_thread::get_id();
  std::atomic<bool> threw_ = false;
};

TEST(TextPictures, WhatIsThrownOnOneOfTheThreadsComesToTheCaller) {
  const test::TestFolder folder;
  ShortOfMemory engine;
  TextPicturesOptions options;
  options.folder = folder / "page-pictures";
  const std::vector<std::string> texts = {"a bell", "a star", "a moon", "a sun"};
  EXPECT_THROW((void)generate_text_pictures(texts, engine, options, {}, {}), std::bad_alloc);
}

}  // namespace
}  // namespace saccade
