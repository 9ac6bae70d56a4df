// Tests of fetching tables of URLs from a server on this machine.
#include <filesystem>
#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/data/fetch/fetch_dataset.h"
#include "lab/data/fetch/shard_file.h"
#include "lab/data/read_dataset.h"
#include "saccade/core/files/files.h"
#include "saccade/core/test_folder.h"
#include "saccade/hub/test_server.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;
using saccade::test::ServerReply;
using saccade::test::ServerRequest;
using saccade::test::TestFolder;
using saccade::test::TestServer;
using testing::HasSubstr;

std::string png_of(const std::string& path) {
  return "\x89PNG\r\n\x1A\n" + std::string(20, 'x') + path;
}

class Fetching : public testing::Test {
 protected:
  void SetUp() override {
    options_.folder = folder_.path() / "out";
    options_.private_networks = true;
    options_.rows_per_shard = 2;
    options_.connections = 4;
    options_.retries = 1;
    options_.first_wait = 0.01;
  }
  // Writes a table of paths on the server, with captions "caption N".
  void table(const std::vector<std::string>& paths) {
    std::string text = "caption,url,license\n";
    for (size_t i = 0; i < paths.size(); ++i)
      text += fmt::format("caption {},{},CC{}\n", i, server_.endpoint() + paths[i], i);
    options_.tables = {folder_.write("table.csv", text)};
  }
  Result<FetchReport> fetch(const std::stop_token& stop = {}) { return fetch_dataset(options_, {}, stop); }
  // Returns the bytes of all shards and records.
  std::map<std::string, std::string> shards() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::directory_iterator(options_.folder)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("0")) files[name] = read_file(entry.path()).value();
    }
    return files;
  }
  std::string failures() const { return read_file(options_.folder / "failures.jsonl").value(); }

  TestFolder folder_;
  FetchOptions options_;
  std::map<std::string, int> asked_;
  std::function<ServerReply(const ServerRequest&)> answer_ = [](const ServerRequest& request) {
    return ServerReply{.body = png_of(request.path)};
  };
  TestServer server_{[this](const ServerRequest& request) {
    ++asked_[request.path];
    return answer_(request);
  }};
};

TEST_F(Fetching, ShardsAreReadBackAsADataset) {
  table({"/a", "/b", "/c"});
  options_.columns.kept = {"license"};
  const auto report = fetch();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->images, 3);
  EXPECT_EQ(report->shards, 2);
  EXPECT_EQ(report->failed, 0);
  const auto dataset = read_dataset(*parse_dataset_source(options_.folder.string()));
  ASSERT_TRUE(dataset) << dataset.error().message;
  EXPECT_EQ(dataset->layout, "webdataset");
  const auto* items = dataset->find<CaptionedImages>();
  ASSERT_NE(items, nullptr);
  ASSERT_EQ(items->items.size(), 3U);
  EXPECT_EQ(items->items[2].id, "00001/000000002");
  EXPECT_EQ(items->items[2].captions, std::vector<std::string>{"caption 2"});
  EXPECT_EQ(read_image_bytes(items->items[2].image).value(), png_of("/c"));
  EXPECT_THAT(shards().at("00000.tar"), HasSubstr("\"license\":\"CC1\""));
}

TEST_F(Fetching, FailuresAreListedAndRequestedAgain) {
  answer_ = [](const ServerRequest& request) -> ServerReply {
    if (request.path == "/missing") return {.status = 404};
    if (request.path == "/page") return {.body = "<html><body>no image here</body></html>"};
    if (request.path == "/large") return {.body = png_of(std::string(3000, 'l'))};
    if (request.path == "/slow") return {.body = png_of("/slow"), .wait_ms = 5000};
    return {.body = png_of(request.path)};
  };
  options_.max_bytes = 2000;
  options_.seconds = 1;
  options_.retries = 0;
  table({"/a", "/missing", "/page", "/large", "/slow", "/b"});
  const auto report = fetch();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->images, 2);
  EXPECT_EQ(report->failures, (std::map<std::string, int64_t>{
                                  {"not_an_image", 1}, {"status", 1}, {"timeout", 1}, {"too_large", 1}}));
  EXPECT_THAT(failures(), HasSubstr("\"status\":404"));

  // The repaired server gives the shards that it would have given at first.
  answer_ = [](const ServerRequest& request) { return ServerReply{.body = png_of(request.path)}; };
  options_.retry_failed = true;
  const auto again = fetch();
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->images, 6);
  EXPECT_EQ(again->fetched, 4);
  EXPECT_EQ(asked_["/a"], 1);
  EXPECT_EQ(failures(), "");
  const auto repaired = shards();
  options_.folder = folder_.path() / "fresh";
  ASSERT_TRUE(fetch());
  EXPECT_TRUE(shards() == repaired);
}

