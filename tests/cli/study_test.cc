// Tests of `saccade eval study` as a user runs it: its figures are those of the single commands, and it goes on after a kill.
#include <filesystem>
#include <map>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/files.h"
#include "saccade/core/json.h"

#include "run_program.h"

namespace saccade::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class StudyCommand : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    std::string manifest;
    for (int i = 0; i < 6; ++i) {
      const std::string name = "images/" + std::to_string(i) + ".png";
      picture(name, 40 * i, 200 - 30 * i, 20 + 10 * i);
      manifest += R"({"image": ")" + name + R"(", "captions": [")" +
                  std::string(1, static_cast<char>('a' + i)) + R"( card", "one more ab"]})" + "\n";
    }
    write("set.jsonl", manifest);
    write(
        "pairs.jsonl",
        "{\"id\": \"a\", \"images\": [\"images/0.png\", \"images/1.png\"], \"captions\": [\"ab\", \"ba\"]}\n"
        "{\"id\": \"b\", \"images\": [\"images/2.png\", \"images/3.png\"], \"captions\": [\"cd\", \"dc\"]}\n");
    fs::copy(folder_ / "model", folder_ / "other");
    write("other/README.md", "another name");
  }
  // Adds the checkpoint "second": another activation, so another model.
  void make_second_model() const {
    fs::copy(folder_ / "model", folder_ / "second");
    for (const char* name : {"config.json", "model.safetensors"}) {
      fs::copy_file(golden("clip-quickgelu") / name, folder_ / "second" / name,
                    fs::copy_options::overwrite_existing);
    }
    fs::remove(folder_ / "second/io.safetensors");
  }
  Outcome study(std::vector<std::string> more, const RunOptions& options = {}) const {
    std::vector<std::string> arguments = {"-q",          "eval",        "study",     "-m",
                                          "model",       "--retrieval", "set.jsonl", "--composition",
                                          "pairs.jsonl", "--long",      "set.jsonl", "--resamples",
                                          "50",          "--threads",   "1",         "--speed-limit",
                                          "4",           "-o",          "study"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments, options);
  }
};

TEST_F(StudyCommand, FiguresAreThoseOfTheSingleCommandsAndAdviceReadsIt) {
  const Outcome plan = study({"--plan", "--json"});
  ASSERT_EQ(plan.code, 0) << plan.err;
  const Json planned = parse_json(plan.out).value();
  ASSERT_EQ(planned["pieces"].size(), 4U);
  EXPECT_GT(planned["pieces"][0]["seconds"].get<double>(), 0);
  EXPECT_EQ(planned["pieces"][0]["done"], false);
  EXPECT_FALSE(fs::exists(folder_ / "study/models"));

  const Outcome outcome = study({"--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json board = parse_json(outcome.out).value();
  ASSERT_EQ(board["rows"].size(), 1U);
  const Json& row = board["rows"][0];
  EXPECT_EQ(row["rank"], 1);
  EXPECT_EQ(row["model"], "model");
  EXPECT_EQ(row["scored_by"], "cosine");
  EXPECT_GT(row["benchmark"]["queries_per_s"].get<double>(), 0);
  EXPECT_EQ(row["benchmark"]["queries"], 4);
  EXPECT_EQ(row["benchmark"]["texts"], 8);
  EXPECT_EQ(row["lengths"].size(), 1U);
  EXPECT_TRUE(row["missing"].empty());

  const Outcome retrieval =
      run({"-q", "eval", "retrieval", "-m", "model", "--dataset", "set.jsonl", "--protocol", "seven-models",
           "--symmetric", "--resamples", "50", "--threads", "1", "--json"});
  ASSERT_EQ(retrieval.code, 0) << retrieval.err;
  const Json single = parse_json(retrieval.out).value();
  EXPECT_EQ(single["protocol"]["protocol"], "seven-models");
  EXPECT_EQ(single["results"][1]["t2i"]["queries"], 6);
  EXPECT_EQ(single["results"][1]["texts"], 12);
  EXPECT_EQ(row["retrieval"]["t2i"]["r1"], single["results"][1]["t2i"]["r1"]);
  EXPECT_EQ(row["retrieval"]["i2t"]["r5"], single["results"][1]["i2t"]["r5"]);
  EXPECT_EQ(row["gap"], single["results"][1]["gap"]);
  EXPECT_EQ(row["symmetric"]["i2t"], single["results"][1]["symmetric"]["gain"]["i2t"]["r1"]);
  const Outcome test = run({"-q", "eval", "winoground", "-m", "model", "--dataset", "pairs.jsonl",
                            "--resamples", "50", "--threads", "1", "--json"});
  EXPECT_EQ(row["composition"], parse_json(test.out).value()["results"][1]["scores"]);

  for (const char* file : {"leaderboard.html", "leaderboard.csv", "leaderboard.md", "leaderboard.json"}) {
    EXPECT_TRUE(fs::exists(folder_ / "study" / file)) << file;
  }
  EXPECT_THAT(read_file(folder_ / "study/leaderboard.html").value(),
              HasSubstr("<section id=\"leaderboard\">"));
  EXPECT_THAT(read_file(folder_ / "study/leaderboard.md").value(), HasSubstr("| group score |"));
  const Outcome advice = run({"eval", "advise", "study", "--composition", "--json"});
  ASSERT_EQ(advice.code, 0) << advice.err;
  EXPECT_EQ(parse_json(advice.out).value()["ranked_by"], "group score");
  const Outcome report = run({"report", "study", "--format", "csv"});
  ASSERT_EQ(report.code, 0) << report.err;
  EXPECT_THAT(report.out, HasSubstr("# leaderboard"));
}

// Returns the paths of all run.json below a folder; none where there is no such folder yet.
std::vector<fs::path> runs_below(const fs::path& folder) {
  std::vector<fs::path> runs;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().filename() == "run.json") runs.push_back(entry->path());
  }
  return runs;
}

