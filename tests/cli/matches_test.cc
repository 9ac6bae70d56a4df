// Tests of match probabilities from the command line: calibrated by index, shown by search, evaluated by eval
// matches.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/files.h"
#include "saccade/core/json.h"
#include "saccade/core/source_dir.h"

#include "outcome_json.h"
#include "run_program.h"

namespace saccade::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class MatchesCli : public ProgramTest {
 protected:
  // Draws plain shapes in plain colours, named accordingly: the starter's best-known kind of image.
  void draw_shapes() {
    const std::vector<std::pair<std::string, std::string>> colours = {
        {"red", "#d22"},    {"green", "#2a2"},  {"blue", "#22d"},  {"yellow", "#fd0"}, {"black", "#000"},
        {"orange", "#f80"}, {"purple", "#82a"}, {"brown", "#842"}, {"pink", "#f8b"},   {"grey", "#888"}};
    const std::vector<std::pair<std::string, std::string>> shapes = {
        {"circle", "<circle cx='32' cy='32' r='24' {}/>"},
        {"square", "<rect x='10' y='10' width='44' height='44' {}/>"},
        {"triangle", "<path d='M32 8 58 56H6z' {}/>"},
        {"heart", "<path d='M32 56C4 34 8 10 22 10c6 0 10 6 10 10 0-4 4-10 10-10 14 0 18 24-10 46z' {}/>"},
        {"star", "<path d='M32 4l8 20h21L44 37l7 21-19-13-19 13 7-21L3 24h21z' {}/>"},
        {"cross", "<path d='M24 6h16v18h18v16H40v18H24V40H6V24h18z' {}/>"},
        {"arrow right", "<path d='M4 24h30V8l26 24-26 24V40H4z' {}/>"},
        {"arrow up", "<path d='M24 60V30H8L32 4l24 26H40v30z' {}/>"},
        {"diamond", "<path d='M32 4 56 32 32 60 8 32z' {}/>"},
        {"plus", "<path d='M28 8h8v20h20v8H36v20h-8V36H8v-8h20z' {}/>"}};
    std::string manifest;
    for (const auto& [shape, drawing] : shapes) {
      for (const auto& [colour, code] : colours) {
        const std::string name = fmt::format("{}-{}.svg", colour, shape);
        std::string shown = drawing;
        shown.replace(shown.find("{}"), 2, fmt::format("fill='{}'", code));
        write("shapes/" + name,
              "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 64 64'>" + shown + "</svg>\n");
        write("shapes/" + name + ".txt", fmt::format("{} {}\n", colour, shape));
        manifest += fmt::format(R"({{"image": "shapes/{}", "captions": ["{} {}"], "group": "{}"}})", name,
                                colour, shape, name) +
                    "\n";
      }
    }
    write("shapes.jsonl", manifest);
    fs::copy(fs::path(kSourceDir) / "models/starter", folder_ / "starter");
  }
};

TEST_F(MatchesCli, ACollectionOfAFewPicturesCannotTell) {
  make_collection();
  const Json json = json_of(run({"search", "-c", "c", "red", "--json"}));
  EXPECT_EQ(json["matching"]["tells"], false);
  EXPECT_THAT(json["matching"]["reason"].get<std::string>(), HasSubstr("4 images are too few"));
  EXPECT_TRUE(json["matching"]["p_value"].is_null());
  EXPECT_TRUE(json["hits"][0]["match_probability"].is_null());
  EXPECT_THAT(run({"search", "-c", "c", "red"}).out,
              HasSubstr("match probabilities are unknown: 4 images are too few"));
  expect_failure({"search", "-c", "c", "red", "--min-probability", "0.9"}, 1,
                 {"match probabilities", "4 images are too few"});
  expect_failure({"search", "-c", "c", "red", "--min-probability", "1.5"}, 2, {"--min-probability", "1.5"});
  expect_failure({"search", "-c", "c", "red", "--min-probability", "x"}, 2, {"--min-probability"});
  expect_failure({"search", "-c", "c", "red", "--order", "size"}, 2, {"--order"});
}

