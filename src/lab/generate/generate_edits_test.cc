// Tests of images for a dataset's queries: requests, stored and shared images, resuming, and messages if an
// engine fails, sends no image, or the disk is full.
#include "lab/generate/generate_edits.h"

#include <csignal>
#include <cstdlib>
#include <set>
#include <span>
#include <sys/resource.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/data/generated.h"
#include "lab/data/read_dataset.h"
#include "lab/editor/test_editor.h"
#include "lab/generate/own_engine.h"
#include "saccade/core/base64.h"
#include "saccade/core/files/files.h"
#include "saccade/core/test_environment.h"
#include "saccade/core/test_folder.h"
#include "saccade/hub/test_server.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;
using test::ServerReply;
using test::ServerRequest;
using test::TestServer;
using testing::ElementsAre;
using testing::HasSubstr;

std::string png_of(int width, int height, uint8_t level) {
  Image image{.width = width, .height = height, .channels = 3, .mode = PixelMode::kRgb, .pixels = {}};
  image.pixels.assign(static_cast<size_t>(width) * static_cast<size_t>(height) * 3, level);
  return *encode_png(image);
}

// Six queries over three images: q4 equals q1; q5 has no text; q6's reference is not an image.
class GenerateEdits : public testing::Test {
 protected:
  GenerateEdits() : server([this](const ServerRequest& request) { return answer(request); }) {
    folder.write("a.png", png_of(10, 10, 10));
    folder.write("b.png", png_of(10, 10, 200));
    folder.write("broken.png", "<html>");
    std::string manifest;
    for (const char* id : {"a", "b", "broken"}) {
      manifest +=
          fmt::format("{{\"gallery_image\": \"{0}.png\", \"id\": \"{0}\", \"gallery\": \"g\"}}\n", id);
    }
    const auto query = [&](const char* id, const char* reference, const char* text) {
      manifest += fmt::format(
          "{{\"id\": \"{}\", \"reference\": \"{}\", \"texts\": [\"{}\"], \"targets\": [\"b\"], \"gallery\": \"g\"}}\n",
          id, reference, text);
    };
    query("q1", "a", "in red");
    query("q2", "b", "in red");
    query("q3", "a", "in blue");
    query("q4", "a", "in red");
    query("q5", "a", " ");
    query("q6", "broken", "in red");
    const auto read = read_dataset(folder.write("edits.jsonl", manifest));
    EXPECT_TRUE(read) << read.error().message;
    dataset = *read;
    engine_options.kind = EngineKind::kAutomatic1111;
    engine_options.endpoint = server.endpoint();
    engine_options.retry.tries = 1;
    engine_options.width = engine_options.height = 16;
    options.folder = folder / "out";
  }
  ServerReply answer(const ServerRequest& request) {
    const auto json = parse_json(request.body);
    const std::string prompt = json_field<std::string>(*json, "prompt").value_or("");
    prompts.insert(prompt);
    if (instead) {
      if (auto other = instead(prompt)) return *other;
    }
    return {.body = dump_json({{"images", {encode_base64(png_of(16, 16, 77))}}})};
  }
  Result<GenerateEditsReport> run(const std::stop_token& stop = {}, const ProgressCallback& progress = {}) {
    const auto engine = open_engine(engine_options);
    EXPECT_TRUE(engine) << engine.error().message;
    return generate_edits(dataset, **engine, options, pool, progress, stop);
  }
  GeneratedEdits list() const {
    const auto read = read_generated_edits(options.folder);
    EXPECT_TRUE(read) << read.error().message;
    return *read;
  }

  const test::TestFolder folder;
  Dataset dataset;
  std::multiset<std::string> prompts;
  std::function<std::optional<ServerReply>(const std::string& prompt)> instead;
  TestServer server;
  ImageEngineOptions engine_options;
  GenerateEditsOptions options;
  ThreadPool pool{2};
};

