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
#include "lab/data/fetch/url_table.h"
#include "lab/data/read_dataset.h"
#include "saccade/core/files/files.h"
#include "saccade/core/source_dir.h"
#include "saccade/core/test_folder.h"
#include "saccade/hub/test_server.h"
#include "saccade/image/image_codec.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;
using saccade::test::ServerReply;
using saccade::test::ServerRequest;
using saccade::test::TestFolder;
using saccade::test::TestServer;
using testing::HasSubstr;

// Returns a PNG of pixels that compress poorly.
std::string noise_png(int side) {
  Image image{.width = side, .height = side, .channels = 3, .mode = PixelMode::kRgb, .pixels = {}};
  uint32_t state = 7;
  for (int i = 0; i < 3 * side * side; ++i) {
    state = state * 1664525 + 1013904223;
    image.pixels.push_back(static_cast<uint8_t>(state >> 24));
  }
  return encode_png(image).value();
}

// Returns a PNG with the path behind its end.
std::string png_of(const std::string& path) {
  static const std::string kSmall = noise_png(2);
  return kSmall + path;
}

fs::path golden(const std::string& name) {
  return fs::path(saccade::test::kSourceDir) / "tests/golden/parquet" / (name + ".parquet");
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

TEST_F(Fetching, RedirectsToAddressesThatAreNotPublicAreRefused) {
  const std::map<std::string, std::string> places = {{"/moved", "/there"},
                                                     {"/number", "http://10.1.2.3/secret"},
                                                     {"/local", "http://[::1]/secret"},
                                                     {"/name", "http://inside.test/secret"},
                                                     {"/one-of-two", "http://both.test/secret"}};
  answer_ = [&](const ServerRequest& request) -> ServerReply {
    const auto place = places.find(request.path);
    if (place == places.end()) return {.body = png_of(request.path)};
    return {.status = 302, .headers = {{"Location", place->second}}};
  };
  options_.private_networks = false;
  options_.is_public = [](const std::string& address) { return address == "127.0.0.1"; };
  options_.resolve = [](const std::string& host) -> Result<std::vector<std::string>> {
    if (host == "inside.test") return std::vector<std::string>{"169.254.169.254"};
    if (host == "both.test") return std::vector<std::string>{"127.0.0.1", "10.0.0.1"};
    return std::vector<std::string>{host};
  };
  table({"/moved", "/number", "/local", "/name", "/one-of-two"});
  const auto report = fetch();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->images, 1);
  EXPECT_EQ(report->failures, (std::map<std::string, int64_t>{{"refused", 4}}));
  EXPECT_THAT(failures(), HasSubstr("inside.test is not a public address: 169.254.169.254"));
  EXPECT_EQ(asked_.count("/secret"), 0U);
}

TEST_F(Fetching, SlowAndBrokenServersFailTheirOwnRowsAlone) {
  const std::string image = noise_png(64);
  answer_ = [&](const ServerRequest& request) -> ServerReply {
    if (request.path == "/stalled") return {.body = image, .cut_after = 10, .hold = true};
    if (request.path == "/short") return {.body = image, .cut_after = 10};
    if (request.path == "/closed") return {.no_answer = true};
    if (request.path == "/busy") return {.status = 429, .headers = {{"Retry-After", "3600"}}};
    if (request.path == "/half") {
      return {.body = image, .no_length = true, .cut_after = std::ssize(image) / 2};
    }
    // More bytes than announced: those beyond are not read.
    if (request.path == "/less") {
      return {.body = image, .headers = {{"Content-Length", "100"}}, .no_length = true};
    }
    if (request.path == "/more") {
      const std::string length = std::to_string(image.size());
      return {.body = image + "more", .headers = {{"Content-Length", length}}, .no_length = true};
    }
    return {.body = png_of(request.path)};
  };
  options_.seconds = 1;
  table({"/stalled", "/short", "/closed", "/busy", "/half", "/less", "/more", "/a"});
  const auto report = fetch();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->failures, (std::map<std::string, int64_t>{
                                  {"broken_image", 2}, {"connection", 2}, {"status", 1}, {"timeout", 1}}));
  EXPECT_EQ(report->images, 2);
  // Passing failures have one retry, except one that asks for an hour's wait.
  EXPECT_EQ(asked_, (std::map<std::string, int>{{"/stalled", 2},
                                                {"/short", 2},
                                                {"/closed", 2},
                                                {"/busy", 1},
                                                {"/half", 1},
                                                {"/less", 1},
                                                {"/more", 1},
                                                {"/a", 1}}));
  const auto dataset = read_dataset(*parse_dataset_source(options_.folder.string()));
  ASSERT_TRUE(dataset) << dataset.error().message;
  const auto* items = dataset->find<CaptionedImages>();
  ASSERT_NE(items, nullptr);
  ASSERT_EQ(items->items.size(), 2U);
  EXPECT_EQ(read_image_bytes(items->items[0].image).value(), image);
}