TEST_F(MatchesCli, AnswersSayHowLikelyTheirHitsAre) {
  draw_shapes();
  const Outcome indexed = run({"index", "shapes", "-c", "c", "-m", "starter"});
  ASSERT_EQ(indexed.code, 0) << indexed.err;
  ASSERT_TRUE(fs::exists(folder_ / "c/background.safetensors"));
  const Json json = json_of(run({"search", "-c", "c", "red", "heart", "--json"}));
  const Json& matching = json["matching"];
  ASSERT_EQ(matching["tells"], true) << matching.dump();
  EXPECT_GT(matching["p_value"].get<double>(), 0);
  EXPECT_LE(matching["p_value"].get<double>(), 1);
  double best = 0;
  for (const Json& hit : json["hits"]) {
    const double right = hit["match_probability"]["right"];
    EXPECT_GT(right, 0);
    EXPECT_LT(right, 1);
    best = std::max(best, right);
  }
  EXPECT_DOUBLE_EQ(matching["best"].get<double>(), best);
  const std::string text = run({"search", "-c", "c", "red", "heart"}).out;
  EXPECT_EQ(json["hits"][0]["match"], "strong match") << "its caption is the query";
  EXPECT_GT(json["hits"][0]["match_probability"]["right"].get<double>(), 0.8);
  EXPECT_THAT(text, HasSubstr("  strong match  /"));
  EXPECT_THAT(text, HasSubstr("results also match by caption or file name"));
  EXPECT_THAT(text, Not(HasSubstr("%")));
  EXPECT_THAT(run({"search", "-c", "c", "red", "heart", "--explain"}).out,
              HasSubstr(fmt::format("  strong match {:.2f}  /",
                                    json["hits"][0]["match_probability"]["right"].get<double>())));
  EXPECT_THAT(run({"search", "-c", "c", "zeppelin"}).out,
              HasSubstr("weak match: unrelated searches often look this good here"));

  // A cut-off between two hits leaves the more probable one. Above all of them nothing matches, which is not
  // a failure and has its own exit code.
  const Json cut = json_of(
      run({"search", "-c", "c", "red", "heart", "--json", "--min-probability", fmt::format("{}", best)}));
  EXPECT_EQ(cut["hits"].size(), 1U);
  EXPECT_EQ(cut["matching"]["passed"], 1);
  // The best -k of the hits above the cut-off are shown, 10 without it, and their total is given.
  const Json lax =
      json_of(run({"search", "-c", "c", "red", "heart", "--json", "--min-probability", "0", "-k", "1000"}));
  EXPECT_GT(lax["hits"].size(), 10U);
  EXPECT_EQ(lax["matching"]["passed"], lax["hits"].size());
  const Json ten = json_of(run({"search", "-c", "c", "red", "heart", "--json", "--min-probability", "0"}));
  EXPECT_EQ(ten["hits"].size(), 10U);
  EXPECT_EQ(ten["query"]["k"], 10);
  EXPECT_EQ(ten["matching"]["passed"], lax["matching"]["passed"]);
  const Json two =
      json_of(run({"search", "-c", "c", "red", "heart", "--json", "--min-probability", "0", "-k", "2"}));
  EXPECT_EQ(two["hits"].size(), 2U);
  EXPECT_EQ(two["matching"]["passed"], lax["matching"]["passed"]);
  const auto cut_page = [this](const std::string& offset) {
    return run(
        {"search", "-c", "c", "red", "heart", "--min-probability", "0", "-k", "2", "--offset", offset});
  };
  EXPECT_THAT(cut_page("0").out, HasSubstr(", the best 2 are shown"));
  EXPECT_THAT(cut_page("2").out, HasSubstr(", ranks 3 to 4 are shown"));
  EXPECT_EQ(cut_page("2000").code, 4);
  EXPECT_THAT(cut_page("2000").err, HasSubstr("no more results"));
  const Outcome nothing =
      run({"search", "-c", "c", "zeppelin", "--min-probability", "0.9999", "--html", "page.html"});
  EXPECT_EQ(nothing.code, 4);
  EXPECT_EQ(nothing.out, "");
  EXPECT_THAT(nothing.err, HasSubstr("nothing matches: no image has a match probability of 1 or more"));
  const auto page = read_file(folder_ / "page.html");
  ASSERT_TRUE(page.has_value());
  EXPECT_THAT(*page, HasSubstr("Nothing matches: no image"));
  ASSERT_EQ(run({"search", "-c", "c", "red", "heart", "--html", "page.html"}).code, 0);
  EXPECT_THAT(read_file(folder_ / "page.html").value_or(""), HasSubstr("title=\"match probability 0."));

  // Tests sorting by date, and an image query. There is no calibration for both together.
  fs::last_write_time(folder_ / "shapes/pink-heart.svg",
                      fs::file_time_type::clock::now() + std::chrono::hours(1));
  ASSERT_EQ(run({"index", "shapes", "-c", "c", "-m", "starter"}).code, 0);
  const Json dated = json_of(run({"search", "-c", "c", "pink", "heart", "--json", "--order", "date"}));
  EXPECT_THAT(dated["hits"][0]["path"].get<std::string>(), testing::EndsWith("pink-heart.svg"));
  const Json picture = json_of(run({"search", "-c", "c", "--image", "shapes/red-heart.svg", "--json"}));
  EXPECT_GT(picture["matching"]["queries"].get<int64_t>(), 0);
  expect_failure({"search", "-c", "c", "--image", "shapes/red-heart.svg", "blue", "--min-probability", "0.5"},
                 1, {"text and an image together"});
  expect_failure({"search", "-c", "c", "red", "--rerank", "starter", "--min-probability", "0.5"}, 2,
                 {"re-ranking"});

  // Damaged calibration data are reported, change no hit, and are measured again by the next run.
  write("c/background.safetensors", "damaged");
  const Outcome damaged = run({"search", "-c", "c", "red", "heart", "--json"});
  EXPECT_EQ(damaged.code, 0);
  expect_one_line(damaged);
  EXPECT_THAT(damaged.err, HasSubstr("background.safetensors"));
  EXPECT_EQ(json_of(damaged)["hits"][0]["score"], json["hits"][0]["score"]);
  EXPECT_TRUE(json_of(damaged)["matching"].is_null());
  ASSERT_EQ(run({"index", "shapes", "-c", "c"}).code, 0);
  EXPECT_EQ(json_of(run({"search", "-c", "c", "red", "heart", "--json"}))["matching"], matching);
  EXPECT_EQ(run({"collection", "verify", "-c", "c"}).code, 0);
}

