// Tests of `saccade dataset` as a user runs it.
#include <map>
#include <random>
#include <sstream>

#include <fmt/format.h>

#include "saccade/core/files/files.h"
#include "saccade/core/json.h"
#include "saccade/hub/test_server.h"

#include "run_program.h"

namespace saccade::test {
namespace {

class DatasetCommand : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    picture("images/1.png", 200, 30, 30);
    picture("images/2.png", 200, 30, 30);  // the same bytes
    write("captions.csv",
          "image,caption,split\n1.png,A red square .,train\n2.png,A red field .,test\n3.png,Gone "
          ".,test\n4.png,,test\n");
  }
};

TEST_F(DatasetCommand, TellsConvertsAndAudits) {
  const Outcome info = run({"dataset", "info", "captions.csv", "--json"});
  ASSERT_EQ(info.code, 0) << info.err;
  const Json told = parse_json(info.out).value();
  EXPECT_EQ(told["layout"], "table");
  EXPECT_EQ(told["items"], 3);
  EXPECT_EQ(told["splits"]["test"], 2);
  EXPECT_EQ(told["excluded"][1]["reason"], "images without captions");
  EXPECT_NE(run({"dataset", "info", "captions.csv"}).out.find("layout table, 3 images"), std::string::npos);

  const Outcome convert = run({"dataset", "convert", "captions.csv", "-o", "all.jsonl", "--json"});
  ASSERT_EQ(convert.code, 0) << convert.err;
  const Outcome again = run({"dataset", "info", "all.jsonl", "--json"});
  EXPECT_EQ(parse_json(again.out).value()["sha256"], told["sha256"]);

  const Outcome audit = run({"-q", "dataset", "audit", "all.jsonl", "--json"});
  EXPECT_EQ(audit.code, 3) << audit.err;  // 3.png is not there
  const Json found = parse_json(audit.out).value();
  EXPECT_EQ(found["missing"].size(), 1U);
  EXPECT_EQ(found["missing"][0]["reason"], "No such file or directory");
  EXPECT_EQ(found["same_images"].size(), 1U);
  EXPECT_EQ(found["leaks"][0]["same_images"][0], 1);
  EXPECT_TRUE(found["tokens"].is_null());
  const Outcome model = run({"-q", "dataset", "audit", "all.jsonl#missing=skip", "-m", "model"});
  EXPECT_EQ(model.code, 0) << model.err;
  EXPECT_NE(model.out.find("tokens       "), std::string::npos) << model.out;
}