TEST_F(GenerateEdits, EachQueryItsPictureAndNoneTwice) {
  const auto report = run();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->queries, 6);
  EXPECT_EQ(report->made, 3);
  EXPECT_EQ(report->shared, 1);
  EXPECT_EQ(report->failed, 2);
  EXPECT_EQ(report->untried, 0);
  EXPECT_EQ(report->requests, 3);
  EXPECT_EQ(report->ended, "");
  EXPECT_THAT(report->failures,
              ElementsAre(HasSubstr("q5: the text is empty"), HasSubstr("q6: the reference: ")));
  EXPECT_EQ(prompts.count("in red"), 2U);
  EXPECT_EQ(prompts.count("in blue"), 1U);
  const GeneratedEdits made = list();
  EXPECT_EQ(made.dataset_hash, dataset.hash);
  EXPECT_EQ(made.engine["name"], "automatic1111");
  EXPECT_EQ(made.engine["seed"], 1);
  EXPECT_EQ(made.edits[0].file, made.edits[3].file);
  EXPECT_NE(made.edits[0].file, made.edits[1].file);
  EXPECT_EQ(made.edits[0].width, 16);
  EXPECT_EQ(*read_file(options.folder / made.edits[0].file), png_of(16, 16, 77));
  const auto targets = read_pseudo_targets(options.folder, dataset);
  ASSERT_TRUE(targets) << targets.error().message;
  EXPECT_EQ(targets->there, 4);

  // The second run requests nothing.
  const auto again = run();
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->there, 4);
  EXPECT_EQ(again->made, 0);
  EXPECT_EQ(server.requests().size(), 3U);
  EXPECT_EQ(list().edits, made.edits);
  // A file that somebody wrote into is made again.
  ASSERT_TRUE(write_file_atomic(options.folder / made.edits[2].file, "no picture"));
  EXPECT_EQ(run()->made, 1);
  EXPECT_EQ(list().edits, made.edits);
}

TEST_F(GenerateEdits, WhatFailsIsListedAndTriedAgain) {
  instead = [](const std::string& prompt) -> std::optional<ServerReply> {
    if (prompt == "in blue") return ServerReply{.body = "<html>busy</html>"};
    return {};
  };
  const auto report = run();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->made, 2);
  EXPECT_EQ(report->failed, 3);
  EXPECT_THAT(list().edits[2].error, HasSubstr("a page of HTML"));
  instead = {};
  const auto again = run();
  EXPECT_EQ(again->made, 1);
  EXPECT_EQ(again->failed, 2);
  EXPECT_EQ(list().edits[2].error, "");
}

TEST_F(GenerateEdits, AnswersOfTheWrongKindAreNoPictures) {
  std::string body;
  instead = [&](const std::string&) {
    return ServerReply{.body = dump_json({{"images", {encode_base64(body)}}})};
  };
  const auto error = [&](std::string bytes) {
    body = std::move(bytes);
    EXPECT_TRUE(run());
    return list().edits[0].error;
  };
  EXPECT_THAT(error("<html></html>"), HasSubstr("no image was sent but a page of HTML"));
  EXPECT_THAT(error(png_of(8, 8, 0)), HasSubstr("8 x 8 was sent, 16 x 16 was asked for"));
  EXPECT_THAT(error(png_of(16, 16, 0).substr(0, 50)), HasSubstr("the image that was sent"));
  EXPECT_THAT(error(""), HasSubstr("an empty image"));
  options.max_pixels = 100;
  EXPECT_THAT(error(png_of(16, 16, 0)), HasSubstr("16 x 16 pixels"));
  EXPECT_TRUE(fs::is_empty(options.folder / "pictures"));
}

TEST_F(GenerateEdits, GivesUpWhereNothingComes) {
  instead = [](const std::string&) { return ServerReply{.status = 400, .body = "no"}; };
  options.give_up_after = 2;
  const auto report = run();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->requests, 2);
  EXPECT_EQ(report->untried, 2);
  EXPECT_THAT(report->ended, HasSubstr("2 images failed one after the other"));
  // A refused key ends the run at once, and marks nothing as failed.
  instead = [](const std::string&) { return ServerReply{.status = 401}; };
  const auto refused = run();
  EXPECT_EQ(refused->requests, 1);
  EXPECT_THAT(refused->ended, HasSubstr("the key is refused"));
  instead = {};
  engine_options.max_requests = 1;
  const auto bounded = run();
  EXPECT_EQ(bounded->made, 1);
  EXPECT_THAT(bounded->ended, HasSubstr("the bound of 1 requests"));
  engine_options.max_requests = 0;
  EXPECT_EQ(run()->made, 2);
}

TEST_F(GenerateEdits, StoppedItGoesOnFromThere) {
  std::stop_source stop;
  instead = [&](const std::string&) -> std::optional<ServerReply> {
    if (prompts.size() == 2) stop.request_stop();
    return {};
  };
  const auto report = run(stop.get_token());
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->cancelled);
  EXPECT_GE(report->made, 1);
  EXPECT_LE(report->made, 2);
  EXPECT_GE(report->untried, 1);
  const auto rest = run();
  EXPECT_EQ(rest->made + report->made, 3);
  EXPECT_EQ(rest->untried, 0);
}

