// Tests of remote engines against servers with their protocols: requests, replies, and errors for replies
// that are late, broken or missing.
#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/base64.h"
#include "saccade/core/test_folder.h"
#include "saccade/hub/test_server.h"
#include "saccade/imagegen/checked_answer.h"
#include "saccade/imagegen/http_engine.h"
#include "saccade/imagegen/image_engine.h"

namespace saccade {
namespace {

using test::ServerReply;
using test::ServerRequest;
using test::TestServer;
using testing::HasSubstr;
using testing::Not;

Image picture_of(int width, int height, uint8_t level) {
  Image image{.width = width, .height = height, .channels = 3, .mode = PixelMode::kRgb, .pixels = {}};
  image.pixels.assign(static_cast<size_t>(width) * static_cast<size_t>(height) * 3, level);
  return image;
}

std::string png_of(int width = 8, int height = 8, uint8_t level = 100) {
  return *encode_png(picture_of(width, height, level));
}

ImageEngineOptions options_for(EngineKind kind, const TestServer& server) {
  ImageEngineOptions options;
  options.kind = kind;
  options.endpoint = server.endpoint();
  options.retry.first_wait = std::chrono::milliseconds(1);
  options.retry.tries = 3;
  return options;
}

Result<std::string> ask(PictureEngine& engine, const Image* reference, const std::string& text = "in red",
                        const std::stop_token& stop = {}) {
  const PictureRequest request{.text = text, .reference = reference, .seed = 77};
  return engine.make({&request, 1}, stop).front();
}

ServerReply json_reply(const Json& json, int status = 200) {
  return {.status = status, .body = dump_json(json), .headers = {{"Content-Type", "application/json"}}};
}

TEST(OpenAiEngine, EditsByAFormAndReadsBase64) {
  TestServer server([](const ServerRequest&) {
    return json_reply({{"created", 1}, {"data", {{{"b64_json", encode_base64(png_of())}}}}});
  });
  ImageEngineOptions options = options_for(EngineKind::kOpenAi, server);
  options.key = "sk-1";
  options.model = "m";
  options.width = options.height = 32;
  options.prompt = "Change it: {text}.";
  options.set = {{"quality", "low"}, {"seed", 5}};
  const auto engine = open_engine(options);
  ASSERT_TRUE(engine) << engine.error().message;
  const Image reference = (*engine)->reference(picture_of(16, 8, 0));
  EXPECT_EQ(reference.width, 32);
  EXPECT_EQ(reference.height, 32);
  EXPECT_EQ(reference.pixels.front(), 255);  // a frame above and below
  const auto made = ask(**engine, &reference, "in \"red\"\r\n");
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(*made, png_of());
  ASSERT_EQ(server.requests().size(), 1U);
  const ServerRequest request = server.requests().front();
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.path, "/images/edits");
  EXPECT_EQ(request.header("authorization"), "Bearer sk-1");
  auto form = request.form();
  EXPECT_EQ(form["prompt"], "Change it: in \"red\"\r\n.");
  EXPECT_EQ(form["model"], "m");
  EXPECT_EQ(form["n"], "1");
  EXPECT_EQ(form["size"], "32x32");
  EXPECT_EQ(form["quality"], "low");
  EXPECT_EQ(form["seed"], "5");
  EXPECT_EQ(form["image filename"], "reference.png");
  EXPECT_EQ(form["image type"], "image/png");
  EXPECT_EQ(form["image"], *encode_png(reference));
  EXPECT_THAT(dump_json((*engine)->settings()), Not(HasSubstr("sk-1")));
}

TEST(OpenAiEngine, GeneratesByJsonAndFetchesAddresses) {
  std::string endpoint;
  TestServer elsewhere([](const ServerRequest&) { return ServerReply{.body = png_of(9, 9)}; });
  TestServer server([&](const ServerRequest&) {
    return json_reply({{"data", {{{"url", elsewhere.endpoint() + "/files/1.png?sig=x"}}}}});
  });
  ImageEngineOptions options = options_for(EngineKind::kOpenAi, server);
  options.key = "sk-1";
  const auto engine = open_engine(options);
  const auto made = ask(**engine, nullptr, "a bell");
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(*made, png_of(9, 9));
  EXPECT_EQ(server.requests().front().path, "/images/generations");
  EXPECT_EQ(*parse_json(server.requests().front().body), (Json{{"prompt", "a bell"}, {"n", 1}}));
  // The key is sent only to the engine.
  ASSERT_EQ(elsewhere.requests().size(), 1U);
  EXPECT_EQ(elsewhere.requests().front().header("authorization"), "");
  EXPECT_EQ(elsewhere.requests().front().path, "/files/1.png?sig=x");
}

TEST(OpenAiEngine, SaysWhatAnAnswerLacks) {
  ServerReply reply;
  TestServer server([&](const ServerRequest&) { return reply; });
  const auto engine = open_engine(options_for(EngineKind::kOpenAi, server));
  const auto error = [&](ServerReply next) {
    reply = std::move(next);
    const auto made = ask(**engine, nullptr);
    return made ? std::string("none") : made.error().message;
  };
  EXPECT_THAT(error({.body = "<!DOCTYPE html><html>Sign in</html>"}),
              HasSubstr("no JSON but a page of HTML"));
  EXPECT_THAT(error({.body = ""}), HasSubstr("no JSON but nothing"));
  EXPECT_THAT(error({.body = "[1]"}), HasSubstr("no image (\"data\")"));
  EXPECT_THAT(error(json_reply({{"data", Json::array()}})), HasSubstr("no image (\"data\")"));
  EXPECT_THAT(error(json_reply({{"data", {{{"b64_json", 5}}}}})), HasSubstr("\"b64_json\" is"));
  EXPECT_THAT(error(json_reply({{"data", {{{"b64_json", "a*b="}}}}})), HasSubstr("not base64"));
  EXPECT_THAT(error(json_reply({{"data", {{{"revised_prompt", "x"}}}}})),
              HasSubstr("neither \"b64_json\" nor"));
  EXPECT_THAT(error(json_reply({{"data", {{{"url", "file:///etc/passwd"}}}}})), Not("none"));
  EXPECT_THAT(error(json_reply({{"error", {{"message", "Your request was\nrejected"}}}}, 400)),
              HasSubstr("POST /images/generations: status 400: Your request was rejected"));
  EXPECT_THAT(error({.body = "{\"data\": [{\"b64_json\": \"aaaa", .cut_after = 10}), Not("none"));
  EXPECT_FALSE((*engine)->over());
}

TEST(Automatic1111Engine, SendsAndTakesBase64) {
  TestServer server([](const ServerRequest&) {
    return json_reply({{"images", {"data:image/png;base64," + encode_base64(png_of(24, 16)), "grid"}},
                       {"parameters", Json::object()},
                       {"info", "{}"}});
  });
  ImageEngineOptions options = options_for(EngineKind::kAutomatic1111, server);
  options.key = "user:word";
  options.model = "sd15";
  options.width = 24;
  options.height = 16;
  options.set = {{"steps", 12}, {"denoising_strength", 0.6}, {"negative_prompt", "blurry"}};
  const auto engine = open_engine(options);
  ASSERT_TRUE(engine) << engine.error().message;
  const Image reference = picture_of(24, 16, 40);
  const auto made = ask(**engine, &reference);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(*made, png_of(24, 16));
  const ServerRequest request = server.requests().front();
  EXPECT_EQ(request.path, "/sdapi/v1/img2img");
  EXPECT_EQ(request.header("authorization"), "Basic " + encode_base64("user:word"));
  EXPECT_EQ(request.header("content-type"), "application/json");
  EXPECT_EQ(*parse_json(request.body), (Json{{"prompt", "in red"},
                                             {"seed", 77},
                                             {"width", 24},
                                             {"height", 16},
                                             {"batch_size", 1},
                                             {"n_iter", 1},
                                             {"override_settings", {{"sd_model_checkpoint", "sd15"}}},
                                             {"denoising_strength", 0.6},
                                             {"negative_prompt", "blurry"},
                                             {"steps", 12},
                                             {"init_images", {encode_base64(*encode_png(reference))}}}));
  ASSERT_TRUE(ask(**engine, nullptr));
  EXPECT_EQ(server.requests().back().path, "/sdapi/v1/txt2img");
  EXPECT_FALSE(parse_json(server.requests().back().body)->contains("init_images"));
}

TEST(Automatic1111Engine, SaysWhatWentWrong) {
  ServerReply reply;
  TestServer server([&](const ServerRequest&) { return reply; });
  const auto engine = open_engine(options_for(EngineKind::kAutomatic1111, server));
  reply = json_reply({{"images", Json::array()}});
  EXPECT_THAT(ask(**engine, nullptr).error().message, HasSubstr("no image (\"images\")"));
  // Reply of its exception handler.
  reply = json_reply(
      {{"error", "HTTPException"}, {"detail", "Sampler not found"}, {"body", ""}, {"errors", ""}}, 422);
  EXPECT_THAT(ask(**engine, nullptr).error().message,
              HasSubstr("status 422: HTTPException: Sampler not found"));
}

// A ComfyUI whose job is done at the third poll.
class Comfy : public testing::Test {
 protected:
  Comfy() : server([this](const ServerRequest& request) { return answer(request); }) {
    folder.write("workflow.json", R"({
      "1": {"class_type": "LoadImage", "inputs": {"image": "%reference%"}},
      "2": {"class_type": "CLIPTextEncode", "inputs": {"text": "photo, %prompt%, %seed%"}},
      "3": {"class_type": "KSampler", "inputs": {"seed": "%seed%", "steps": 20, "of": ["2", 0]}},
      "4": {"class_type": "EmptyLatentImage", "inputs": {"width": "%width%", "height": "%height%"}}})");
    options = options_for(EngineKind::kComfyUi, server);
    options.workflow = folder / "workflow.json";
    options.width = 24;
    options.height = 16;
  }
  ServerReply answer(const ServerRequest& request) {
    if (instead) return *instead;
    if (request.path == "/upload/image") {
      return json_reply({{"name", "up.png"}, {"subfolder", "in"}, {"type", "input"}});
    }
    if (request.path == "/prompt") {
      return json_reply({{"prompt_id", "id-1"}, {"number", 1}, {"node_errors", node_errors}});
    }
    if (request.path == "/history/id-1") {
      if (++looks < 3) return json_reply(Json::object());
      return json_reply({{"id-1", history}});
    }
    if (request.path.starts_with("/view")) return {.body = png_of(24, 16)};
    if (request.path == "/queue" && silent_queue) return {.wait_ms = 60'000};
    return {.status = 404, .body = "none"};
  }
  std::string error() {
    looks = 0;
    const auto engine = open_engine(options);
    if (!engine) return engine.error().message;
    const Image reference = picture_of(24, 16, 3);
    const auto made = ask(**engine, &reference);
    return made ? "none" : made.error().message;
  }

  const test::TestFolder folder;
  std::optional<ServerReply> instead;
  Json node_errors = Json::object();
  Json history = {
      {"outputs",
       {{"8", {{"images", {{{"filename", "look.png"}, {"subfolder", ""}, {"type", "temp"}}}}}},
        {"9", {{"images", {{{"filename", "a b.png"}, {"subfolder", "s"}, {"type", "output"}}}}}}}},
      {"status", {{"status_str", "success"}, {"completed", true}, {"messages", Json::array()}}}};
  int looks = 0;
  bool silent_queue = false;
  TestServer server;
  ImageEngineOptions options;
};

TEST_F(Comfy, UploadsQueuesLooksAndFetches) {
  const auto engine = open_engine(options);
  ASSERT_TRUE(engine) << engine.error().message;
  const Image reference = picture_of(24, 16, 3);
  const auto made = ask(**engine, &reference, "in %seed% \"red\"");
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(*made, png_of(24, 16));
  const auto requests = server.requests();
  ASSERT_EQ(requests.size(), 6U);
  auto form = requests[0].form();
  EXPECT_EQ(form["image"], *encode_png(reference));
  EXPECT_THAT(form["image filename"], testing::MatchesRegex("saccade-[0-9a-f]{16}.png"));
  EXPECT_EQ(form["overwrite"], "true");
  const auto asked = parse_json(requests[1].body);
  EXPECT_EQ((*asked)["prompt"]["1"]["inputs"]["image"], "in/up.png");
  EXPECT_EQ((*asked)["prompt"]["2"]["inputs"]["text"], "photo, in %seed% \"red\", 77");
  EXPECT_EQ((*asked)["prompt"]["3"]["inputs"]["seed"], 77);
  EXPECT_EQ((*asked)["prompt"]["3"]["inputs"]["of"], (Json{"2", 0}));
  EXPECT_EQ((*asked)["prompt"]["4"]["inputs"]["width"], 24);
  EXPECT_EQ((*asked)["prompt"]["4"]["inputs"]["height"], 16);
  EXPECT_EQ(requests.back().path, "/view?filename=a%20b.png&subfolder=s&type=output");
  EXPECT_EQ((*engine)->requests(), 2);  // looking is not counted
}

TEST_F(Comfy, SaysWhatWentWrong) {
  node_errors = {{"3", {{"errors", {{{"message", "Value not in list"}}}}}}};
  EXPECT_THAT(error(), HasSubstr("the workflow is refused"));
  node_errors = Json::object();
  const Json good = history;
  history["status"] = {
      {"status_str", "error"},
      {"completed", false},
      {"messages",
       Json::array({Json::array({"execution_start", Json::object()}),
                    Json::array({"execution_error", Json{{"node_type", "KSampler"},
                                                         {"exception_message", "out of\nmemory"}}})})}};
  EXPECT_THAT(error(), HasSubstr("the workflow failed: KSampler: out of memory"));
  history = good;
  history["outputs"] = Json::object();
  EXPECT_THAT(error(), HasSubstr("the workflow made no image"));
  history = 5;
  EXPECT_THAT(error(), HasSubstr("the workflow made no image"));
  instead =
      json_reply({{"error", {{"type", "prompt_no_outputs"}, {"message", "Prompt has no outputs"}}}}, 400);
  EXPECT_THAT(error(), HasSubstr("status 400: Prompt has no outputs"));
  instead = ServerReply{.body = "<html>proxy</html>"};
  EXPECT_THAT(error(), HasSubstr("a page of HTML"));
}

TEST_F(Comfy, WhatIsNeverDoneIsGivenUpAndTakenBack) {
  options.silence = std::chrono::seconds(0);
  looks = -1000;
  const auto engine = open_engine(options);
  const Image reference = picture_of(24, 16, 3);
  EXPECT_THAT(ask(**engine, &reference).error().message, HasSubstr("not done after 0 seconds"));
  EXPECT_EQ(server.requests().back().path, "/queue");
  EXPECT_EQ(server.requests().back().body, R"({"delete":["id-1"]})");
}

// Ctrl-C must not wait for an engine that does not respond.
TEST_F(Comfy, TakingBackIsNotWaitedForLong) {
  options.silence = std::chrono::seconds(0);
  looks = -1000;
  silent_queue = true;
  const auto engine = open_engine(options);
  const Image reference = picture_of(24, 16, 3);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(ask(**engine, &reference).error().message, HasSubstr("not done after 0 seconds"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  EXPECT_EQ(std::ranges::count(server.requests(), "/queue", &ServerRequest::path), 1);
}

TEST_F(Comfy, WorkflowsAreChecked) {
  const auto with = [&](const std::string& text) {
    folder.write("workflow.json", text);
    return error();
  };
  EXPECT_THAT(with("[]"), HasSubstr("an array, not a workflow"));
  EXPECT_THAT(with("{"), HasSubstr("workflow.json"));
  EXPECT_THAT(with(R"({"nodes": [], "links": []})"), HasSubstr("Save (API format)"));
  EXPECT_THAT(with(R"({"1": {"inputs": {"text": "a"}}})"), HasSubstr("no %prompt%"));
  EXPECT_THAT(with(R"({"1": {"inputs": {"text": "%prompt%"}}})"),
              HasSubstr("no %reference%, and there is a reference"));
  options.workflow.clear();
  EXPECT_THAT(error(), HasSubstr("--workflow"));
}

TEST(EngineCaller, TriesAgainAsTheServerAsks) {
  int asked = 0;
  ServerReply refusal{.status = 503};
  TestServer server([&](const ServerRequest&) {
    if (++asked < 3) return refusal;
    return json_reply({{"images", {encode_base64(png_of())}}});
  });
  ImageEngineOptions options = options_for(EngineKind::kAutomatic1111, server);
  options.retry.first_wait = std::chrono::milliseconds(30);
  const auto took = [&] {
    asked = 0;
    const auto engine = open_engine(options);
    const auto start = std::chrono::steady_clock::now();
    const auto made = ask(**engine, nullptr);
    EXPECT_TRUE(made) << made.error().message;
    EXPECT_EQ(asked, 3);
    return std::chrono::steady_clock::now() - start;
  };
  EXPECT_GE(took(), std::chrono::milliseconds(90));  // 30, then 60
  refusal = {.status = 429, .headers = {{"Retry-After", "1"}}};
  EXPECT_GE(took(), std::chrono::milliseconds(1900));
  refusal = {.no_answer = true};
  took();
  // The requested wait is too long.
  refusal = {
      .status = 429, .body = "{\"error\": {\"message\": \"quota\"}}", .headers = {{"Retry-After", "99999"}}};
  asked = 0;
  const auto engine = open_engine(options);
  EXPECT_THAT(ask(**engine, nullptr).error().message, HasSubstr("status 429: quota"));
  EXPECT_EQ(asked, 1);
}

TEST(EngineCaller, ManyTriesKeepToTheLongestWait) {
  TestServer server([&](const ServerRequest&) { return ServerReply{.status = 503}; });
  ImageEngineOptions options = options_for(EngineKind::kAutomatic1111, server);
  options.retry = {
      .tries = 70, .first_wait = std::chrono::milliseconds(1), .longest_wait = std::chrono::milliseconds(1)};
  const auto engine = open_engine(options);
  EXPECT_THAT(ask(**engine, nullptr).error().message, HasSubstr("status 503"));
  EXPECT_EQ(server.requests().size(), 70U);
}

TEST(EngineCaller, KnowsWhenNothingMoreWillCome) {
  ServerReply reply{.status = 401, .body = "{\"detail\": \"Incorrect username or password\"}"};
  auto server = std::make_unique<TestServer>([&](const ServerRequest&) { return reply; });
  ImageEngineOptions options = options_for(EngineKind::kAutomatic1111, *server);
  options.key = "a:secret";
  {
    const auto engine = open_engine(options);
    const auto refused = ask(**engine, nullptr);
    EXPECT_THAT(refused.error().message, HasSubstr("the key is refused or missing (SACCADE_ENGINE_KEY)"));
    EXPECT_THAT(refused.error().message, HasSubstr("Incorrect username"));
    EXPECT_THAT(refused.error().message, Not(HasSubstr("secret")));
    EXPECT_TRUE((*engine)->over());
    EXPECT_FALSE(ask(**engine, nullptr));
    EXPECT_EQ(server->requests().size(), 1U);  // not asked again
  }
  reply = {.status = 404, .body = "{\"detail\": \"Not Found\"}"};
  {
    const auto engine = open_engine(options);
    EXPECT_THAT(ask(**engine, nullptr).error().message, HasSubstr("no such engine is there"));
    EXPECT_TRUE((*engine)->over());
  }
  server.reset();
  const auto engine = open_engine(options);
  EXPECT_THAT(ask(**engine, nullptr).error().message, HasSubstr("nobody answers at http://127.0.0.1:"));
  EXPECT_TRUE((*engine)->over());
}

TEST(EngineCaller, StaysWithinBounds) {
  TestServer server([](const ServerRequest&) { return json_reply({{"images", {encode_base64(png_of())}}}); });
  ImageEngineOptions options = options_for(EngineKind::kAutomatic1111, server);
  options.max_requests = 2;
  const auto engine = open_engine(options);
  EXPECT_TRUE(ask(**engine, nullptr));
  EXPECT_TRUE(ask(**engine, nullptr));
  EXPECT_THAT(ask(**engine, nullptr).error().message, HasSubstr("the bound of 2 requests is reached"));
  EXPECT_EQ(server.requests().size(), 2U);
  EXPECT_EQ((*engine)->requests(), 2);
  EXPECT_TRUE((*engine)->over());
  options.max_requests = 0;
  // The limit allows one exchange, but not another request.
  options.max_bytes = (*engine)->bytes() / 2 + 10;
  const auto other = open_engine(options);
  EXPECT_TRUE(ask(**other, nullptr));
  const auto more = ask(**other, nullptr);
  ASSERT_FALSE(more);
  EXPECT_THAT(more.error().message, HasSubstr("bytes is reached, there and back"));
  options.max_bytes = 0;
  options.max_answer = 50;
  const auto small = open_engine(options);
  EXPECT_THAT(ask(**small, nullptr).error().message, HasSubstr("more than 50 bytes"));
  EXPECT_FALSE((*small)->over());
}

TEST(EngineCaller, SlowAnswersAreGivenUpAndStopped) {
  TestServer server([](const ServerRequest&) {
    ServerReply reply = json_reply({{"images", {encode_base64(png_of())}}});
    reply.wait_ms = 20'000;
    return reply;
  });
  ImageEngineOptions options = options_for(EngineKind::kAutomatic1111, server);
  options.retry.tries = 1;
  options.silence = std::chrono::seconds(1);
  const auto engine = open_engine(options);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(ask(**engine, nullptr));
  std::stop_source stop;
  options.silence = std::chrono::seconds(60);
  const auto patient = open_engine(options);
  std::jthread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    stop.request_stop();
  });
  EXPECT_EQ(ask(**patient, nullptr, "a", stop.get_token()).error().code, ErrorCode::kCancelled);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST(Engines, OptionsThatDoNotFit) {
  const auto error = [](const ImageEngineOptions& options) {
    const auto engine = open_engine(options);
    return engine ? std::string("none") : engine.error().message;
  };
  ImageEngineOptions options;
  options.kind = EngineKind::kOpenAi;
  options.endpoint = "ftp://x";
  EXPECT_THAT(error(options), HasSubstr("ftp://x"));
  options.endpoint.clear();
  options.prompt = "no place";
  EXPECT_THAT(error(options), HasSubstr("has no {text}"));
  options.prompt = "{text}";
  options.width = 5;
  EXPECT_THAT(error(options), HasSubstr("a size of 5 x 0"));
  options.width = 0;
  options.key = "a\r\nX-Evil: 1";
  EXPECT_THAT(error(options), HasSubstr("control character"));
  options.key.clear();
  options.workflow = "w.json";
  EXPECT_THAT(error(options), HasSubstr("--workflow is for ComfyUI"));
}

TEST(Engines, KeysComeFromTheEnvironment) {
  std::map<std::string, std::string> values;
  const hub::Environment environment = [&](const char* name) -> const char* {
    const auto found = values.find(name);
    return found == values.end() ? nullptr : found->second.c_str();
  };
  values["OPENAI_API_KEY"] = "open";
  EXPECT_EQ(engine_key(EngineKind::kOpenAi, "", environment), "open");
  EXPECT_EQ(engine_key(EngineKind::kOpenAi, "http://127.0.0.1:8000/v1", environment), "");
  EXPECT_EQ(engine_key(EngineKind::kComfyUi, "", environment), "");
  values["SACCADE_ENGINE_KEY"] = "any";
  EXPECT_EQ(engine_key(EngineKind::kOpenAi, "http://127.0.0.1:8000/v1", environment), "any");
  EXPECT_EQ(engine_key(EngineKind::kOpenAi, "", environment), "any");
}

TEST(Engines, AnswersAreLookedAt) {
  const auto error = [](std::string_view bytes, const AnswerLimits& limits = {}) {
    const auto answer = look_at_answer(bytes, limits);
    return answer ? std::string("none") : answer.error().message;
  };
  const auto good = look_at_answer(png_of(8, 6), {.decode = {}, .width = 8, .height = 6});
  ASSERT_TRUE(good) << good.error().message;
  EXPECT_EQ(good->extension, "png");
  EXPECT_EQ(good->width, 8);
  EXPECT_EQ(look_at_answer(*encode_jpeg(picture_of(8, 8, 3)), {})->extension, "jpg");
  EXPECT_THAT(error(""), HasSubstr("nothing was sent"));
  EXPECT_THAT(error("<html><body>502"), HasSubstr("no image was sent but a page of HTML"));
  EXPECT_THAT(error("just words"), HasSubstr("no image was sent but just words"));
  EXPECT_THAT(error(png_of(8, 6), {.decode = {}, .width = 6, .height = 8}),
              HasSubstr("an image of 8 x 6 was sent, 6 x 8 was asked for"));
  EXPECT_THAT(error(png_of(64, 64), {.decode = {.max_pixels = 100}}), HasSubstr("64 x 64 pixels"));
  EXPECT_THAT(error(png_of(64, 64).substr(0, 60)), Not("none"));
  EXPECT_THAT(error(R"(<svg xmlns="http://www.w3.org/2000/svg" width="8" height="8"/>)"),
              HasSubstr("expected png, jpeg or webp"));
}

}  // namespace
}  // namespace saccade