TEST_F(DatasetCommand, AuditNeverCallsItsExamplesAll) {
  std::string lines;
  for (int image = 1; image <= 2; ++image) {
    std::string captions;
    for (int i = 0; i < 12; ++i) captions += fmt::format("{}\"caption {}\"", i == 0 ? "" : ",", i);
    lines += fmt::format("{{\"image\": \"images/{}.png\", \"captions\": [{}]}}\n", image, captions);
  }
  write("shared.jsonl", lines);
  const Outcome text = run({"-q", "dataset", "audit", "shared.jsonl"});
  EXPECT_NE(text.out.find("ambiguous    12 belong to several items\n"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("and more (--json has the first 10)\n"), std::string::npos) << text.out;
  EXPECT_EQ(text.out.find("lists all"), std::string::npos) << text.out;
  const Json json = parse_json(run({"-q", "dataset", "audit", "shared.jsonl", "--json"}).out).value();
  EXPECT_EQ(json["captions"]["ambiguous"], 12);
  EXPECT_EQ(json["captions"]["most_shared"].size(), 10U);
}

TEST_F(DatasetCommand, FetchesATableOfUrls) {
  const std::string image = read_file(folder_ / "images/1.png").value();
  TestServer server([&](const ServerRequest& request) {
    return request.path == "/1.png" ? ServerReply{.body = image} : ServerReply{.status = 404};
  });
  write("urls.tsv",
        "A red square .\t" + server.endpoint() + "/1.png\nGone .\t" + server.endpoint() + "/2.png\n");
  const std::vector<std::string> command = {"-q",     "dataset",   "fetch",     "urls.tsv",
                                            "-o",     "fetched",   "--columns", "caption,url",
                                            "--json", "--retries", "0",         "--allow-private-networks"};
  const Outcome fetched = run(command);
  EXPECT_EQ(fetched.code, 3) << fetched.err;
  const Json told = parse_json(fetched.out).value();
  EXPECT_EQ(told["images"], 1);
  EXPECT_EQ(told["failures"]["status"], 1);
  EXPECT_EQ(parse_json(run({"dataset", "info", "fetched", "--json"}).out).value()["items"], 1);
  const Outcome captions = run({"dataset", "captions", "fetched"});  // of members of a tar archive
  EXPECT_EQ(captions.code, 0);
  EXPECT_EQ(captions.out, "");
  EXPECT_NE(captions.err.find("left out 1 image inside archives"), std::string::npos) << captions.err;
  EXPECT_EQ(parse_json(run(command).out).value()["kept_shards"], 1);
  // Nothing on this machine is asked without permission.
  const Outcome refused =
      run({"-q", "dataset", "fetch", "urls.tsv", "-o", "refused", "--columns", "caption,url", "--json"});
  EXPECT_EQ(parse_json(refused.out).value()["failures"]["refused"], 2);
  expect_failure({"-q", "dataset", "fetch", "captions.csv", "-o", "none", "--url-column", "link"}, 2,
                 {"captions.csv", "\"link\"", "image, caption, split"});
  expect_failure({"-q", "dataset", "fetch", "captions.csv", "-o", "images"}, 2, {".png"});
}

TEST_F(DatasetCommand, AFetchThatIsKilledAgainAndAgainHasEachRowOnce) {
  constexpr int kRows = 60;
  const std::string image = read_file(folder_ / "images/1.png").value();
  TestServer server([&](const ServerRequest& request) -> ServerReply {
    const int row = std::stoi(request.path.substr(1));
    if (row % 7 == 3) return {.status = 404, .wait_ms = 5};
    if (row % 11 == 5) return {.body = image.substr(0, image.size() / 2), .wait_ms = 5};
    return {.body = image, .wait_ms = 5 + row % 5 * 10};
  });
  std::string table = "url,caption\n";
  for (int row = 0; row < kRows; ++row)
    table += fmt::format("{}/{},caption {}\n", server.endpoint(), row, row);
  write("urls.csv", table);
  const auto command = [](const std::string& folder) -> std::vector<std::string> {
    return {"-q", "dataset", "fetch",         "urls.csv", "-o",        folder, "--shard-size",
            "4",  "--json",  "--connections", "4",        "--retries", "0",    "--allow-private-networks"};
  };
  const Outcome whole = run(command("whole"));
  ASSERT_EQ(whole.code, 3) << whole.err;

  // Killed at random moments after a random number of requests.
  std::mt19937 random(20260117);
  const auto up_to = [&](int most) {
    return static_cast<size_t>(std::uniform_int_distribution(0, most)(random));
  };
  int kills = 0;
  for (int attempt = 0; attempt < 30; ++attempt) {
    const size_t requests = server.requests().size() + up_to(20);
    size_t looks = up_to(40);  // one every 2 ms
    RunOptions kill;
    kill.stop_signal = SIGKILL;
    kill.stop_when = [&](std::string_view) { return server.requests().size() >= requests && looks-- == 0; };
    const Outcome outcome = run(command("killed"), kill);
    if (outcome.code != 128 + SIGKILL) {
      ASSERT_EQ(outcome.code, 3) << outcome.err;
      break;
    }
    ++kills;
  }
  EXPECT_GE(kills, 2);
  const Outcome last = run(command("killed"));
  ASSERT_EQ(last.code, 3) << last.err;
  const auto told = parse_json(last.out);
  ASSERT_TRUE(told) << last.out;
  EXPECT_EQ((*told)["rows"], kRows);
  EXPECT_EQ((*told)["untried"], 0);

  // Each row is an image of a shard that can be read, or a failure, once.
  std::map<int, int> seen;
  ASSERT_EQ(run({"dataset", "convert", "killed", "-o", "killed.jsonl"}).code, 0);
  const std::string manifest = read_file(folder_ / "killed.jsonl").value();
  const std::string failures = read_file(folder_ / "killed/failures.jsonl").value();
  int images = 0;
  for (const std::string* text : {&manifest, &failures}) {
    std::istringstream lines(*text);
    for (std::string line; std::getline(lines, line);) {
      const auto json = parse_json(line);
      ASSERT_TRUE(json) << line;
      if (text == &failures) {
        ++seen[(*json)["row"].get<int>()];
      } else if (json->contains("captions")) {
        const auto id = (*json)["id"].get<std::string>();
        ++seen[std::stoi(id.substr(id.rfind('/') + 1))];
        ++images;
      }
    }
  }
  EXPECT_EQ(seen.size(), static_cast<size_t>(kRows));
  for (const auto& [row, times] : seen) EXPECT_EQ(times, 1) << row;
  EXPECT_EQ((*told)["images"], images);
  const Outcome audit = run({"-q", "dataset", "audit", "killed", "--json"});
  const auto audited = parse_json(audit.out);
  ASSERT_TRUE(audited) << audit.err;
  EXPECT_EQ((*audited)["images"], images);
  EXPECT_EQ((*audited)["missing"], Json::array());
  EXPECT_EQ((*audited)["unreadable"], Json::array());

  // The folder is that of a run that nobody killed, and nothing is left over.
  const auto files = [&](const std::string& folder) {
    std::map<std::string, std::string> content;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / folder)) {
      const std::string name = entry.path().filename().string();
      if (name != ".lock") content[name] = read_file(entry.path()).value();
    }
    return content;
  };
  const auto expected = files("whole");
  const auto found = files("killed");
  ASSERT_EQ(expected.size(), found.size());
  for (const auto& [name, content] : expected) {
    ASSERT_TRUE(found.contains(name)) << name;
    EXPECT_TRUE(found.at(name) == content) << name;
  }
}

