// Tests of `saccade eval` as a user runs it.
#include <filesystem>
#include <fstream>
#include <map>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/files.h"
#include "saccade/core/files/safetensors.h"
#include "saccade/core/json.h"

#include "run_program.h"

namespace saccade::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class EvalCommand : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    picture("images/1.png", 200, 30, 30);
    picture("images/2.png", 30, 200, 30);
    picture("images/3.png", 30, 30, 200);
    write("set.jsonl",
          "{\"image\": \"images/1.png\", \"id\": \"one\", \"captions\": [\"red\", \"a card\"], \"split\": "
          "\"test\"}\n"
          "{\"image\": \"images/2.png\", \"id\": \"two\", \"captions\": [\"green\", \"a card\"], \"split\": "
          "\"test\"}\n"
          "{\"image\": \"images/3.png\", \"id\": \"three\", \"captions\": [\"red\"], \"split\": \"test\"}\n");
  }
  Outcome retrieval(std::vector<std::string> more) const {
    std::vector<std::string> arguments = {"-q", "eval", "retrieval", "-m", "model", "--dataset", "set.jsonl"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  }
};

TEST_F(EvalCommand, RetrievalWritesARunAndGoesOnFromItsCache) {
  const Outcome first = retrieval({"--json", "-o", "run", "--resamples", "50"});
  ASSERT_EQ(first.code, 0) << first.err;
  const Json answer = parse_json(first.out).value();
  EXPECT_EQ(answer["protocol"]["captions"], "all");
  EXPECT_THAT(answer["protocol"]["description"].get<std::string>(), HasSubstr("50 resamples"));
  EXPECT_EQ(answer["datasets"][0]["name"], "set");
  EXPECT_EQ(answer["datasets"][0]["images_sha256"].get<std::string>().size(), 64U);
  EXPECT_EQ(answer["checkpoints"][0]["fingerprint"].get<std::string>().size(), 64U);
  ASSERT_EQ(answer["results"].size(), 2U);
  EXPECT_EQ(answer["results"][0]["model"], "chance");
  const Json& result = answer["results"][1];
  EXPECT_EQ(result["texts"], 5);
  EXPECT_EQ(result["texts_cut"], 0);
  EXPECT_EQ(result["t2i"]["queries"], 5);
  EXPECT_EQ(result["i2t"]["queries"], 3);
  EXPECT_TRUE(result["t2i"]["r1"]["value"].is_number());
  EXPECT_LE(result["t2i"]["r1"]["low"], result["t2i"]["r1"]["value"]);
  EXPECT_TRUE(result["t2i"]["r5"]["value"].is_null());  // of three images
  for (const char* file :
       {"run.json", "metrics.json", "items.jsonl", "ranks.jsonl", "embeddings/set--model.safetensors"}) {
    EXPECT_TRUE(fs::exists(folder_ / "run" / file)) << file;
  }
  EXPECT_TRUE(fs::exists(folder_ / "home/.cache/saccade/embeddings"));

  // Its own embeddings give the same figures.
  const Outcome given =
      run({"-q", "eval", "retrieval", "--embeddings", "run/embeddings/set--model.safetensors", "--dataset",
           "set.jsonl", "--resamples", "50", "--json"});
  ASSERT_EQ(given.code, 0) << given.err;
  const Json again = parse_json(given.out).value();
  EXPECT_EQ(again["results"][1]["t2i"], result["t2i"]);
  EXPECT_EQ(again["results"][1]["i2t"], result["i2t"]);

  // A changed image is detected, also if its embeddings are cached; so is another protocol.
  const std::string before = snapshot("run");
  const Outcome other = retrieval({"-o", "run", "--resamples", "50", "--captions", "dedup"});
  EXPECT_EQ(other.code, 1);
  expect_one_line(other);
  EXPECT_THAT(other.err, HasSubstr("captions: there \"all\", asked for \"dedup\""));
  picture("images/2.png", 1, 2, 3);
  const Outcome changed = retrieval({"-o", "run", "--resamples", "50"});
  EXPECT_EQ(changed.code, 1);
  EXPECT_THAT(changed.err, HasSubstr("images of dataset set have changed"));
  EXPECT_EQ(snapshot("run"), before);
  EXPECT_EQ(retrieval({"-o", "run", "--resamples", "50", "--overwrite"}).code, 0);
  EXPECT_NE(snapshot("run"), before);
}