TEST_F(Fetching, AddressesThatAreNotPublicAreRefused) {
  options_.private_networks = false;
  options_.resolve = [](const std::string& host) -> Result<std::vector<std::string>> {
    return std::vector<std::string>{host == "both.test" ? "93.184.216.34" : host, "10.0.0.1"};
  };
  table({"/a"});
  options_.tables = {folder_.write("private.csv",
                                   "url,text\nhttp://both.test/1.png,x\nhttp://127.0.0.1/2.png,y\n"
                                   "ftp://both.test/3.png,z\nhttp://u:p@both.test/4.png,z\n")};
  const auto report = fetch();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->failures.at("refused"), 4);
  EXPECT_TRUE(asked_.empty());
}

TEST_F(Fetching, RedirectsAreFollowedWithinABound) {
  answer_ = [](const ServerRequest& request) -> ServerReply {
    if (request.path == "/moved") return {.status = 302, .headers = {{"Location", "/there"}}};
    if (request.path == "/loop") return {.status = 302, .headers = {{"Location", "/loop"}}};
    if (request.path == "/inside") {
      return {.status = 302, .headers = {{"Location", "http://inside.test/secret"}}};
    }
    return {.body = png_of(request.path)};
  };
  options_.redirects = 3;
  options_.resolve = [](const std::string& host) -> Result<std::vector<std::string>> {
    if (host == "inside.test") return fail(ErrorCode::kUnsupported, "inside");
    return std::vector<std::string>{host};
  };
  table({"/moved", "/loop", "/inside"});
  const auto report = fetch();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->images, 1);
  EXPECT_EQ(report->failures.at("refused"), 2);
  EXPECT_EQ(asked_["/loop"], 4);
  EXPECT_THAT(failures(), HasSubstr("redirected"));
}

TEST_F(Fetching, AStoppedRunGoesOnToTheSameBytes) {
  table({"/a", "/b", "/c", "/d", "/e"});
  ASSERT_TRUE(fetch());
  const auto whole = shards();
  asked_.clear();
  // As a kill leaves it: the second shard has no record, and a temporary file is left.
  fs::remove(options_.folder / "00001.json");
  folder_.write("out/00001.tar.tmp-1-1", "begun");
  const auto report = fetch();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->kept_shards, 2);
  EXPECT_EQ(asked_, (std::map<std::string, int>{{"/c", 1}, {"/d", 1}}));
  EXPECT_TRUE(shards() == whole);

  std::stop_source stop;
  stop.request_stop();
  fs::remove(options_.folder / "00000.json");
  const auto stopped = fetch(stop.get_token());
  ASSERT_TRUE(stopped) << stopped.error().message;
  EXPECT_TRUE(stopped->cancelled);
  ASSERT_TRUE(fetch());
  EXPECT_TRUE(shards() == whole);

  folder_.write("out/00002.tar", "changed");
  EXPECT_EQ(fetch().error().code, ErrorCode::kMismatch);
}

TEST_F(Fetching, PassingFailuresAreRetriedAndRatesHold) {
  answer_ = [this](const ServerRequest& request) -> ServerReply {
    if (request.path == "/busy" && asked_["/busy"] == 1) {
      return {.status = 429, .headers = {{"Retry-After", "1"}}};
    }
    return {.body = png_of(request.path)};
  };
  table({"/busy"});
  const auto busy = fetch();
  ASSERT_TRUE(busy) << busy.error().message;
  EXPECT_EQ(busy->images, 1);
  EXPECT_EQ(busy->requests, 2);
  EXPECT_GE(busy->seconds, 0.9);

  options_.folder = folder_.path() / "rate";
  options_.limits.rate = 10;
  table({"/1", "/2", "/3", "/4", "/5", "/6"});
  const auto slow = fetch();
  ASSERT_TRUE(slow) << slow.error().message;
  EXPECT_GE(slow->seconds, 0.45);
}

TEST_F(Fetching, WrongTablesAndFoldersAreTold) {
  table({"/a"});
  options_.columns.url = "link";
  EXPECT_THAT(fetch().error().message, HasSubstr("no column \"link\"; there are caption, url, license"));
  options_.columns.url = "";
  folder_.write("out/notes.txt", "mine");
  EXPECT_EQ(fetch().error().code, ErrorCode::kUsage);
  options_.folder = folder_.path() / "other";
  ASSERT_TRUE(fetch());
  table({"/a", "/b"});
  EXPECT_EQ(fetch().error().code, ErrorCode::kMismatch);
  options_.folder = folder_.path() / "json";
  options_.tables = {folder_.write(
      "table.jsonl", fmt::format("{{\"url\": \"{0}/a\", \"caption\": [\"x\", \"y\"]}}\n{{\"url\": null}}\n",
                                 server_.endpoint()))};
  const auto report = fetch();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->images, 1);
  EXPECT_EQ(report->failures.at("address"), 1);
}

}  // namespace
}  // namespace saccade::lab
