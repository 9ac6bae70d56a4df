// Tests of image generation from texts: images are requested once and kept, and a failure affects one image
// only.
#include "saccade/imagegen/texts.h"

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

}  // namespace
}  // namespace saccade
