// Tests of image generation from the command line. The built program sends requests to a server in this
// process that speaks OpenAI's API. The images are measured, reported, trained on, and put into a document.
#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/base64.h"
#include "saccade/core/files/files.h"
#include "saccade/core/json.h"
#include "saccade/hub/test_server.h"

#include "run_program.h"

namespace saccade::test {
namespace {

using testing::HasSubstr;
using testing::Not;

// A server that draws by the names of colours: the card of the last colour in the prompt, as the dataset has
// it.
class EnginesCli : public ProgramTest {
 protected:
  EnginesCli() : server_([this](const ServerRequest& request) { return answer(request); }) {}

  void SetUp() override {
    ProgramTest::SetUp();
    make_collection();
    std::string lines;
    for (const char* name : {"black", "blue", "green", "red"}) {
      lines += fmt::format(R"({{"gallery_image": "pictures/{0}.png", "id": "{0}"}})", name) + "\n";
    }
    for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
             {"red", "green"}, {"red", "blue"}, {"blue", "green"}, {"green", "black"}}) {
      lines +=
          fmt::format(
              R"({{"id": "{0}-{1}", "reference": "{0}", "texts": ["in {1}"], "targets": ["{1}"], "kind": "{2}", "group": "card"}})",
              from, to, to == "black" ? "darker" : "colour") +
          "\n";
    }
    write("edits.jsonl", lines);
    write("story.md",
          "The cat sits under a tree.\n\nNobody is liable for anything.\n\nA boat on the river.\n");
  }