TEST_F(EvalCommand, BoundsTheMemoryOfDecoding) {
  EXPECT_EQ(retrieval({"--decode-memory", "512", "--resamples", "0"}).code, 0);
}

TEST_F(EvalCommand, RetrievalTakesPoliciesAndSeveralModels) {
  fs::copy(folder_ / "model", folder_ / "other");
  const Outcome outcome =
      run({"-q", "eval", "retrieval", "-m", "model", "other", "--dataset", "set.jsonl",
           "set.jsonl#split=test", "--captions", "one-caption", "--ties", "trec", "--no-cache"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("set: 3 images, 3 texts"));
  EXPECT_THAT(outcome.out, HasSubstr("set-test: 3 images, 3 texts"));
  // With equal weights, no difference is significant.
  EXPECT_THAT(outcome.out,
              HasSubstr("model - other, text to image, R@1: +0.000 [+0.000, +0.000], p 1.000: cannot be "
                        "told apart"));
  EXPECT_THAT(outcome.out, HasSubstr("descending order of ids"));
  EXPECT_FALSE(fs::exists(folder_ / "home/.cache/saccade/embeddings"));
}

TEST_F(EvalCommand, RetrievalGroupsQueriesByKind) {
  write("kinds.tsv", "red\tcolors\na card\tthings\n");
  const Outcome outcome = retrieval(
      {"--by", "length,colour,split", "--by-table", "kinds.tsv", "--resamples", "50", "--json", "-o", "run"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json answer = parse_json(outcome.out).value();
  EXPECT_EQ(answer["protocol"]["by"], Json({"length", "color", "split"}));
  EXPECT_EQ(answer["protocol"]["by_table"], "kinds");
  EXPECT_FALSE(answer["results"][0].contains("groups"));
  const Json& groups = answer["results"][1]["groups"];
  std::map<std::string, int64_t> queries;
  for (const Json& group : groups) {
    queries[group["kind"].get<std::string>() + ": " + group["group"].get<std::string>()] = group["queries"];
    EXPECT_EQ(group["few"], true);
    EXPECT_LT(group["figures"]["r1"]["low"], group["figures"]["r1"]["high"]);
  }
  EXPECT_EQ(queries["color: color words"], 3);
  EXPECT_EQ(queries["color: no color words"], 2);
  EXPECT_EQ(queries["split: test"], 5);
  EXPECT_EQ(queries["kinds: colors"], 2);
  EXPECT_EQ(queries["kinds: things"], 2);
  EXPECT_EQ(queries["kinds: (not in the table)"], 1);
  const Outcome text = retrieval({"--by", "color", "--resamples", "50"});
  EXPECT_THAT(text.out, HasSubstr("text to image by kind of query"));
  EXPECT_THAT(text.out, HasSubstr("3 texts of 3 images, too few to compare"));
  const Outcome report = run({"report", "run", "--format", "csv"});
  ASSERT_EQ(report.code, 0) << report.err;
  EXPECT_THAT(report.out, HasSubstr("# kinds-set"));

  EXPECT_EQ(retrieval({"--by", "mood"}).code, 2);
  write("kinds.tsv", "Red\tcolors\n");
  EXPECT_THAT(retrieval({"--by-table", "kinds.tsv", "--resamples", "50"}).err,
              HasSubstr("set: no query is among the 1 caption of --by-table"));
  write("kinds.tsv", "red\n");
  const Outcome bad = retrieval({"--by-table", "kinds.tsv"});
  EXPECT_EQ(bad.code, 1);
  EXPECT_THAT(bad.err, HasSubstr("line 1"));
  const Outcome given =
      run({"-q", "eval", "retrieval", "--embeddings", "run/embeddings/set--model.safetensors", "--dataset",
           "set.jsonl", "--by", "length"});
  EXPECT_EQ(given.code, 2);
}

TEST_F(EvalCommand, RetrievalTakesTheSideOfLateInteraction) {
  const Outcome outcome =
      retrieval({"--late-from", "image", "--late-normalize", "--resamples", "50", "--json", "-o", "run"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto answer = parse_json(outcome.out);
  ASSERT_TRUE(answer) << outcome.out;
  EXPECT_EQ((*answer)["protocol"]["late"], Json({{"from", "image"}, {"normalize", true}}));
  const Outcome unused = retrieval({"--similarity", "dot"});
  EXPECT_EQ(unused.code, 2);
  EXPECT_THAT(unused.err, HasSubstr("--similarity requires --embeddings"));
  const Outcome side = retrieval({"--late-from", "patches"});
  EXPECT_EQ(side.code, 2);
  EXPECT_THAT(side.err, HasSubstr("--late-from"));
  const Outcome given =
      run({"-q", "eval", "retrieval", "--embeddings", "run/embeddings/set--model.safetensors", "--dataset",
           "set.jsonl", "--late-normalize"});
  EXPECT_EQ(given.code, 2);
}

TEST_F(EvalCommand, RetrievalComparesPrecisions) {
  const Outcome outcome = run({"-q", "eval", "retrieval", "-m", "model", "--dataset", "set.jsonl",
                               "--precision", "fp32", "int8", "--resamples", "50", "--no-cache"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              testing::ContainsRegex("model-fp32 - model-int8, text to image, R@1: [-+]0\\.[0-9]+ \\["));
  EXPECT_EQ(run({"eval", "retrieval", "-m", "model", "--dataset", "set.jsonl", "--precision", "int4"}).code,
            2);
}

TEST_F(EvalCommand, RetrievalNeverChangesADenominatorSilently) {
  // An image without captions, which a manifest may contain.
  write("alone.jsonl",
        "{\"image\": \"images/1.png\", \"captions\": [\"red\"]}\n{\"image\": \"images/2.png\"}\n");
  const Outcome alone = run({"-q", "eval", "retrieval", "-m", "model", "--dataset", "alone.jsonl"});
  EXPECT_EQ(alone.code, 1);
  expect_one_line(alone);
  EXPECT_THAT(alone.err, HasSubstr("images without a text: 1, the first: images/2.png"));
  const Outcome left =
      run({"-q", "eval", "retrieval", "-m", "model", "--dataset", "alone.jsonl", "--leave-out", "--json"});
  ASSERT_EQ(left.code, 0) << left.err;
  const Json answer = parse_json(left.out).value();
  EXPECT_EQ(answer["datasets"][0]["images"], 1);
  EXPECT_EQ(answer["datasets"][0]["excluded"][0]["reason"], "images without a text");
  EXPECT_EQ(answer["datasets"][0]["excluded"][0]["count"], 1);

  write("images/2.png", "no picture");
  const Outcome unreadable = retrieval({});
  EXPECT_EQ(unreadable.code, 1);
  expect_one_line(unreadable);
  EXPECT_THAT(unreadable.err, HasSubstr("1 of 3 images cannot be read, the first: "));
  EXPECT_THAT(unreadable.err, HasSubstr("images/2.png"));
  const Outcome rest = retrieval({"--leave-out"});
  ASSERT_EQ(rest.code, 3) << rest.err;
  EXPECT_THAT(rest.out, HasSubstr("left out: images that cannot be read: 1"));
  EXPECT_THAT(rest.out, HasSubstr("set: 2 images, 3 texts"));
}

TEST_F(EvalCommand, CtrlCKeepsWhatWasEncoded) {
  std::string manifest;
  for (int i = 0; i < 400; ++i) {
    const std::string name = fmt::format("many/{}.png", i);
    picture(name, i % 256, 3 * i % 256, i / 256 * 16);
    manifest += fmt::format("{{\"image\": \"{}\", \"captions\": [\"a\"]}}\n", name);
  }
  write("many.jsonl", manifest);
  const Outcome stopped =
      run({"eval", "retrieval", "-m", "model", "--dataset", "many.jsonl", "--batch-size", "1", "-o", "run"},
          {.terminal_errors = true, .stop_when = [](std::string_view errors) {
             return errors.find("encoding images") != std::string_view::npos;
           }});
  EXPECT_EQ(stopped.code, 1) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr("of 400 images; the same command goes on from there"));
  EXPECT_FALSE(fs::exists(folder_ / "run/run.json"));
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder_ / "home/.cache/saccade/embeddings")) {
    files += entry.path().extension() == ".safetensors" ? 1 : 0;
  }
  EXPECT_EQ(files, 1);
}

TEST_F(EvalCommand, RetrievalRefusesWhatMakesNoSense) {
  const auto refused = [&](const std::vector<std::string>& arguments, int code, const char* words) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, code) << outcome.err;
    expect_one_line(outcome);
    EXPECT_THAT(outcome.err, HasSubstr(words));
    EXPECT_EQ(outcome.out, "");
  };
  refused({"eval", "retrieval", "-m", "model"}, 2, "name a dataset with --dataset");
  refused({"eval", "retrieval", "-m", "model", "--dataset", "set.jsonl#split=dev"}, 2, "dev");
  const std::vector<float> scores = {1, 2, 3, 4};
  const std::vector<int64_t> text_image = {0, 1};
  const std::vector<NamedTensor> tensors = {
      {"scores", {DType::kF32, {2, 2}, std::as_bytes(std::span(scores))}},
      {"text_image", {DType::kI64, {2}, std::as_bytes(std::span(text_image))}}};
  ASSERT_TRUE(write_safetensors(folder_ / "s.safetensors", tensors));
  refused({"eval", "retrieval", "--scores", "s.safetensors", "--captions", "dedup"}, 2, "--dataset");
  refused({"eval", "retrieval", "--scores", "s.safetensors", "--dataset", "set.jsonl"}, 1,
          "2 images and 2 texts, the dataset 3 and 5");
  // Text 0 has scores 1, 2 with images 0 and 1; text 1 has 3, 4.
  const Outcome good = run({"-q", "eval", "retrieval", "--scores", "s.safetensors", "-o", "run", "--json"});
  ASSERT_EQ(good.code, 0) << good.err;
  const Json result = parse_json(good.out).value()["results"][1];
  EXPECT_EQ(result["t2i"]["r1"]["value"], 0.5);
  EXPECT_EQ(result["i2t"]["r1"]["value"], 0.5);
  EXPECT_EQ(result["t2i"]["mrr"]["value"], 0.75);
}

// An item with a missing image shared its other one with a later item, whose images are then numbered
// differently.
TEST_F(EvalCommand, WinogroundLeavesOutWhatOthersShare) {
  const std::string rest =
      "{\"id\": \"b\", \"images\": [\"images/2.png\", \"images/1.png\"], \"captions\": [\"green\", "
      "\"red\"]}\n"
      "{\"id\": \"c\", \"images\": [\"images/3.png\", \"images/1.png\"], \"captions\": [\"blue\", "
      "\"red\"]}\n";
  write("rest.jsonl", rest);
  write("all.jsonl",
        "{\"id\": \"a\", \"images\": [\"images/gone.png\", \"images/1.png\"], \"captions\": [\"a\", "
        "\"b\"]}\n" +
            rest);
  const auto pairs_of = [&](const char* dataset) {
    const std::string run_folder = fs::path(dataset).stem().string();
    const Outcome outcome = run({"-q", "eval", "winoground", "-m", "model", "--dataset", dataset,
                                 "--leave-out", "-o", run_folder, "--resamples", "0"});
    EXPECT_THAT(outcome.code, testing::AnyOf(0, 3)) << outcome.err;
    std::vector<Json> scores;
    std::ifstream lines(folder_ / run_folder / "pairs.jsonl");
    for (std::string line; std::getline(lines, line);) scores.push_back(parse_json(line).value()["scores"]);
    return scores;
  };
  const std::vector<Json> expected = pairs_of("rest.jsonl");
  ASSERT_EQ(expected.size(), 2U);
  EXPECT_EQ(pairs_of("all.jsonl"), expected);
}

// Folders with foreign files: a manifest with a run file's name, somebody's downloads and drafts, a lock.
TEST_F(EvalCommand, FoldersOfOthersAreRefusedAndStay) {
  write("mine/items.jsonl", "{\"image\": \"1.png\", \"captions\": [\"a manifest\"]}\n");
  write("mine/film.part", "half a download");
  write("mine/letter.tmp-3", "a draft");
  write("mine/lock", "of my locker");
  const std::string before = snapshot("mine");
  for (const bool overwrite : {false, true}) {
    std::vector<std::string> options = {"-o", "mine"};
    if (overwrite) options.emplace_back("--overwrite");
    const Outcome outcome = retrieval(options);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err, HasSubstr("mine: not a run of `saccade eval`, and not empty"));
    EXPECT_EQ(snapshot("mine"), before);
    EXPECT_EQ(read_file(folder_ / "mine/lock").value_or(""), "of my locker");
  }
  // A dataset that cannot be evaluated creates no folder.
  EXPECT_EQ(run({"-q", "eval", "retrieval", "-m", "model", "--dataset", "none.jsonl", "-o", "new"}).code, 1);
  EXPECT_EQ(run({"-q", "eval", "retrieval", "-m", "none", "--dataset", "set.jsonl", "-o", "new"}).code, 1);
  EXPECT_EQ(run({"-q", "eval", "winoground", "--scores", "none", "--dataset", "set.jsonl", "-o", "new"}).code,
            2);
  EXPECT_FALSE(fs::exists(folder_ / "new"));
}