TEST_F(Fetching, ImagesThatDoNotDecodeAreFailures) {
  const std::map<std::string, std::string> kinds = {{"cut.jpg", "broken_image"},
                                                    {"cut.png", "broken_image"},
                                                    {"header_only.jpg", "broken_image"},
                                                    {"no_data.png", "broken_image"},
                                                    {"bomb_100000x100000.png", "broken_image"},
                                                    {"text.jpg", "not_an_image"}};
  const fs::path folder = fs::path(saccade::test::kSourceDir) / "tests/data/broken_images";
  answer_ = [&](const ServerRequest& request) -> ServerReply {
    const std::string name = request.path.substr(1);
    return {.body = kinds.contains(name) ? read_file(folder / name).value() : noise_png(3)};
  };
  options_.rows_per_shard = 100;
  std::vector<std::string> paths = {"/whole.png"};
  for (const auto& [name, kind] : kinds) paths.push_back("/" + name);
  table(paths);
  const auto report = fetch();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->images, 1);
  EXPECT_EQ(report->requests, std::ssize(paths));  // none is asked for again
  std::map<std::string, std::string> found;
  const std::string list = failures();
  for (size_t at = 0; at < list.size();) {
    const size_t end = list.find('\n', at);
    ASSERT_NE(end, std::string::npos);
    const auto failure = parse_json(list.substr(at, end - at));
    ASSERT_TRUE(failure) << failure.error().message;
    const auto url = (*failure)["url"].get<std::string>();
    found[url.substr(url.rfind('/') + 1)] = (*failure)["kind"].get<std::string>();
    at = end + 1;
  }
  EXPECT_EQ(found, kinds);
}

// Without the program that decodes HEIC and AVIF nothing is known of the image.
TEST_F(Fetching, AnImageThatThisMachineCannotDecodeEndsTheRun) {
  const fs::path pictures = fs::path(saccade::test::kSourceDir) / "tests/data/pictures";
  for (const std::string name : {"gradient_23x17.heic", "gradient_23x17.avif"}) {
    SCOPED_TRACE(name);
    options_.folder = folder_.path() / name;
    const std::string image = read_file(pictures / name).value();
    answer_ = [&](const ServerRequest& request) -> ServerReply {
      return {.body = request.path == "/c" ? image : png_of(request.path)};
    };
    table({"/a", "/b", "/c", "/d"});
    const auto report = fetch();
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, ErrorCode::kIo);
    EXPECT_THAT(report.error().message,
                HasSubstr("/c: a HEIC or AVIF image, which is decoded by saccade-decode alone"));
    EXPECT_FALSE(fs::exists(options_.folder / "00001.json"));

    // The next run decodes it.
    answer_ = [](const ServerRequest& request) { return ServerReply{.body = png_of(request.path)}; };
    const auto next = fetch();
    ASSERT_TRUE(next) << next.error().message;
    EXPECT_EQ(next->images, 4);
    EXPECT_EQ(next->failed, 0);
    EXPECT_EQ(failures(), "");
  }
}

TEST_F(Fetching, ParquetTablesAreFetched) {
  std::string parquet = read_file(golden("urls")).value();
  const std::string endpoint = server_.endpoint();
  const std::string port = fmt::format("{:0>5}", endpoint.substr(endpoint.rfind(':') + 1));
  int replaced = 0;
  for (size_t at = 0; (at = parquet.find(":55555/", at)) != std::string::npos; ++at, ++replaced)
    parquet.replace(at + 1, port.size(), port);
  ASSERT_EQ(replaced, 4);
  options_.tables = {folder_.write("table.parquet", parquet)};
  options_.columns.kept = {"license", "width", "score", "nsfw"};
  const auto report = fetch();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->rows, 5);
  EXPECT_EQ(report->images, 4);
  EXPECT_EQ(report->failures, (std::map<std::string, int64_t>{{"address", 1}}));
  EXPECT_EQ(asked_, (std::map<std::string, int>{{"/0", 1}, {"/1", 1}, {"/2", 1}, {"/3", 1}}));
  const auto files = shards();
  EXPECT_THAT(files.at("00000.tar"), HasSubstr(R"("captions":["caption 0","Bild 0"])"));
  EXPECT_THAT(files.at("00000.tar"), HasSubstr(R"("license":"CC0","width":640,"score":0.1,"nsfw":true)"));
  EXPECT_THAT(files.at("00001.tar"), HasSubstr(R"("license":null,"width":320,"score":null,"nsfw":null)"));
  EXPECT_THAT(files.at("00001.tar"), HasSubstr(R"("width":1099511627776,"score":null,"nsfw":true)"));  // NaN
  const auto again = fetch();
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->kept_shards, 3);
}