  ServerReply answer(const ServerRequest& request) {
    const bool edits = request.path == "/v1/images/edits";
    if (!edits && request.path != "/v1/images/generations") return {.status = 404, .body = "{}"};
    const std::string prompt =
        edits ? request.form().at("prompt") : (*parse_json(request.body))["prompt"].get<std::string>();
    if (prompt == refused_) return {.status = 400, .body = R"({"error": {"message": "not allowed here"}})"};
    std::string colour = "red";
    for (const char* name : {"black", "blue", "green"}) {
      if (prompt.find(name) != std::string::npos) colour = name;
    }
    const std::string png = read_file(folder_ / fmt::format("pictures/{}.png", colour)).value_or("");
    ServerReply reply{.body = dump_json({{"data", {{{"b64_json", encode_base64(png)}}}}})};
    if (prompt == slow_) reply.wait_ms = 60'000;
    return reply;
  }
  RunOptions with_key() const { return {.environment = {"SACCADE_ENGINE_KEY=sk-secret"}}; }
  std::vector<std::string> generate(std::vector<std::string> more = {}) const {
    std::vector<std::string> words = {"-q",
                                      "generate",
                                      "edits",
                                      "--dataset",
                                      "edits.jsonl",
                                      "--engine",
                                      "openai",
                                      "-o",
                                      "made",
                                      "--json",
                                      "--tries",
                                      "1",
                                      "--concurrency",
                                      "1",
                                      "--endpoint",
                                      server_.endpoint() + "/v1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  static Json json_of(const Outcome& outcome, int code = 0) {
    EXPECT_EQ(outcome.code, code) << outcome.err;
    return parse_json(outcome.out).value_or(Json());
  }
  std::string read(const std::string& name) const { return read_file(folder_ / name).value_or(""); }

  std::string refused_ = "never said";
  std::string slow_ = "never said";
  TestServer server_;
};

TEST_F(EnginesCli, EditsAreGeneratedMeasuredAndReported) {
  const Json made = json_of(run(generate(), with_key()));
  EXPECT_EQ(made["queries"], 4);
  EXPECT_EQ(made["made"], 4);
  EXPECT_EQ(made["failed"], 0);
  EXPECT_EQ(made["requests"], 4);
  const auto requests = server_.requests();
  ASSERT_EQ(requests.size(), 4U);
  for (const ServerRequest& request : requests) {
    EXPECT_EQ(request.header("authorization"), "Bearer sk-secret");
    EXPECT_THAT(request.form()["image"], HasSubstr("PNG"));
  }
  EXPECT_THAT(read("made/generated.jsonl"), Not(HasSubstr("secret")));
  // Existing images are not requested again.
  const Json again = json_of(run(generate(), with_key()));
  EXPECT_EQ(again["there"], 4);
  EXPECT_EQ(again["made"], 0);
  EXPECT_EQ(server_.requests().size(), 4U);

  // Each image equals its target.
  const Json measured =
      json_of(run({"-q", "eval", "edits", "-m", "model", "--dataset", "edits.jsonl", "--generated", "made",
                   "--note", "--html", "edits.html", "-o", "run", "--resamples", "50", "--json"}));
  for (const Json& result : measured["results"]) {
    const double r1 = result["figures"]["r1"]["value"].get<double>();
    EXPECT_TRUE(result["method"] != "generated" || r1 == 1) << result;
    EXPECT_TRUE(result["method"] != "reference" || r1 == 0) << result;
  }
  EXPECT_EQ(std::ranges::count(read("made/quality.jsonl"), '\n'), 4);
  EXPECT_THAT(read("edits.html"), HasSubstr("<b>in green</b> <span class=\"soft\">colour</span>"));

  const Outcome report = run({"-q", "report", "run", "--no-charts", "-o", "report.html"});
  ASSERT_EQ(report.code, 0) << report.err;
  const std::string page = read("report.html");
  EXPECT_THAT(page, HasSubstr("<a href=\"#edits\">Generated edits</a>"));
  EXPECT_THAT(page, HasSubstr("<section id=\"edits\"><h2>Generated edits</h2>"));
  EXPECT_THAT(page, HasSubstr("reference + text"));
  EXPECT_THAT(page, HasSubstr("generated images by kind of change"));
  EXPECT_THAT(page, HasSubstr("&quot;name&quot;:&quot;openai&quot;"));
}

#if defined(SACCADE_TRAINS)
TEST_F(EnginesCli, TrainingTakesPseudoTargetsThatAreGoodEnough) {
  // The engine does not know this colour word, and draws its red card.
  std::string manifest = read("edits.jsonl");
  const size_t at = manifest.find("in black");
  ASSERT_NE(at, std::string::npos);
  write("edits.jsonl", manifest.replace(at, 8, "darkened"));
  ASSERT_EQ(run(generate(), with_key()).code, 0);
  ASSERT_EQ(run({"-q", "eval", "edits", "-m", "model", "--dataset", "edits.jsonl", "--generated", "made",
                 "--note", "--resamples", "0"})
                .code,
            0);
  const auto train = [&](const std::string& folder, const std::vector<std::string>& more) {
    std::vector<std::string> words = {
        "-q",    "train",    "composed", "--dataset",        "edits.jsonl", "-m",
        "model", "--align",  "pseudo",   "--pseudo-targets", "made",        "--align-steps",
        "1",     "--method", "none",     "--batch-size",     "2",           "--json",
        "-o",    folder};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  };
  const Outcome all = train("all", {});
  ASSERT_EQ(all.code, 0) << all.err;
  EXPECT_EQ((*parse_json(read("all/run.json")))["datasets"][0]["pseudo_targets"],
            (Json{{"there", 4}, {"failed", 0}, {"absent", 0}, {"below", 0}}));
  const Outcome good = train("good", {"--min-cosine", "0.9999"});
  ASSERT_EQ(good.code, 0) << good.err;
  EXPECT_EQ((*parse_json(read("good/run.json")))["datasets"][0]["pseudo_targets"],
            (Json{{"there", 3}, {"failed", 0}, {"absent", 0}, {"below", 1}}));
  // Without quality figures there is nothing to filter by.
  std::filesystem::remove(folder_ / "made/quality.jsonl");
  expect_failure({"-q", "train", "composed", "--dataset", "edits.jsonl", "-m", "model", "--align", "pseudo",
                  "--pseudo-targets", "made", "--min-cosine", "0.5", "--method", "none", "-o", "none"},
                 1, {"quality.jsonl", "eval edits"});
}
#endif

TEST_F(EnginesCli, WhatFailsIsListedAndWhatStopsGoesOn) {
  refused_ = "in blue";
  const Json some = json_of(run(generate(), with_key()), 3);
  EXPECT_EQ(some["made"], 3);
  EXPECT_EQ(some["failed"], 1);
  EXPECT_THAT(some["failures"][0].get<std::string>(), HasSubstr("red-blue: "));
  EXPECT_THAT(read("made/generated.jsonl"), HasSubstr("not allowed here"));
  refused_ = "never said";

  // After Ctrl-C during a request, finished images stay, and only the others are requested.
  std::filesystem::remove_all(folder_ / "made");
  slow_ = "in black";
  const size_t before = server_.requests().size();
  RunOptions stopped = with_key();
  stopped.stop_when = [&](std::string_view) { return server_.requests().size() >= before + 4; };
  const Outcome cut = run(generate(), stopped);
  EXPECT_EQ(cut.code, 1) << cut.err;
  EXPECT_THAT(cut.err, HasSubstr("the same command goes on from there"));
  slow_ = "never said";
  const size_t asked = server_.requests().size();
  const Json rest = json_of(run(generate(), with_key()));
  EXPECT_EQ(rest["there"], 3);
  EXPECT_EQ(rest["made"], 1);
  EXPECT_EQ(server_.requests().size(), asked + 1);

  // If no server answers, the run ends at once.
  const Outcome nobody = run({"-q", "generate", "edits", "--dataset", "edits.jsonl", "--engine", "openai",
                              "-o", "other", "--endpoint", "http://127.0.0.1:1/v1", "--tries", "1"});
  EXPECT_EQ(nobody.code, 1);
  EXPECT_THAT(nobody.err, HasSubstr("nobody answers at http://127.0.0.1:1/v1"));
}

TEST_F(EnginesCli, SentencesWithoutAPictureAreIllustrated) {
  // No image matches the filter, so every visual sentence is without one.
  const std::vector<std::string> words = {"-q",
                                          "illustrate",
                                          "story.md",
                                          "-c",
                                          "c",
                                          "--filter",
                                          "width>100",
                                          "--engine",
                                          "openai",
                                          "--endpoint",
                                          server_.endpoint() + "/v1",
                                          "--tries",
                                          "1",
                                          "--concurrency",
                                          "1",
                                          "-o",
                                          "out.md",
                                          "--overwrite",
                                          "--json"};
  const Json json = json_of(run(words, with_key()));
  EXPECT_EQ(json["images"].size(), 0U);
  ASSERT_EQ(json["generated"].size(), 2U);  // none for the non-visual sentence
  const std::string written = read("out.md");
  for (const Json& one : json["generated"]) {
    EXPECT_TRUE(one["error"].is_null()) << one;
    const std::string link = one["link"].get<std::string>();
    EXPECT_THAT(written, HasSubstr(link));
    EXPECT_TRUE(std::filesystem::exists(folder_ / link)) << link;
    EXPECT_EQ(json["sentences"][one["sentence"].get<size_t>()]["outcome"], "nothing_likely");
  }
  EXPECT_THAT(written, HasSubstr("Generated picture (openai)"));
  EXPECT_THAT(written, HasSubstr("Nobody is liable for anything."));
  ASSERT_EQ(server_.requests().size(), 2U);
  EXPECT_EQ((*parse_json(server_.requests()[0].body))["prompt"], "The cat sits under a tree.");

  // Nothing is requested twice; a failure leaves its sentence unchanged.
  EXPECT_EQ(json_of(run(words, with_key()))["generated"].size(), 2U);
  EXPECT_EQ(server_.requests().size(), 2U);
  std::filesystem::remove_all(folder_ / "out-pictures");
  refused_ = "A boat on the river.";
  const Json some = json_of(run(words, with_key()), 3);
  EXPECT_THAT(some["generated"][1]["error"].get<std::string>(), HasSubstr("not allowed here"));
  EXPECT_TRUE(some["generated"][1]["link"].is_null());

  // No image is generated without the option, and our own editor generates none from text alone.
  const Json without = json_of(
      run({"-q", "illustrate", "story.md", "-c", "c", "--filter", "width>100", "-o", "plain.md", "--json"}));
  EXPECT_EQ(without["generated"].size(), 0U);
  expect_failure({"illustrate", "story.md", "-c", "c", "--engine", "own", "-o", "own.md"}, 2,
                 {"own not in {openai,automatic1111,comfyui}"});
}

}  // namespace
}  // namespace saccade::test