TEST_F(EvalCommand, ACacheThatCannotBeUsedIsAWarning) {
  write("file", "x");
  const Outcome outcome = retrieval({"--cache", "file/below"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("warning: rows are not kept for the next time"));
  EXPECT_EQ(outcome.out, retrieval({"--no-cache"}).out);
}

TEST_F(EvalCommand, WinogroundJudgesPairs) {
  write("pairs.jsonl",
        "{\"id\": \"a\", \"kind\": \"object\", \"images\": [\"images/1.png\", \"images/2.png\"], "
        "\"captions\": [\"red\", \"green\"]}\n"
        "{\"id\": \"b\", \"kind\": \"relation\", \"images\": [\"images/1.png\", \"images/3.png\"], "
        "\"captions\": [\"red\", \"blue\"]}\n");
  // The first item is right, the second is tied and therefore wrong.
  const std::vector<float> scores = {2, 1, 0, 3, 1, 1, 1, 1};
  ASSERT_TRUE(write_safetensors(
      folder_ / "s.safetensors",
      std::vector<NamedTensor>{{"scores", {DType::kF32, {2, 2, 2}, std::as_bytes(std::span(scores))}}}));
  const Outcome given = run({"-q", "eval", "winoground", "--dataset", "pairs.jsonl", "--scores",
                             "s.safetensors", "-o", "run", "--json"});
  ASSERT_EQ(given.code, 0) << given.err;
  const Json answer = parse_json(given.out).value();
  ASSERT_EQ(answer["results"].size(), 6U);  // chance and the scores: all, and two kinds
  EXPECT_EQ(answer["results"][0]["scores"]["image"]["value"], 0.25);
  const Json& all = answer["results"][3];
  EXPECT_EQ(all["model"], "s");
  EXPECT_EQ(all["items"], 2);
  EXPECT_EQ(all["tied"], 1);
  EXPECT_EQ(all["scores"]["group"]["value"], 0.5);
  EXPECT_EQ(answer["results"][4]["kind"], "object");
  EXPECT_EQ(answer["results"][4]["scores"]["text"]["value"], 1);
  EXPECT_TRUE(fs::exists(folder_ / "run/pairs.jsonl"));

  const Outcome encoded =
      run({"-q", "eval", "winoground", "-m", "model", "--dataset", "pairs.jsonl", "-o", "run2"});
  ASSERT_EQ(encoded.code, 0) << encoded.err;
  EXPECT_THAT(encoded.out, HasSubstr("pairs: 2 items"));
  EXPECT_THAT(encoded.out, HasSubstr("A tie is wrong."));

  fs::remove(folder_ / "images/3.png");
  const Outcome gone = run({"-q", "eval", "winoground", "-m", "model", "--dataset", "pairs.jsonl"});
  EXPECT_EQ(gone.code, 1);
  expect_one_line(gone);
  EXPECT_THAT(gone.err, HasSubstr("images/3.png"));
  const Outcome left =
      run({"-q", "eval", "winoground", "-m", "model", "--dataset", "pairs.jsonl", "--leave-out"});
  ASSERT_EQ(left.code, 3) << left.err;
  EXPECT_THAT(left.out, HasSubstr("pairs: 1 item\n"));
  EXPECT_THAT(left.out, HasSubstr("left out: items with an image that cannot be read: 1"));
  const Outcome captions = run({"-q", "eval", "winoground", "-m", "model", "--dataset", "set.jsonl"});
  EXPECT_EQ(captions.code, 2);
  EXPECT_THAT(captions.err, HasSubstr("eval retrieval"));
}

}  // namespace
}  // namespace saccade::test