TEST_F(DatasetCommand, LabelsWhatPeopleRated) {
  write("ratings.csv",
        "text,image,check,anna,ben,carla\nA red square.,images/1.png,,7,6,5\nIt is so.,,,1,2,3\n"
        "Perhaps.,,,1,6,4\nUnread.,,,1,,\nChoose 5.,,5,5,5,5\n");
  const Outcome labelled = run({"dataset", "label", "ratings.csv", "-o", "rated.jsonl", "--json"});
  ASSERT_EQ(labelled.code, 0) << labelled.err;
  const Json told = parse_json(labelled.out).value();
  EXPECT_EQ(told["output"], "rated.jsonl");
  EXPECT_EQ(told["visual"], 1);
  EXPECT_EQ(told["non_visual"], 1);
  EXPECT_EQ(told["ambiguous"], 1);
  EXPECT_EQ(told["too_few"], 1);
  EXPECT_TRUE(told["alpha"]["ordinal"].is_number());
  const Json info = parse_json(run({"dataset", "info", "rated.jsonl", "--json"}).out).value();
  EXPECT_EQ(info["rated_texts"]["visual"], 1);
  EXPECT_EQ(info["rated_texts"]["with_image"], 1);
  EXPECT_NE(run({"dataset", "label", "ratings.csv", "-o", "rated.jsonl"}).out.find("Krippendorff's alpha: "),
            std::string::npos);
  write("wrong.csv", "text,anna,ben\nA red square.,7,9\n");
  expect_failure({"dataset", "label", "wrong.csv", "-o", "none.jsonl"}, 1, {"wrong.csv", "line 2", "\"9\""});
  expect_failure({"dataset", "label", "ratings.csv", "-o", "none.jsonl", "--min-ratings", "4"}, 2,
                 {"no text with 4 ratings"});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "none.jsonl"));
}