TEST(UrlTable, KeepsColumnsOfParquetByTheirTypes) {
  for (const char* name : {"urls", "urls-second"}) {
    SCOPED_TRACE(name);
    data::UrlColumns columns;
    columns.kept = {"license", "width", "score", "similarity", "nsfw"};
    auto rows = data::open_url_table(golden(name), columns);
    ASSERT_TRUE(rows) << rows.error().message;
    std::vector<data::UrlRow> read;
    for (data::UrlRow row;;) {
      const auto more = (*rows)->next(row);
      ASSERT_TRUE(more) << more.error().message;
      if (!*more) break;
      read.push_back(row);
    }
    ASSERT_EQ(read.size(), 5U);
    EXPECT_EQ(read[2].url, "http://127.0.0.1:55555/2");
    EXPECT_EQ(read[2].captions, (std::vector<std::string>{"caption 2", "Bild 2"}));
    EXPECT_TRUE(read[1].captions.empty());
    EXPECT_EQ(read[3].problem, "");
    EXPECT_EQ(read[4].problem, "column \"url\" is empty");
    const std::vector<std::string> kept = {
        R"({"license":"CC0","width":640,"score":0.1,"similarity":0.10000000149011612,"nsfw":true})",
        R"({"license":"CC1","width":null,"score":2.0,"similarity":2.0,"nsfw":false})",
        R"({"license":null,"width":320,"score":null,"similarity":null,"nsfw":null})",
        R"({"license":"CC3","width":1099511627776,"score":null,"similarity":null,"nsfw":true})",
        R"({"license":"CC4","width":-1,"score":1e+300,"similarity":-0.25,"nsfw":false})"};
    for (size_t i = 0; i < read.size(); ++i) EXPECT_EQ(dump_json(read[i].kept), kept[i]);
  }
}

// Factify's rows have two images, each with the text of its own side.
TEST(UrlTable, FindsTheTextThatBelongsToAColumnOfImages) {
  const TestFolder folder;
  const auto captions = [&](const std::string& header, const data::UrlColumns& columns) {
    const auto rows = data::open_url_table(folder.write("t.csv", header + "\na,b,c,d\n"), columns);
    EXPECT_TRUE(rows) << rows.error().message;
    data::UrlRow row;
    EXPECT_TRUE(rows && (*rows)->next(row).value_or(false));
    return row.url + ":" + (row.captions.empty() ? "" : row.captions[0]);
  };
  const std::string factify = "claim,claim_image,document,document_image";
  EXPECT_EQ(captions(factify, {}), "d:c");
  EXPECT_EQ(captions(factify, {.url = "claim_image", .caption = "", .id = ""}), "b:a");
  EXPECT_EQ(captions(factify, {.url = "claim_image", .caption = "document", .id = ""}), "b:c");
  EXPECT_EQ(captions("id,claim,text,claim_image", {}), "d:b");
  EXPECT_EQ(captions("x,y,text,claim_image", {}), "d:c");
  EXPECT_EQ(captions("x,image,caption,document", {}), "b:c");
}

TEST(UrlTable, RefusesOtherColumnsOfParquetByName) {
  const std::map<std::string, std::string> types = {{"taken", "timestamp"},
                                                    {"day", "date"},
                                                    {"price", "decimal"},
                                                    {"half", "half float"},
                                                    {"box", "list<"}};
  for (const auto& [name, type] : types) {
    SCOPED_TRACE(name);
    data::UrlColumns columns;
    columns.kept = {name};
    const auto table = data::open_url_table(golden("urls"), columns);
    ASSERT_FALSE(table);
    EXPECT_EQ(table.error().code, ErrorCode::kBadData);
    EXPECT_THAT(table.error().message, HasSubstr(fmt::format("column \"{}\" is {}", name, type)));
    EXPECT_THAT(table.error().message,
                HasSubstr("kept columns are strings, integers, floating-point numbers or booleans"));
  }
  data::UrlColumns columns;
  columns.url = "score";
  const auto table = data::open_url_table(golden("urls"), columns);
  ASSERT_FALSE(table);
  EXPECT_THAT(table.error().message, HasSubstr("column \"score\" is double, expected strings or integers"));
}

TEST_F(Fetching, AStoppedRunGoesOnToTheSameBytes) {
  table({"/a", "/b", "/c", "/d", "/e"});
  ASSERT_TRUE(fetch());
  const auto whole = shards();
  asked_.clear();
  // As a kill leaves it: the second shard has no record, and a temporary file is left.
  fs::remove(options_.folder / "00001.json");
  folder_.write("out/00001.tar.tmp-1-1", "begun");
  folder_.write("out/.spool-ab12CD", "left");
  const auto report = fetch();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->kept_shards, 2);
  EXPECT_EQ(asked_, (std::map<std::string, int>{{"/c", 1}, {"/d", 1}}));
  EXPECT_TRUE(shards() == whole);
  EXPECT_FALSE(fs::exists(options_.folder / ".spool-ab12CD"));

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