TEST_F(GenerateEdits, AFullDiskEndsItAndLosesNothing) {
  ASSERT_TRUE(run());
  ASSERT_TRUE(fs::remove(options.folder / list().edits[1].file));
  const GeneratedEdits before = list();
  instead = [](const std::string&) {
    Image noise{.width = 16, .height = 16, .channels = 3, .mode = PixelMode::kRgb, .pixels = {}};
    for (int i = 0; i < 768; ++i) noise.pixels.push_back(static_cast<uint8_t>(i * i * 31 >> 3));
    return ServerReply{.body = dump_json({{"images", {encode_base64(*encode_png(noise))}}})};
  };
  struct rlimit limit {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small { 100, limit.rlim_max };
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto full = run();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, ErrorCode::kIo);
  EXPECT_EQ(list().edits, before.edits);  // the list of before
  EXPECT_TRUE(fs::exists(options.folder / before.edits[0].file));
  instead = {};
  const auto rest = run();
  ASSERT_TRUE(rest) << rest.error().message;
  EXPECT_EQ(rest->made, 1);
}

TEST_F(GenerateEdits, SeveralAtATime) {
  engine_options.calls_at_once = 3;
  instead = [](const std::string&) {
    return ServerReply{.body = dump_json({{"images", {encode_base64(png_of(16, 16, 1))}}}), .wait_ms = 300};
  };
  EXPECT_EQ(run()->made, 3);
  EXPECT_EQ(server.most_at_a_time(), 3);
}

TEST_F(GenerateEdits, AnotherListIsNotReplaced) {
  ASSERT_TRUE(run());
  engine_options.set["steps"] = 3;
  const auto other = run();
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::kMismatch);
  EXPECT_THAT(other.error().message, HasSubstr("\"set\""));
  EXPECT_THAT(other.error().message, HasSubstr("--replace-list"));
  options.replace_list = true;
  EXPECT_EQ(run()->made, 3);
  options.replace_list = false;
  dataset.hash = "another";
  EXPECT_THAT(run().error().message, HasSubstr("not for edits (hash another)"));
  dataset.as<EditQueries>().items.clear();
  EXPECT_EQ(run().error().code, ErrorCode::kUsage);

  folder.write("mine/letter.txt", "dear");
  options.folder = folder / "mine";
  dataset = *read_dataset(folder / "edits.jsonl");
  EXPECT_THAT(run().error().message, HasSubstr("holds other things (letter.txt)"));
  EXPECT_FALSE(fs::exists(folder / "mine/pictures"));
}

TEST_F(GenerateEdits, SomeOfThem) {
  options.limit = 2;
  const auto report = run();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->queries, 2);
  EXPECT_EQ(list().edits.size(), 2U);
  options.limit = 0;
  EXPECT_EQ(run()->queries, 6);  // the same list, longer
}

TEST_F(GenerateEdits, ByAnEditorOfOurOwn) {
  const fs::path editor = folder / "editor";
  fs::create_directories(editor);
  test::write_random_editor(editor, test::small_editor_config());
  OwnEngineOptions own;
  own.editor = editor;
  own.encoder.threads = 1;
  const auto engine = open_own_engine(own);
  ASSERT_TRUE(engine) << engine.error().message;
  const auto report = generate_edits(dataset, **engine, options, pool, {}, {});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->made, 3);
  EXPECT_EQ(report->failed, 2);
  EXPECT_EQ(list().edits[0].width, 16);
  EXPECT_EQ(list().engine["editor"].get<std::string>().size(), 64U);
  const std::string picture = *read_file(options.folder / list().edits[0].file);
  // The image is the same, whatever else is drawn in the batch.
  options.folder = folder / "other";
  std::erase_if(dataset.as<EditQueries>().items, [](const EditQuery& query) { return query.id != "q4"; });
  EXPECT_EQ(generate_edits(dataset, **engine, options, pool, {}, {})->made, 1);
  const auto pixels = [](const std::string& bytes) {
    return decode_image(std::as_bytes(std::span(bytes)))->image.pixels;
  };
  const std::vector<uint8_t> again = pixels(*read_file(options.folder / list().edits[0].file));
  const std::vector<uint8_t> before = pixels(picture);
  ASSERT_EQ(again.size(), before.size());
  for (size_t i = 0; i < again.size(); ++i) {
    EXPECT_LE(std::abs(again[i] - before[i]), 1);  // products of other shapes round otherwise
  }
  const PictureRequest alone{.text = "a bell", .reference = nullptr, .seed = 1};
  EXPECT_EQ((*engine)->make({&alone, 1}, {}).front().error().code, ErrorCode::kUnsupported);

  // If none is named, the editor beside the starter is used.
  own.editor.clear();
  {
    const test::TestVariable shipped("SACCADE_EDITOR", editor.string());
    const auto found = open_own_engine(own);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ((*found)->settings(), (*engine)->settings());
  }
  const test::TestVariable shipped("SACCADE_EDITOR", (folder / "nowhere").string());
  const auto none = open_own_engine(own);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("nowhere"));
}

}  // namespace
}  // namespace saccade::lab