TEST_F(StudyCommand, GroupsOfQueriesAreThoseOfRetrieval) {
  write("kinds.tsv", "a card\tfirst\nb card\tsecond\n");
  const auto grouped = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"-q",          "eval", "study",        "-m", "model",
                                          "--no-speed",  "--by", "length,color", "-o", "grouped",
                                          "--resamples", "50",   "--threads",    "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  };
  const Outcome outcome = grouped({"--retrieval", "set.jsonl", "--by-table", "kinds.tsv", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json board = parse_json(outcome.out).value();
  const Outcome retrieval = run({"-q", "eval", "retrieval", "-m", "model", "--dataset", "set.jsonl",
                                 "--protocol", "seven-models", "--by", "length,color", "--by-table",
                                 "kinds.tsv", "--resamples", "50", "--threads", "1", "--json"});
  ASSERT_EQ(retrieval.code, 0) << retrieval.err;
  const Json groups = parse_json(retrieval.out).value()["results"][1]["groups"];
  ASSERT_FALSE(groups.empty());
  EXPECT_EQ(board["parts"][0]["metrics"]["results"][1]["groups"], groups);
  EXPECT_THAT(read_file(folder_ / "grouped/leaderboard.html").value(),
              HasSubstr("text to image by kind of query"));

  const Outcome none = grouped({"--long", "set.jsonl"});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("name its dataset with --retrieval"));
  write("bad.tsv", "no group\n");
  const Outcome bad = grouped({"--retrieval", "set.jsonl", "--by-table", "bad.tsv"});
  EXPECT_EQ(bad.code, 1);
  EXPECT_THAT(bad.err, HasSubstr("--by-table: "));
}

TEST_F(StudyCommand, TextsOnlyReadsNoImages) {
  write("absent.jsonl",
        "{\"image\": \"none/0.png\", \"captions\": [\"a card\", \"one more ab\"]}\n"
        "{\"image\": \"none/1.png\", \"captions\": [\"b card\", \"one more ab\"]}\n");
  const auto texts_only = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"-q",    "eval",         "study", "-m",
                                          "model", "--texts-only", "-o",    "texts"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  };
  const Outcome outcome = texts_only(
      {"--long", "absent.jsonl", "--domain", "cards", "--resamples", "50", "--threads", "1", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json board = parse_json(outcome.out).value();
  ASSERT_EQ(board["rows"].size(), 1U);
  ASSERT_EQ(board["rows"][0]["lengths"].size(), 1U);
  EXPECT_EQ(board["rows"][0]["lengths"][0]["domain"], "cards");
  ASSERT_EQ(board["parts"].size(), 1U);
  EXPECT_EQ(board["parts"][0]["info"]["protocol"]["texts_only"], true);
  const Json& result = board["parts"][0]["metrics"]["results"][0];
  EXPECT_EQ(result["texts"], 4);
  EXPECT_EQ(result["images"], 3);  // different texts
  // Every whole text finds itself.
  EXPECT_EQ(result["t2i"]["curve"].back()["r1"]["value"], 1.0);
  EXPECT_THAT(read_file(folder_ / "texts/leaderboard.md").value(), HasSubstr("cards (absent)"));

  const Outcome mixed = texts_only({"--long", "absent.jsonl", "--retrieval", "set.jsonl"});
  EXPECT_EQ(mixed.code, 2);
  EXPECT_THAT(mixed.err, HasSubstr("--texts-only reads no images"));
  EXPECT_EQ(texts_only({}).code, 2);
}

TEST_F(StudyCommand, KilledTwiceItHasTheFiguresOfAnUninterruptedOne) {
  make_second_model();
  const auto measure = [&](const std::string& name, const RunOptions& options) {
    return run({"-q",
                "eval",
                "study",
                "-m",
                "model",
                "second",
                "--retrieval",
                "set.jsonl",
                "--composition",
                "pairs.jsonl",
                "--long",
                "set.jsonl",
                "--resamples",
                "50",
                "--threads",
                "1",
                "--no-speed",
                "--cache",
                name + "-cache",
                "-o",
                name,
                "--json"},
               options);
  };
  const Outcome whole = measure("whole", {});
  ASSERT_EQ(whole.code, 0) << whole.err;
  ASSERT_EQ(runs_below(folder_ / "whole").size(), 6U);

  for (const size_t finished : {size_t{1}, size_t{4}}) {
    RunOptions kill;
    kill.stop_signal = SIGKILL;
    kill.stop_when = [&](std::string_view) { return runs_below(folder_ / "killed").size() >= finished; };
    EXPECT_EQ(measure("killed", kill).code, 128 + SIGKILL);
    EXPECT_FALSE(fs::exists(folder_ / "killed/leaderboard.json"));
  }
  std::map<fs::path, fs::file_time_type> before;
  for (const fs::path& one : runs_below(folder_ / "killed")) before[one] = fs::last_write_time(one);
  ASSERT_GE(before.size(), 4U);
  ASSERT_LT(before.size(), 6U);
  const Outcome resumed = measure("killed", {});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  for (const auto& [path, time] : before) EXPECT_EQ(fs::last_write_time(path), time) << path;  // kept

  for (const char* file : {"leaderboard.csv", "leaderboard.md"}) {
    EXPECT_EQ(read_file(folder_ / "killed" / file).value(), read_file(folder_ / "whole" / file).value());
  }
  const Json expected = parse_json(whole.out).value();
  const Json board = parse_json(resumed.out).value();
  ASSERT_EQ(board["rows"].size(), 2U);
  EXPECT_EQ(board["rows"], expected["rows"]);
  EXPECT_EQ(board["notes"], expected["notes"]);
  ASSERT_EQ(board["parts"].size(), 3U);
  for (size_t p = 0; p < 3; ++p) EXPECT_EQ(board["parts"][p]["metrics"], expected["parts"][p]["metrics"]);
}

TEST_F(StudyCommand, GoesOnAfterAKillAndTakesMoreModels) {
  // It is killed once the retrieval of the first model has begun.
  RunOptions kill;
  kill.stop_signal = SIGKILL;
  kill.stop_when = [&](std::string_view) { return !runs_below(folder_ / "study").empty(); };
  const Outcome killed = study({"-m", "other"}, kill);
  EXPECT_EQ(killed.code, 128 + SIGKILL);
  ASSERT_TRUE(fs::exists(folder_ / "study/study.json"));
  EXPECT_FALSE(fs::exists(folder_ / "study/leaderboard.json"));
  const std::vector<fs::path> runs = runs_below(folder_ / "study/models");
  ASSERT_FALSE(runs.empty());
  const fs::path& first_run = runs.front();
  const auto written = fs::last_write_time(first_run);

  const Outcome outcome = study({"-m", "other", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(fs::last_write_time(first_run), written);  // not measured again
  const Json board = parse_json(outcome.out).value();
  ASSERT_EQ(board["rows"].size(), 1U);  // the same weights under another name are one model

  const Outcome other = study({"--protocol", "karpathy"});
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.err, HasSubstr("holds a study of other measurements"));
}

}  // namespace
}  // namespace saccade::test
