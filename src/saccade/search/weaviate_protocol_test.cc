// Collections in a Weaviate cluster, against the same items in a folder. Requests and answers were recorded from a real
// server by tests/cluster/record; a request that differs from the recorded one fails. With SACCADE_WEAVIATE_RECORD, the
// address of an empty server, the test asks that server and writes the recording.
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <set>

#include <gtest/gtest.h>

#include "saccade/collection/catalog/filter.h"
#include "saccade/collection/collection_reader.h"
#include "saccade/collection/collection_writer.h"
#include "saccade/collection/exchange.h"
#include "saccade/collection/test_support.h"
#include "saccade/collection/weaviate/test_cluster.h"
#include "saccade/core/json.h"
#include "saccade/core/source_dir.h"
#include "saccade/core/test_environment.h"
#include "saccade/hub/http_client.h"
#include "saccade/hub/test_server.h"
#include "saccade/search/listing.h"
#include "saccade/search/search.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

const fs::path kRecording = fs::path(test::kSourceDir) / "tests/golden/weaviate/protocol.jsonl";

// Takes out what differs from run to run: when a class was made, and by which version of the program.
std::string settled(std::string body) {
  static const std::regex changing(R"re(\\"(created|product_version)\\": ?\\"[^"\\]*\\")re");
  return std::regex_replace(body, changing, "");
}

// Answers requests from the recording, in its order, or from a real server.
class Protocol {
 public:
  Protocol() : server_([this](const test::ServerRequest& request) { return answer(request); }) {
    if (const char* real = std::getenv("SACCADE_WEAVIATE_RECORD")) {
      real_ = real;
      return;
    }
    std::ifstream file(kRecording);
    EXPECT_TRUE(file) << kRecording << " is missing: tests/cluster/record makes it";
    for (std::string line; std::getline(file, line);) calls_.push_back(Json::parse(line));
  }
  ~Protocol() {
    if (real_.empty()) {
      EXPECT_EQ(next_, calls_.size()) << "calls of the recording were not made";
      return;
    }
    fs::create_directories(kRecording.parent_path());
    std::ofstream file(kRecording);
    for (const Json& call : calls_) file << call.dump() << "\n";
  }
  [[nodiscard]] std::string address(const std::string& name) const {
    return "weaviate://" + server_.endpoint().substr(std::string("http://").size()) + "/" + name;
  }

 private:
  test::ServerReply answer(const test::ServerRequest& request) {
    const Json asked = {{"method", request.method}, {"path", request.path}, {"body", settled(request.body)}};
    if (!real_.empty()) return record(request, asked);
    if (next_ == calls_.size()) {
      ADD_FAILURE() << "a call beyond the recording: " << asked.dump();
      return {.status = 400, .body = "{}"};
    }
    const Json& call = calls_[next_++];
    EXPECT_EQ(asked, call["asked"]);
    return {.status = call["status"].get<int>(), .body = call["answer"].get<std::string>()};
  }
  test::ServerReply record(const test::ServerRequest& request, const Json& asked) {
    auto session = hub::HttpSession::open({});
    hub::HttpRequest out;
    out.url = real_ + request.path;
    if (request.method != "GET") {
      out.method = request.method;
      out.body = request.body;
      out.headers = {"Content-Type: application/json"};
    }
    const hub::HttpResult reply = session->send(out, nullptr, {});
    if (!reply) return {.status = 502, .body = "{}"};
    calls_.push_back({{"asked", asked}, {"status", reply->status}, {"answer", reply->body}});
    return {.status = reply->status, .body = reply->body};
  }

  std::string real_;
  std::vector<Json> calls_;
  size_t next_ = 0;
  test::TestServer server_;
};

constexpr int64_t kDim = 8;
constexpr int kItems = 24;

CheckpointId checkpoint() {
  return {"fake", "/models/fake", test::FakeEncoder().info().fingerprint, kDim};
}

// Items of all kinds: with and without dates, captions, keywords and sizes; the last looks like the first.
CollectionChange::Put put_of(int number) {
  CollectionChange::Put put;
  Item& item = put.item;
  item.path = fmt::format("/photos/{}/IMG_{:03}.jpg", number % 3 == 0 ? "birds" : "Ships at sea", number);
  item.hash = sha256_hex(item.path);
  item.format = number % 4 == 0 ? "png" : "jpeg";
  item.size = number % 7 == 6 ? kUnknownState : 1000 * (number + 1);
  item.mtime_ns =
      number % 5 == 4 ? kUnknownState : (1'600'000'000LL + 86'400LL * 40 * number) * 1'000'000'000 + 5;
  item.width = number % 6 == 5 ? 0 : 100 + 10 * number;
  item.height = number % 6 == 5 ? 0 : 80;
  item.added = 1'700'000'000 + number;
  item.file.elsewhere = true;
  const char* const captions[] = {"", "Two red birds on a branch", "a Boat* with sails?", "birds & boats",
                                  "Ein Z\u00fcrcher \"Schiff\" \\ back"};
  item.caption = captions[number % 5];
  ItemFacts facts;
  if (number % 2 == 0) facts.picture.taken = 1'500'000'000 + 86'400 * 100 * number;
  if (number % 3 == 1) facts.picture.keywords = {"sea", fmt::format("day {}", number)};
  if (number % 4 == 1) facts.picture.rating = number % 6;
  if (number % 4 == 2) facts.picture.latitude = number - 10.5;
  if (number % 4 == 2) facts.picture.longitude = 3.0 * number;
  if (number % 3 == 2) facts.picture.camera = "Kamera X100";
  facts.grain = 0.02 * number;
  facts.look = static_cast<uint64_t>(number);
  facts.read = FactsRead::kEverything;
  put.facts = facts;
  double squares = 0;
  for (int64_t c = 0; c < kDim; ++c) {
    const int of = number == kItems - 1 ? 0 : number;
    // No two cosines are alike: hits of one score have no order.
    const auto value = static_cast<float>((of * of * 7 + c * c * 31 + of * c * 13 + of * 29) % 97 - 48);
    put.values.push_back(value);
    squares += double{value} * double{value};
  }
  for (float& value : put.values) value = static_cast<float>(double{value} / std::sqrt(squares));
  return put;
}

struct Shown {
  std::string path;
  float score = 0;
  std::vector<std::string> folded = {};
  bool by_words = false;
  bool operator==(const Shown& other) const {
    return path == other.path && std::abs(score - other.score) < 1e-6F && folded == other.folded &&
           by_words == other.by_words;
  }
};
std::ostream& operator<<(std::ostream& out, const Shown& shown) {
  return out << shown.path << " " << shown.score << " (" << shown.folded.size() << ")";
}

std::vector<Shown> shown(const SearchAnswer& answer) {
  std::vector<Shown> hits;
  for (const SearchHit& hit : answer.hits) {
    Shown one{hit.item.path, std::isfinite(hit.score) ? hit.score : 0};
    for (const SearchHit::Folded& copy : hit.folded) one.folded.push_back(copy.item.path);
    one.by_words = hit.keywords.has_value();
    hits.push_back(one);
  }
  return hits;
}

TEST(WeaviateProtocol, AClassAnswersLikeAFolder) {
  Protocol protocol;
  const test::TestFolder folder;
  const fs::path local = folder.path() / "local";
  const std::string address = protocol.address("Photos") + "?root=photos=/photos";
  EXPECT_FALSE(is_collection(address));
  {
    auto into = CollectionWriter::create(address, checkpoint());
    ASSERT_OK(into);
    auto beside = CollectionWriter::create(local, checkpoint());
    ASSERT_OK(beside);
    CollectionChange change;
    for (int number = 0; number < kItems; ++number) change.puts.push_back(put_of(number));
    change.failures.push_back({"/photos/broken.jpg", ErrorCode::kBadData, "not a JPEG", 10, 20, 30});
    ASSERT_OK(into->commit(change));
    ASSERT_OK(beside->commit(change));
    // A second time changes nothing.
    for (auto& put : change.puts) put.item.id = 0;
    const std::vector<std::string_view> paths = {"/photos/birds/IMG_000.jpg", "/photos/none.jpg"};
    const auto uses = into->path_uses(paths);
    ASSERT_OK(uses);
    EXPECT_EQ(*uses, (std::vector{PathUse::kItem, PathUse::kFree}));
    const auto found = into->find_path("/photos/birds/IMG_003.jpg");
    ASSERT_OK(found);
    ASSERT_TRUE(found->has_value());
    EXPECT_EQ((*found)->hash, put_of(3).item.hash);
    EXPECT_EQ((*found)->mtime_ns, put_of(3).item.mtime_ns);
    const auto facts = into->find_facts((*found)->id);
    ASSERT_OK(facts);
    EXPECT_EQ(facts->look, 3U);
    const auto same = into->find_hash(put_of(5).item.hash);
    ASSERT_OK(same);
    ASSERT_EQ(same->size(), 1U);
    EXPECT_EQ(same->front().path, put_of(5).item.path);
    EXPECT_EQ(into->row_values(same->front().row).value(), put_of(5).values);
  }
  auto remote = CollectionReader::open(address);
  ASSERT_OK(remote);
  auto near = CollectionReader::open(local);
  ASSERT_OK(near);
  EXPECT_EQ(remote->item_count(), kItems);
  EXPECT_EQ(remote->failures().value().front().reason, "not a JPEG");
  ThreadPool pool(1);
  test::FakeEncoder encoder;
  const std::vector<float> row = put_of(4).values;
  const std::vector<std::string> filters = {
      "",
      "width>=150 and format=jpeg",
      "not size<5kB",
      "size!=7000",
      "caption~bird or keyword=SEA",
      "caption=\"two red birds on a branch\"",
      "not caption~\"*\" or caption=\"\"",
      "caption~\"boat\\\\* with\" or caption~\"z\u00dcrcher \\\"\"",
      "caption~\"b??ds*\"",
      "path~\"*/birds/*\" and date<2022",
      "path~ships and not taken>2018",
      "date=2021 or latitude<0",
      "aspect>=1.5 and pixels<20k",
      "rating>=1",
      "camera~\"kamera x[0-9]*\"",
      "not camera~\"kamera x[0-9]*\"",
      "photograph=yes",
      "place=nowhere",
  };
  for (const std::string& filter : filters) {
    SearchQuery query;
    query.k = 50;
    query.filter = filter;
    const auto theirs = search_row(*remote, row, query, pool);
    const auto ours = search_row(*near, row, query, pool);
    ASSERT_TRUE(theirs) << filter << ": " << theirs.error().message;
    ASSERT_OK(ours);
    EXPECT_EQ(shown(*theirs), shown(*ours)) << filter;
    ASSERT_TRUE(theirs->by_engine);
    const bool expressed = filter.find('[') == std::string::npos;
    EXPECT_EQ(theirs->by_engine->exact_filter, expressed) << filter;
    if (expressed) {
      EXPECT_EQ(theirs->searched, ours->searched) << filter;
    }
  }
  SearchQuery exact;
  exact.exact = true;
  const auto refused = search_row(*remote, row, exact, pool);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_TRUE(search_row(*near, row, exact, pool));
  for (const char* text : {"red birds", "boats", "\"red birds\" sea", "ship"}) {
    SearchQuery query;
    query.k = 5;
    query.text = QueryText(text);
    query.keyword_weight = 0.5;
    EncodedQuery encoded;
    encoded.row = row;
    const auto theirs = search_encoded(*remote, encoder, encoded, query, pool);
    const auto ours = search_encoded(*near, encoder, encoded, query, pool);
    ASSERT_OK(theirs);
    ASSERT_OK(ours);
    EXPECT_EQ(shown(*theirs), shown(*ours)) << text;
    EXPECT_EQ(theirs->keywords->pictures, ours->keywords->pictures) << text;
  }
  {
    SearchQuery query;
    query.k = 4;
    query.filter = "date>1990";
    const auto theirs = list_newest(*remote, query);
    const auto ours = list_newest(*near, query);
    ASSERT_OK(theirs);
    EXPECT_EQ(shown(*theirs), shown(*ours));
    EXPECT_EQ(theirs->searched, ours->searched);
  }
  const auto why = remote->why_empty(parse_filter("place=nowhere").value());
  ASSERT_OK(why);
  EXPECT_EQ(*why, "no image meets place=nowhere");
  const auto summary = remote->summary();
  ASSERT_OK(summary);
  EXPECT_EQ(summary->formats, near->summary()->formats);
  EXPECT_EQ(summary->captions, near->summary()->captions);
  EXPECT_EQ(summary->looked_at, near->summary()->looked_at);
  EXPECT_EQ(summary->photographs, near->summary()->photographs);
  EXPECT_EQ(summary->failures, 1);
  {
    auto into = CollectionWriter::open(address);
    ASSERT_OK(into);
    EXPECT_EQ(into->remove_matching(parse_filter("rating>=1").value()).value(),
              CollectionWriter::open(local)->remove_matching(parse_filter("rating>=1").value()).value());
    EXPECT_EQ(into->remove_path("/photos/birds").value(),
              CollectionWriter::open(local)->remove_path("/photos/birds").value());
    EXPECT_TRUE(into->was_removed("/photos/birds/IMG_000.jpg").value());
    EXPECT_EQ(into->forget_removed("/photos/birds").value(),
              CollectionWriter::open(local)->forget_removed("/photos/birds").value());
  }
  ASSERT_OK(remote->refresh());
  ASSERT_OK(near->refresh());
  EXPECT_EQ(remote->item_count(), near->item_count());
  EXPECT_EQ(remote->removed().value().size(), near->removed().value().size());
  {
    // Weaviate keeps numbers of removed objects, which its Not would yield.
    SearchQuery query;
    query.k = 50;
    query.filter = "not caption~boat";
    const auto theirs = search_row(*remote, row, query, pool);
    const auto ours = search_row(*near, row, query, pool);
    ASSERT_OK(theirs);
    ASSERT_OK(ours);
    EXPECT_EQ(shown(*theirs), shown(*ours));
    EXPECT_EQ(theirs->searched, ours->searched);
    EXPECT_EQ(remote->summary()->captions, near->summary()->captions);
  }
  ASSERT_OK(export_collection(*remote, folder.path() / "theirs"));
  ASSERT_OK(export_collection(*near, folder.path() / "ours"));
  const auto lines = [&](const char* name) {
    std::multiset<std::string> all;
    std::ifstream file(folder.path() / name / "items.jsonl");
    for (std::string line; std::getline(file, line);) all.insert(line);
    return all;
  };
  EXPECT_EQ(lines("theirs"), lines("ours"));
  test::FakeEncoder other;
  const auto mismatch = CollectionWriter::open_or_create(address, {"other", "", "ffff", kDim});
  ASSERT_FALSE(mismatch);
  EXPECT_EQ(mismatch.error().code, ErrorCode::kMismatch);
}

// Answers of a server that cannot be used, each named in the error.
TEST(WeaviateProtocol, WhatIsWrongIsNamed) {
  test::ServerReply meta{.body = R"({"version": "1.35.2"})"};
  test::ServerReply schema{.status = 404};
  test::TestServer server(
      [&](const test::ServerRequest& request) { return request.path == "/v1/meta" ? meta : schema; });
  const std::string address =
      "weaviate://" + server.endpoint().substr(std::string("http://").size()) + "/Photos";
  const auto error = [&] { return CollectionReader::open(address).error(); };
  EXPECT_EQ(error().code, ErrorCode::kNotFound);
  EXPECT_NE(error().message.find("no class Photos"), std::string::npos) << error().message;
  schema = {.body = R"({"class": "Photos", "description": "my photos"})"};
  EXPECT_EQ(error().code, ErrorCode::kMismatch);
  EXPECT_NE(error().message.find("not made by Saccade"), std::string::npos) << error().message;
  meta = {.body = R"({"version": "1.24.1"})"};
  EXPECT_EQ(error().code, ErrorCode::kUnsupported);
  EXPECT_NE(error().message.find("1.24.1, expected 1.33"), std::string::npos) << error().message;
  meta = {.body = R"({"ok": true})"};
  EXPECT_NE(error().message.find("not a Weaviate server"), std::string::npos) << error().message;
  meta = {.status = 401, .body = R"({"error": [{"message": "anonymous access not enabled"}]})"};
  EXPECT_NE(error().message.find("the key is missing"), std::string::npos) << error().message;
  EXPECT_EQ(error().code, ErrorCode::kIo);
  EXPECT_TRUE(is_collection(address))
      << "a key that is missing hides a collection, and is not the lack of one";
  const test::TestVariable key("SACCADE_WEAVIATE_KEY", "wrong");
  EXPECT_NE(error().message.find("the key is refused"), std::string::npos) << error().message;
  EXPECT_EQ(server.requests().back().header("authorization"), "Bearer wrong");
}

TEST(WeaviateProtocol, ANodeThatIsDownIsPassedOver) {
  test::TestServer server([&](const test::ServerRequest& request) -> test::ServerReply {
    if (request.path == "/v1/meta") return {.body = R"({"version": "1.35.2"})"};
    return {.status = 404};
  });
  const std::string there = server.endpoint().substr(std::string("http://").size());
  // Port 9 is that of the discard protocol, which nothing listens to.
  const auto both = CollectionReader::open("weaviate://127.0.0.1:9," + there + "/Photos").error();
  EXPECT_EQ(both.code, ErrorCode::kNotFound) << both.message;
  const auto none = CollectionReader::open("weaviate://127.0.0.1:9/Photos").error();
  EXPECT_EQ(none.code, ErrorCode::kIo);
  EXPECT_NE(none.message.find("http://127.0.0.1:9: Weaviate does not answer"), std::string::npos)
      << none.message;
}

class ShortAnswers : public weaviate::ClusterTest {};

// An index of vectors may know fewer objects than meet the filter. More are asked for only while more come.
TEST_F(ShortAnswers, ASearchEndsWhenNoMoreItemsCome) {
  const auto collection = CollectionReader::open(address());
  ASSERT_OK(collection);
  int asked = 0;
  answers_ = [&](const test::ServerRequest& request) -> std::optional<test::ServerReply> {
    if (request.path != "/v1/graphql" || request.body.find("nearVector") == std::string::npos) return {};
    ++asked;
    Json counted = counts();
    counted["met"][0]["meta"]["count"] = 1000;
    const Json objects = Json::array({there().in_graphql});
    return data({{"Get", {{"near", objects}}}, {"Aggregate", counted}});
  };
  SearchQuery query;
  query.k = 5;
  ThreadPool pool(1);
  const auto answer = search_row(*collection, there().whole.values, query, pool);
  ASSERT_OK(answer);
  EXPECT_EQ(answer->hits.size(), 1U);
  EXPECT_EQ(answer->searched, 1000);
  ASSERT_TRUE(answer->by_engine);
  EXPECT_EQ(answer->by_engine->compared, 1);
  EXPECT_EQ(asked, 2);
}

}  // namespace
}  // namespace saccade