// Training and evaluation read the written manifest. An unreadable document gives a line, and an exit code.
TEST_F(DatasetCommand, MakesRatedTextsOfDocuments) {
  const std::string pages = (golden("pdf") / "pages.pdf").string();
  const std::string encrypted = (golden("pdf") / "encrypted.pdf").string();
  write("documents/broken.pdf", "%PDF-1.4\nnot really");
  const std::vector<std::string> command = {
      "-q",     "dataset", "from-pdf", pages,      encrypted, "documents", "-m", "model", "-o",
      "corpus", "--top",   "25",       "--bottom", "50",      "--threads", "1",  "--json"};
  const Outcome made = run(command);
  ASSERT_EQ(made.code, 3) << made.err;
  const Json told = parse_json(made.out).value();
  EXPECT_EQ(told["documents"], 1);
  EXPECT_EQ(told["resumed"], 0);
  ASSERT_EQ(told["failed"].size(), 2U);
  EXPECT_NE(told["failed"][0]["path"].get<std::string>().find("encrypted.pdf"), std::string::npos);
  EXPECT_NE(told["failed"][1]["path"].get<std::string>().find("broken.pdf"), std::string::npos);
  EXPECT_GT(told["visual"], 0);
  EXPECT_GT(told["non_visual"], 0);
  const Json info = parse_json(run({"dataset", "info", "corpus/manifest.jsonl", "--json"}).out).value();
  EXPECT_EQ(info["rated_texts"]["visual"], told["visual"]);
  EXPECT_EQ(info["rated_texts"]["non_visual"], told["non_visual"]);
  EXPECT_EQ(info["rated_texts"]["with_image"], told["visual"]);
  const Outcome again = run(command);
  EXPECT_EQ(again.code, 3) << again.err;
  EXPECT_EQ(parse_json(again.out).value()["resumed"], 1);
  const Outcome scanned = run({"-q", "dataset", "from-pdf", (golden("pdf") / "scanned.pdf").string(), "-m",
                               "model", "-o", "scanned"});
  EXPECT_EQ(scanned.code, 1);
  EXPECT_NE(scanned.err.find("none of 1 document could be read"), std::string::npos) << scanned.err;
  expect_failure({"dataset", "from-pdf", "nothing.pdf", "-m", "model", "-o", "none"}, 1, {"nothing.pdf"});
  expect_failure({"dataset", "from-pdf", pages, "-m", "model", "-o", "images"}, 2, {"has other files"});
}

TEST_F(DatasetCommand, WhatItRefuses) {
  expect_failure({"dataset", "info", "captions.csv", "--split", "dev"}, 2, {"captions.csv", "\"dev\""});
  expect_failure({"dataset", "info", "captions.csv#colour=red"}, 2, {"captions.csv#colour=red", "colour"});
  expect_failure({"dataset", "info", "nothing.csv"}, 1, {"nothing.csv"});
  expect_failure({"dataset", "convert", "captions.csv"}, 2, {"--output"});
  const std::string before = read_file(folder_ / "captions.csv").value();
  expect_failure({"dataset", "convert", "captions.csv#split=test", "-o", "./captions.csv"}, 2,
                 {"what this command reads", "--overwrite"});
  EXPECT_EQ(read_file(folder_ / "captions.csv").value(), before);
  expect_failure({"dataset", "convert", "nothing.csv", "-o", "all.jsonl"}, 1, {"nothing.csv"});
  expect_failure({"dataset", "audit", "captions.csv", "-m", "nowhere"}, 1, {"nowhere"});
  write("cut.parquet", "PAR1");
  expect_failure({"dataset", "info", "cut.parquet"}, 1, {"cut.parquet"});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "all.jsonl"));
}

}  // namespace
}  // namespace saccade::test