TEST_F(MatchesCli, EvalSaysWhetherPromisesComeTrue) {
  draw_shapes();
  const Outcome outcome = run({"eval", "matches", "--dataset", "shapes.jsonl", "-m", "starter", "-o", "run",
                               "--json", "--resamples", "100"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json json = json_of(outcome);
  const Json& result = json["results"][0];
  EXPECT_EQ(result["classes"], 100);
  const Json& figures = result["text"];
  EXPECT_EQ(figures["asked"], 50);
  EXPECT_EQ(figures["tells"].get<bool>(), !figures["calibration"].empty());
  for (const char* name : {"first_right", "found_auroc", "hit_auroc"}) {
    EXPECT_LE(figures[name]["low"].get<double>(), figures[name]["value"].get<double>()) << name;
    EXPECT_GE(figures[name]["high"].get<double>(), figures[name]["value"].get<double>()) << name;
  }
  // No image has the words of another's caption, so image queries have nothing to find.
  EXPECT_EQ(result["image"]["asked"], 0);
  EXPECT_TRUE(result["image"]["found_auroc"]["value"].is_null());
  EXPECT_THAT(run({"eval", "matches", "--dataset", "shapes.jsonl", "-m", "starter"}).out,
              HasSubstr("AUROC, an answer there against none"));
  ASSERT_EQ(run({"report", "run", "-o", "page.html", "--no-charts"}).code, 0);
  EXPECT_THAT(read_file(folder_ / "page.html").value_or(""), HasSubstr("<section id=\"matches\">"));

  // There are no calibration data, and no queries.
  std::string bare;
  for (const char* colour : {"red", "blue"})
    bare += fmt::format("{{\"image\": \"shapes/{}-heart.svg\"}}\n", colour);
  write("bare.jsonl", bare);
  expect_failure({"eval", "matches", "--dataset", "bare.jsonl", "-m", "starter"}, 2, {"bare", "no captions"});
  const std::string two = R"({"image": "shapes/red-heart.svg", "captions": ["red heart"]})";
  write("one.jsonl", two + "\n");
  const Outcome few = run({"eval", "matches", "--dataset", "one.jsonl", "-m", "starter", "--json"});
  EXPECT_EQ(few.code, 0) << few.err;
  EXPECT_EQ(json_of(few)["results"][0]["text"]["tells"], false);
}

}  // namespace
}  // namespace saccade::test
