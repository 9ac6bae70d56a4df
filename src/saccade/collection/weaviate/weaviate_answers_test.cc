// Reading side of a collection in a Weaviate cluster, with answers that are malformed on purpose: each is an error, and
// none is read past its end. Also statuses, errors of GraphQL, and nodes that are silent.
#include <chrono>
#include <filesystem>
#include <map>
#include <stop_token>
#include <string>

#include <gmock/gmock.h>

#include "saccade/collection/collection_reader.h"
#include "saccade/collection/weaviate/test_cluster.h"
#include "saccade/collection/weaviate/weaviate_client.h"
#include "saccade/collection/weaviate/weaviate_store.h"

namespace saccade::weaviate {
namespace {

namespace fs = std::filesystem;

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

class WeaviateAnswers : public ClusterTest {
 protected:
  // Client with short waits.
  [[nodiscard]] Client client(ClientOptions options = {}) const {
    options.reading.first_wait = options.writing.first_wait = milliseconds(1);
    return {parsed(), options};
  }
};

// Expects kBadData of a result. text: what the server answered.
template <typename T>
void expect_bad(const Result<T>& result, const std::string& text) {
  ASSERT_FALSE(result) << text;
  EXPECT_EQ(result.error().code, ErrorCode::kBadData) << text << ": " << result.error().message;
}

TEST_F(WeaviateAnswers, TheUsualOnesAreRead) {
  const auto store = Store::open(address());
  ASSERT_OK(store);
  EXPECT_EQ(store->item_count(), 1);
  const int64_t id = there().whole.item.id;
  EXPECT_EQ(store->item(id).value().path, "/photos/a.jpg");
  EXPECT_EQ(store->item_of_path("/photos/a.jpg").value().id, id);
  EXPECT_EQ(store->whole(id).value().values, there().whole.values);
  EXPECT_EQ(store->sample().value()->rows(), 1);
  const auto summary = store->summary();
  ASSERT_OK(summary);
  EXPECT_EQ(summary->file_bytes, 101);
  EXPECT_EQ(summary->formats.at("jpeg"), 1);
  const NearestQuery query{.row = there().whole.values, .count = 5};
  const auto nearest = store->nearest(query);
  ASSERT_OK(nearest);
  EXPECT_EQ(nearest->items.size(), 1U);
  EXPECT_TRUE(nearest->complete) << "all objects of the class came";
  const auto newest = store->newest(nullptr, 1);
  ASSERT_OK(newest);
  EXPECT_EQ(newest->items.size(), 1U);
  EXPECT_TRUE(newest->complete) << "all objects of the class came";
  int64_t visited = 0;
  ASSERT_OK(store->for_each_row([&](const Item&, const ItemFacts&, std::span<const float> row) {
    visited += std::ssize(row);
    return Status{};
  }));
  EXPECT_EQ(visited, 8);
}

TEST_F(WeaviateAnswers, AListingWithoutObjectsIsNoEmptyOne) {
  const auto store = Store::open(address());
  ASSERT_OK(store);
  const auto visit = [](const Item&) { return Status{}; };
  for (const char* body : {"", "null", "3", "\"objects\"", "[]", "{}", R"({"objects": null})",
                           R"({"objects": {}})", R"({"objects": 3})", R"({"objects": "none"})"}) {
    answer_to("GET", "/v1/objects", body);
    const Status listed = store->for_each_item(visit);
    expect_bad(listed, body);
    EXPECT_THAT(listed.error().message, HasSubstr("no list of objects")) << body;
    expect_bad(store->failures(), body);
    expect_bad(store->removed(), body);
    expect_bad(store->sample(), body);
  }
  answer_to("GET", "/v1/objects", R"({"objects": []})");
  EXPECT_TRUE(store->for_each_item(visit));
}

TEST_F(WeaviateAnswers, ListedObjectsOfAnotherShapeAreRefused) {
  const auto store = Store::open(address());
  ASSERT_OK(store);
  const auto visit_row = [](const Item&, const ItemFacts&, std::span<const float>) { return Status{}; };
  const auto list = [&](const Json& object) {
    const std::string body = dump_json({{"objects", Json::array({object})}});
    answer_to("GET", "/v1/objects", body);
    return body;
  };
  for (const char* object :
       {"null", "1", "[]", "{}", R"({"id": "a"})", R"({"id": "a", "properties": null})",
        R"({"id": "a", "properties": []})", R"({"id": "a", "properties": {}})",
        R"({"id": "a", "properties": {"item": null}})", R"({"id": "a", "properties": {"item": "{}"}})",
        R"({"id": "a", "properties": {"item": "{"}})", R"({"id": "a", "properties": {"kind": "=failure="}})",
        R"({"id": "a", "properties": {"kind": "=removed=", "path": "/b", "note": "{"}})"}) {
    const std::string body = list(Json::parse(object));
    expect_bad(store->for_each_item([](const Item&) { return Status{}; }), body);
    expect_bad(store->for_each_row(visit_row), body);
    expect_bad(store->failures(), body);
    expect_bad(store->removed(), body);
    expect_bad(store->sample(), body);
  }
  Json object = there().in_listing;
  object.erase("id");
  expect_bad(store->for_each_item([](const Item&) { return Status{}; }), list(object));
  for (const Json& row : {Json(), Json(3), Json("!"), Json("AAA="), Json("AAAAAA=="), Json("")}) {
    object = there().in_listing;
    object["properties"]["row"] = row;
    const std::string body = list(object);
    expect_bad(store->for_each_row(visit_row), body);
  }
  // A row of another width is no row of the sample.
  object["properties"]["row"] = "AACAPw==";
  list(object);
  const auto sample = store->sample();
  ASSERT_OK(sample);
  EXPECT_EQ((*sample)->rows(), 0);
  EXPECT_EQ((*sample)->columns(), 8);
}

TEST_F(WeaviateAnswers, AListingThatDoesNotGoOnEnds) {
  const auto store = Store::open(address());
  ASSERT_OK(store);
  int pages = 0;
  answers_ = [&](const test::ServerRequest& request) -> std::optional<test::ServerReply> {
    if (!request.path.starts_with("/v1/objects")) return {};
    // The same page whatever is asked for; but a test ends.
    if (++pages > 20) return test::ServerReply{.body = R"({"objects": []})"};
    return test::ServerReply{.body = dump_json({{"objects", Json::array({there().in_listing})}})};
  };
  expect_bad(store->for_each_item([](const Item&) { return Status{}; }), "the same page again");
  EXPECT_EQ(pages, 2);
}

TEST_F(WeaviateAnswers, AListingThatCyclesEnds) {
  const auto store = Store::open(address());
  ASSERT_OK(store);
  const StoredItem others[] = {stored_item("/photos/b.jpg", 2), stored_item("/photos/c.jpg", 3)};
  for (const bool from_the_first : {true, false}) {
    int pages = 0;
    answers_ = [&](const test::ServerRequest& request) -> std::optional<test::ServerReply> {
      if (!request.path.starts_with("/v1/objects")) return {};
      if (++pages > 20) return test::ServerReply{.body = R"({"objects": []})"};
      // a b c b c b c ..., or a b a b a b ...
      const bool first = from_the_first ? pages % 2 == 1 : pages == 1;
      const Json& object = first ? there().in_listing : others[from_the_first ? 0 : pages % 2].in_listing;
      return test::ServerReply{.body = dump_json({{"objects", Json::array({object})}})};
    };
    int visited = 0;
    const Status listed = store->for_each_item([&](const Item&) {
      ++visited;
      return Status{};
    });
    expect_bad(listed, "pages in a circle");
    EXPECT_THAT(listed.error().message, HasSubstr("does not end"));
    EXPECT_EQ(visited, from_the_first ? 2 : 3) << "each item once";
    EXPECT_EQ(pages, visited + 1);
  }
}

// The number of the objects that meet the filter tells it. A node that is set up to give less than was asked for, or whose
// index of vectors lags behind its objects, sends fewer as well.
TEST_F(WeaviateAnswers, AShortAnswerIsCompleteIfNoOtherObjectMeetsTheFilter) {
  const auto store = Store::open(address());
  ASSERT_OK(store);
  const NearestQuery query{.row = there().whole.values, .count = 5};
  const Json objects = Json::array({there().in_graphql});
  for (const int64_t met : {0, 1, 2, 1000}) {
    const Json number = Json::array({{{"meta", {{"count", met}}}}});
    answer_to("POST", "/v1/graphql",
              data({{"Get", {{"near", objects}, {"x", objects}}}, {"Aggregate", {{"met", number}}}}).body);
    const auto nearest = store->nearest(query);
    ASSERT_OK(nearest);
    EXPECT_EQ(nearest->searched, met);
    EXPECT_EQ(nearest->complete, met <= 1) << met;
    const auto newest = store->newest(nullptr, 5);
    ASSERT_OK(newest);
    EXPECT_EQ(newest->complete, met <= 1) << met;
  }
}

TEST_F(WeaviateAnswers, ItemsOfAnotherShapeAreNoMissingItems) {
  const auto store = Store::open(address());
  ASSERT_OK(store);
  for (const char* body :
       {R"({"data": {}})", R"({"data": {"Get": null}})", R"({"data": {"Get": []}})",
        R"({"data": {"Get": {}}})", R"({"data": {"Get": {"x": null}}})", R"({"data": {"Get": {"x": {}}}})",
        R"({"data": {"Get": {"x": "none"}}})", R"({"data": {"Get": {"x": [null]}}})",
        R"({"data": {"Get": {"x": [1]}}})", R"({"data": {"Get": {"x": [{}]}}})",
        R"({"data": {"Get": {"x": [{"item": null, "_additional": {"id": "a"}}]}}})",
        R"({"data": {"Get": {"x": [{"item": "{}"}]}}})",
        R"({"data": {"Get": {"x": [{"item": "{}", "_additional": null}]}}})",
        R"({"data": {"Get": {"x": [{"item": "{}", "_additional": []}]}}})",
        R"({"data": {"Get": {"x": [{"item": "{}", "_additional": {"id": 7}}]}}})",
        R"({"data": {"Get": {"x": [{"item": "{}", "_additional": {"id": ""}}]}}})",
        R"({"data": {"Get": {"x": [{"item": "[", "_additional": {"id": "a"}}]}}})"}) {
    answer_to("POST", "/v1/graphql", body);
    expect_bad(store->item(7), body);
    expect_bad(store->facts(7), body);
    expect_bad(store->whole(7), body);
    expect_bad(store->item_of_path("/photos/a.jpg"), body);
  }
  answer_to("POST", "/v1/graphql", R"({"data": {"Get": {"x": []}}})");
  EXPECT_EQ(store->item(7).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(store->item_of_path("/photos/a.jpg").error().code, ErrorCode::kNotFound);
}

TEST_F(WeaviateAnswers, ARowThatWasAskedForIsThere) {
  const auto store = Store::open(address());
  ASSERT_OK(store);
  const NearestQuery query{.row = there().whole.values, .count = 5};
  for (const char* row : {"none", "null", "3", "\"!\"", "\"AAA=\""}) {
    Json object = there().in_graphql;
    object.erase("row");
    if (std::string_view(row) != "none") object["row"] = Json::parse(row);
    const test::ServerReply reply = found(Json::array({object}));
    answer_to("POST", "/v1/graphql", reply.body);
    expect_bad(store->whole(there().whole.item.id), reply.body);
    expect_bad(store->nearest(query), reply.body);
    EXPECT_TRUE(store->item(there().whole.item.id));
    EXPECT_TRUE(store->newest(nullptr, 5));
  }
}

TEST_F(WeaviateAnswers, CountsOfAnotherShapeAreRefused) {
  auto store = Store::open(address());
  ASSERT_OK(store);
  for (const char* body :
       {R"({"data": {}})", R"({"data": {"Aggregate": null}})", R"({"data": {"Aggregate": []}})",
        R"({"data": {"Aggregate": {}}})", R"({"data": {"Aggregate": {"x": null}}})",
        R"({"data": {"Aggregate": {"x": {}}}})", R"({"data": {"Aggregate": {"x": []}}})",
        R"({"data": {"Aggregate": {"x": [null]}}})", R"({"data": {"Aggregate": {"x": [1]}}})",
        R"({"data": {"Aggregate": {"x": [{}]}}})", R"({"data": {"Aggregate": {"x": [{"meta": null}]}}})",
        R"({"data": {"Aggregate": {"x": [{"meta": []}]}}})",
        R"({"data": {"Aggregate": {"x": [{"meta": {"count": null}}]}}})",
        R"({"data": {"Aggregate": {"x": [{"meta": {"count": "7"}}]}}})",
        R"({"data": {"Aggregate": {"x": [{"meta": {"count": 0.5}}]}}})"}) {
    answer_to("POST", "/v1/graphql", body);
    expect_bad(Store::open(address()), body);
    expect_bad(store->refresh(), body);
    expect_bad(store->looked(1), body);
  }
  EXPECT_EQ(store->item_count(), 1);
}

TEST_F(WeaviateAnswers, ASearchNeedsItsObjectsAndTheirNumber) {
  const auto store = Store::open(address());
  ASSERT_OK(store);
  const NearestQuery query{.row = there().whole.values, .count = 5};
  const Json objects = Json::array({there().in_graphql});
  const Json met = {{"met", Json::array({{{"meta", {{"count", 1}}}}})}};
  for (const Json& value :
       {Json{{"Get", {{"near", objects}, {"x", objects}}}}, Json{{"Aggregate", met}},
        Json{{"Aggregate", met}, {"Get", nullptr}}, Json{{"Aggregate", met}, {"Get", Json::object()}},
        Json{{"Aggregate", met}, {"Get", {{"near", nullptr}, {"x", nullptr}}}},
        Json{{"Aggregate", nullptr}, {"Get", {{"near", objects}, {"x", objects}}}}}) {
    answer_to("POST", "/v1/graphql", data(value).body);
    expect_bad(store->nearest(query), dump_json(value));
    expect_bad(store->newest(nullptr, 5), dump_json(value));
  }
}

TEST_F(WeaviateAnswers, ASummaryOfAnotherShapeIsRefused) {
  const auto store = Store::open(address());
  ASSERT_OK(store);
  const auto give = [&](const Json& aggregate) {
    answer_to("POST", "/v1/graphql", data({{"Aggregate", aggregate}}).body);
    return dump_json(aggregate);
  };
  for (const char* name : {"all", "captions", "looked", "photographs"}) {
    for (const char* instead : {"nothing", "null", "[]", "[null]", "{}"}) {
      Json aggregate = counts();
      aggregate.erase(name);
      if (std::string_view(instead) != "nothing") aggregate[name] = Json::parse(instead);
      expect_bad(store->summary(), give(aggregate));
    }
  }
  for (const char* groups :
       {"[null]", "[1]", "[{}]", R"([{"groupedBy": 1, "meta": {"count": 1}}])",
        R"([{"groupedBy": {"value": "=png="}}])", R"([{"groupedBy": {"value": "=png="}, "meta": 1}])"}) {
    Json aggregate = counts();
    aggregate["formats"] = Json::parse(groups);
    expect_bad(store->summary(), give(aggregate));
  }
  // The size of the files is not always known.
  for (const char* size : {"null", "3", "[]", "{}", R"({"sum": null})", R"({"sum": "3"})",
                           R"({"sum": 1e300})", R"({"sum": -1e300})"}) {
    Json aggregate = counts();
    aggregate["all"][0]["size"] = Json::parse(size);
    const std::string body = give(aggregate);
    const auto summary = store->summary();
    ASSERT_TRUE(summary) << body << ": " << summary.error().message;
    EXPECT_EQ(summary->file_bytes, 0) << body;
  }
  Json aggregate = counts();
  aggregate.erase("formats");
  give(aggregate);
  EXPECT_TRUE(store->summary().value().formats.empty());
}

TEST_F(WeaviateAnswers, AnAnswerToGraphqlHasData) {
  const Client asking = client();
  for (const char* body :
       {"", "null", "3", "\"data\"", "[]", "[{}]", "{}", R"({"data": null})", R"({"data": []})",
        R"({"errors": null})", R"({"errors": []})", "<html>", R"({"data": {)"}) {
    answer_to("POST", "/v1/graphql", body);
    expect_bad(asking.ask("{Get}"), body);
  }
}

TEST_F(WeaviateAnswers, ErrorsOfGraphqlAreAskedAgainAndTold) {
  const Client asking = client();
  answer_to(
      "POST", "/v1/graphql",
      R"({"data": {"Get": {"x": null}}, "errors": [{"message": "no such prop with name 'numbr' found"}]})");
  const auto refused = asking.ask("{Get}");
  expect_bad(refused, "errors");
  EXPECT_THAT(refused.error().message, HasSubstr("no such prop with name 'numbr' found"));
  EXPECT_EQ(sent("POST", "/v1/graphql").size(), static_cast<size_t>(kReading.rounds));
  for (const char* errors : {"\"all\"", "3", "true", "[null]", "[3]", "[[]]", R"([{"message": 3}])",
                             R"([{}])", R"({"message": "an object"})"}) {
    const std::string body = fmt::format(R"({{"data": {{}}, "errors": {}}})", errors);
    answer_to("POST", "/v1/graphql", body);
    expect_bad(asking.ask("{Get}"), body);
  }
  // Whoever waits for the cluster, as `watch` does, goes on once these have passed.
  for (
      const char* said :
      {"shard Abc is not found", "explorer: get class: shard Abc: broadcast: Cannot reach enough replicas",
       "remote shard object search Abc: send http request: dial tcp 127.0.0.1:7: connect: connection refused",
       "context deadline exceeded", "class Photos has no physical shard \\\"Abc\\\": no leader",
       "unable to resolve node name \\\"node2\\\" to host"}) {
    answer_to("POST", "/v1/graphql",
              fmt::format(R"({{"data": {{}}, "errors": [{{"message": "{}"}}]}})", said));
    const auto later = asking.ask("{Get}");
    ASSERT_FALSE(later) << said;
    EXPECT_EQ(later.error().code, ErrorCode::kIo) << said;
    EXPECT_THAT(later.error().message, testing::StartsWith("Weaviate: "));
  }
  // A node that has just come back.
  int asked = 0;
  answers_ = [&](const test::ServerRequest&) -> std::optional<test::ServerReply> {
    if (++asked == 3) return data({{"Get", {{"x", 5}}}});
    return test::ServerReply{.body = R"({"errors": [{"message": "shard Abc is not found"}]})"};
  };
  const auto answered = asking.ask("{Get}");
  ASSERT_OK(answered);
  EXPECT_EQ((*answered)["Get"]["x"], 5);
}

TEST_F(WeaviateAnswers, StatusesThatMayPassAreAskedAgain) {
  const Client asking = client();
  const auto tries = [&](int status, const std::string& body) {
    answer_to("GET", "/v1/tried", body, status);
    const size_t before = sent("GET", "/v1/tried").size();
    const auto answered = asking.call({.path = "/v1/tried"});
    EXPECT_FALSE(answered) << status;
    return std::pair(sent("GET", "/v1/tried").size() - before, answered ? Error() : answered.error());
  };
  const auto rounds = static_cast<size_t>(kReading.rounds);
  for (const int status : {408, 429, 500, 502, 503, 504}) {
    const auto [times, error] = tries(status, R"({"error": [{"message": "not enough replicas"}]})");
    EXPECT_EQ(times, rounds) << status;
    EXPECT_EQ(error.code, ErrorCode::kIo) << status;
    EXPECT_THAT(error.message, HasSubstr(fmt::format("status {}: not enough replicas", status)));
  }
  for (const int status : {400, 404, 409, 422}) {
    const auto [times, error] = tries(status, R"({"message": "no such property"})");
    EXPECT_EQ(times, 1U) << status;
    EXPECT_EQ(error.code, ErrorCode::kBadData) << status;
    EXPECT_THAT(error.message, HasSubstr(fmt::format("status {}: no such property", status)));
  }
  for (const int status : {401, 403}) {
    const auto [times, error] = tries(status, R"({"error": [{"message": "anonymous"}]})");
    EXPECT_EQ(times, 1U) << status;
    EXPECT_EQ(error.code, ErrorCode::kIo) << status;
    EXPECT_THAT(error.message, HasSubstr("the key is missing"));
  }
  // Explanations of another shape are told as they are.
  for (const char* said : {"[]", "3", "plain text", R"({"error": "no"})", R"({"error": []})",
                           R"({"error": [3]})", R"({"message": 3})", R"({"error": [{"message": 3}]})"}) {
    EXPECT_THAT(tries(422, said).second.message, HasSubstr(fmt::format("status 422: {}", said)));
  }
  EXPECT_THAT(tries(422, "").second.message, HasSubstr("status 422: nothing"));

  int asked = 0;
  answers_ = [&](const test::ServerRequest&) -> std::optional<test::ServerReply> {
    if (++asked < 3) return test::ServerReply{.status = 503};
    return test::ServerReply{.body = R"({"now": true})"};
  };
  const auto answered = asking.call({.path = "/v1/tried"});
  ASSERT_OK(answered);
  EXPECT_EQ((*answered)["now"], true);
}

TEST(WeaviateClientOptions, KeyAndCertificatesComeFromTheEnvironment) {
  const test::TestFolder folder;
  const std::string file = folder.write("key", "of-the-file\n");
  const std::string bad = folder.write("bad", "two words");
  const std::string none = folder.path() / "none";
  const auto options = [](const std::map<std::string, std::string>& variables) {
    return client_options([&](const char* name) {
      const auto found = variables.find(name);
      return found == variables.end() ? nullptr : found->second.c_str();
    });
  };
  EXPECT_EQ(options({}).value().key, "");
  EXPECT_EQ(options({{"SACCADE_WEAVIATE_KEY_FILE", file}}).value().key, "of-the-file");
  EXPECT_EQ(options({{"SACCADE_WEAVIATE_KEY", ""}, {"SACCADE_WEAVIATE_KEY_FILE", file}}).value().key,
            "of-the-file");
  EXPECT_EQ(options({{"SACCADE_WEAVIATE_KEY", "given\n"}, {"SACCADE_WEAVIATE_KEY_FILE", file}}).value().key,
            "given");
  EXPECT_EQ(options({{"SSL_CERT_FILE", ""}, {"REQUESTS_CA_BUNDLE", "/r"}}).value().certificates, "/r");
  // The lack of a file is not the lack of a class, which kNotFound stands for.
  const auto lacks = options({{"SACCADE_WEAVIATE_KEY_FILE", none}});
  ASSERT_FALSE(lacks);
  EXPECT_EQ(lacks.error().code, ErrorCode::kIo);
  EXPECT_THAT(lacks.error().message, testing::StartsWith("SACCADE_WEAVIATE_KEY_FILE: " + none));
  // The value would be two headers.
  for (const auto& variables : {std::map<std::string, std::string>{{"SACCADE_WEAVIATE_KEY", "a\r\nX: b"}},
                                std::map<std::string, std::string>{{"SACCADE_WEAVIATE_KEY_FILE", bad}}}) {
    const auto refused = options(variables);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kBadData);
    EXPECT_THAT(refused.error().message, HasSubstr("not a token"));
  }
}

TEST_F(WeaviateAnswers, ASilentNodeIsLeftAfterItsTime) {
  EXPECT_EQ(ClientOptions().reading.silence_limit, seconds(20));
  EXPECT_EQ(ClientOptions().writing.silence_limit, seconds(60));
  ClientOptions options;
  options.reading = {.rounds = 1, .silence_limit = seconds(1)};
  options.writing = {.rounds = 1, .silence_limit = seconds(60)};
  const Client asking = client(options);
  answers_ = [](const test::ServerRequest&) {
    return std::optional(test::ServerReply{.body = "{}", .wait_ms = 4'000});
  };
  // A write has longer, and leaves no connection with its limit to the requests that read.
  ASSERT_OK(asking.call({.method = "POST", .path = "/v1/tried", .writes = true}));
  const auto read = asking.call({.path = "/v1/tried"});
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kIo);
  EXPECT_THAT(read.error().message, HasSubstr("Weaviate does not answer"));
}

TEST_F(WeaviateAnswers, AStopEndsWhatReadsAndWaitsButNoWrite) {
  std::stop_source stop;
  stop.request_stop();
  const Client asking = client();
  // A write that was begun goes on to its end.
  answer_to("POST", "/v1/tried", R"({"stored": true})");
  const auto written = asking.call({.method = "POST",
                                    .path = "/v1/tried",
                                    .body = Json::object(),
                                    .writes = true,
                                    .stop = stop.get_token()});
  ASSERT_OK(written);
  EXPECT_EQ((*written)["stored"], true);
  answer_to("GET", "/v1/tried", "{}");
  const auto read = asking.call({.path = "/v1/tried", .stop = stop.get_token()});
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kCancelled);
  // It is not written a second time.
  answer_to("POST", "/v1/again", "", 503);
  const auto again =
      asking.call({.method = "POST", .path = "/v1/again", .writes = true, .stop = stop.get_token()});
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(sent("POST", "/v1/again").size(), 1U);
}

// A path is looked up as it is, then with its links followed, and then with each of them kept: one request if there are
// none.
TEST_F(WeaviateAnswers, APathIsAskedForOnceForEachOfItsNames) {
  const test::TestFolder folder;
  fs::create_directories(folder / "top/real");
  fs::create_directory_symlink(folder / "top/real", folder / "top/link");
  fs::create_directory_symlink(folder / "top", folder / "alias");
  const std::string kept = (folder / "top/link/b.jpg").string();
  const StoredItem item = stored_item(kept, 2);
  const auto collection = CollectionReader::open(address());
  ASSERT_OK(collection);
  answers_ = [&](const test::ServerRequest& request) -> std::optional<test::ServerReply> {
    if (request.path != "/v1/graphql") return {};
    const bool asked = request.body.find(item.uuid) != std::string::npos;
    return found(asked ? Json::array({item.in_graphql}) : Json::array());
  };
  const auto requests = [&] { return sent("POST", "/v1/graphql").size(); };
  size_t before = requests();
  EXPECT_EQ(collection->item_of_path(kept).value().path, kept);
  EXPECT_EQ(requests() - before, 1U);
  before = requests();
  EXPECT_EQ(collection->item_of_path(folder / "alias/link/b.jpg").value().path, kept);
  EXPECT_EQ(requests() - before, 3U);
  before = requests();
  EXPECT_EQ(collection->item_of_path(folder / "top/real/b.jpg").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(requests() - before, 1U);
}

TEST_F(WeaviateAnswers, WhatAClassKeepsIsReadAgainAndIsNoNoteOfAnImage) {
  const auto store = Store::open(address());
  ASSERT_OK(store);
  EXPECT_EQ(store->kept("figures").error().code, ErrorCode::kNotFound);
  const std::string bytes("a\0\xff\n\"", 5);
  ASSERT_OK(store->keep("figures", bytes));
  const std::vector<std::string> batches = sent("POST", "/v1/batch/objects");
  ASSERT_EQ(batches.size(), 1U);
  const Json object = Json::parse(batches.front())["objects"][0];
  EXPECT_EQ(object["class"], "PhotosNotes");
  answers_ = [=](const test::ServerRequest& request) -> std::optional<test::ServerReply> {
    if (request.path == "/v1/objects/PhotosNotes/" + object["id"].get<std::string>()) {
      return test::ServerReply{.body = dump_json(object)};
    }
    if (request.path.starts_with("/v1/objects?class=PhotosNotes&")) {
      const bool first = request.path.find("&after=") == std::string::npos;
      return test::ServerReply{.body =
                                   dump_json({{"objects", first ? Json::array({object}) : Json::array()}})};
    }
    if (request.path == "/v1/graphql" && request.body.find("lastUpdateTimeUnix") != std::string::npos) {
      return data({{"Get", {{"x", Json::array({{{"_additional", {{"lastUpdateTimeUnix", "17"}}}}})}}}});
    }
    return {};
  };
  EXPECT_EQ(store->kept("figures").value(), bytes);
  EXPECT_EQ(store->kept("other").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(store->kept_state("figures").value(), "17");
  EXPECT_TRUE(store->removed().value().empty());
  EXPECT_TRUE(store->failures().value().empty());
  EXPECT_EQ(store->summary().value().removed, 0);
  for (const char* body :
       {"1", "{}", R"({"properties": {}})", R"({"properties": {"note": "1"}})",
        R"({"properties": {"note": "{}"}})", R"({"properties": {"note": "{\"bytes\": \"*\"}"}})"}) {
    answer_to("GET", "/v1/objects/PhotosNotes/", body);
    expect_bad(store->kept("figures"), body);
  }
}

TEST_F(WeaviateAnswers, ASampleHasTheFirstItemsAndNoMore) {
  const auto store = Store::open(address());
  ASSERT_OK(store);
  const auto all = store->sample_items(10);
  ASSERT_OK(all);
  ASSERT_EQ(all->size(), 1U);
  EXPECT_EQ(all->front().values, there().whole.values);
  EXPECT_EQ(all->front().item.path, "/photos/a.jpg");
  EXPECT_EQ(store->sample_items(0).value().size(), 0U);
  // A server that lists more than were asked for does not make the sample larger.
  answers_ = [](const test::ServerRequest& request) -> std::optional<test::ServerReply> {
    if (!request.path.starts_with("/v1/objects?class=Photos&")) return {};
    EXPECT_THAT(request.path, HasSubstr("limit=2"));
    Json objects = Json::array();
    for (const char* name : {"/photos/a.jpg", "/photos/b.jpg", "/photos/c.jpg"}) {
      objects.push_back(stored_item(name, 1).in_listing);
    }
    return test::ServerReply{.body = dump_json({{"objects", objects}})};
  };
  EXPECT_EQ(store->sample_items(2).value().size(), 2U);
}

}  // namespace
}  // namespace saccade::weaviate
