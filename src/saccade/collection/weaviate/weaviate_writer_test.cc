// Writing side of a collection in a Weaviate cluster that does not do what it is asked to. The cluster refuses changes,
// gives answers that are malformed on purpose, or has lost items that another worker removed. A stop may be requested
// while a writer waits for it.
#include "saccade/collection/weaviate/weaviate_writer.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <future>
#include <limits>
#include <stop_token>

#include <gmock/gmock.h>

#include "saccade/collection/catalog/filter.h"
#include "saccade/collection/weaviate/test_cluster.h"
#include "saccade/collection/weaviate/weaviate_client.h"

namespace saccade::weaviate {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

class WeaviateWriter : public ClusterTest {
 protected:
  // A change that stores a new item.
  [[nodiscard]] static CollectionChange one_more() {
    CollectionChange change;
    change.puts = {test::put_of("/photos/b.jpg", 2)};
    return change;
  }
  [[nodiscard]] size_t stored() const { return sent("POST", "/v1/batch/objects").size(); }
  [[nodiscard]] size_t deleted() const { return sent("DELETE", "/v1/batch/objects").size(); }
  // Makes GraphQL find these items by their ids, and all of them where no id is asked for.
  void have(const std::vector<StoredItem>& items) {
    answers_ = [items](const test::ServerRequest& request) -> std::optional<test::ServerReply> {
      if (request.path != "/v1/graphql") return {};
      Json objects = Json::array();
      const bool by_id = request.body.find("operator:Equal,valueNumber:") != std::string::npos;
      for (const StoredItem& item : items) {
        const std::string number = fmt::format("valueNumber:{}}}", item.whole.item.id);
        if (!by_id || request.body.find(number) != std::string::npos) objects.push_back(item.in_graphql);
      }
      return found(objects);
    };
  }
};

template <typename T>
void expect_error(const Result<T>& result, ErrorCode code, const std::string& text) {
  ASSERT_FALSE(result) << text;
  EXPECT_EQ(result.error().code, code) << text << ": " << result.error().message;
}

TEST_F(WeaviateWriter, StoresAndRemoves) {
  auto writer = Writer::open(address());
  ASSERT_OK(writer);
  ASSERT_OK(writer->commit(one_more()));
  ASSERT_EQ(stored(), 1U);
  const Json object = Json::parse(sent("POST", "/v1/batch/objects").front())["objects"][0];
  EXPECT_EQ(object["id"], uuid_of("Photos", "/photos/b.jpg"));
  const std::vector<int64_t> ids = {there().whole.item.id};
  EXPECT_EQ(writer->remove_ids(ids).value(), 1);
  ASSERT_EQ(deleted(), 1U);
  EXPECT_THAT(sent("DELETE", "/v1/batch/objects").front(), HasSubstr(there().uuid));
  EXPECT_TRUE(writer->was_removed("/photos/a.jpg").value());
}

TEST_F(WeaviateWriter, SizesWhoseProductIsNoIntegerAreStored) {
  auto writer = Writer::open(address());
  ASSERT_OK(writer);
  CollectionChange change = one_more();
  change.puts.front().item.width = std::numeric_limits<int64_t>::max();
  change.puts.front().item.height = 4;
  ASSERT_OK(writer->commit(change));
  const Json object = Json::parse(sent("POST", "/v1/batch/objects").front())["objects"][0];
  EXPECT_DOUBLE_EQ(object["properties"]["pixels"].get<double>(), std::ldexp(1, 63));
  EXPECT_EQ(object["properties"]["width"], std::numeric_limits<int64_t>::max());
}

TEST_F(WeaviateWriter, NotesOfAnotherShapeAreRefused) {
  for (const char* object :
       {"null", "1", R"({"id": "a"})", R"({"id": "a", "properties": null})",
        R"({"id": "a", "properties": {}})",
        R"({"id": "a", "properties": {"kind": "=removed=", "path": "/b"}})",
        R"({"id": "a", "properties": {"kind": "=removed=", "path": "/b", "note": "{}"}})",
        R"({"id": "a", "properties": {"kind": "=removed=", "path": "/b", "note": "null"}})"}) {
    const std::string body = fmt::format(R"({{"objects": [{}]}})", object);
    answer_to("GET", "/v1/objects?class=PhotosNotes", body);
    expect_error(Writer::open(address()), ErrorCode::kBadData, body);
  }
  // A writer without its notes would take in what was removed.
  for (const char* body : {"", "null", "{}", R"({"objects": null})"}) {
    answer_to("GET", "/v1/objects?class=PhotosNotes", body);
    expect_error(Writer::open(address()), ErrorCode::kBadData, body);
  }
}

TEST_F(WeaviateWriter, AListingOfAnotherShapeIsRefused) {
  const auto writer = Writer::open(address());
  ASSERT_OK(writer);
  const auto visit = [](const Item&) { return Status{}; };
  for (const char* body : {"null", "{}", R"({"objects": [null]})", R"({"objects": [{"id": "a"}]})",
                           R"({"objects": [{"id": "a", "properties": null}]})"}) {
    answer_to("GET", "/v1/objects?class=Photos&", body);
    expect_error(writer->for_each_item_under("/photos", visit), ErrorCode::kBadData, body);
  }
}

TEST_F(WeaviateWriter, EachObjectThatIsSentHasItsResult) {
  auto writer = Writer::open(address());
  ASSERT_OK(writer);
  for (const char* body :
       {"", "null", "3", "{}", "[]", R"([{"result": {}}, {"result": {}}])", R"({"0": {"result": {}}})",
        "[null]", "[1]", "[[]]", "[{}]", R"([{"result": null}])", R"([{"result": "SUCCESS"}])"}) {
    answer_to("POST", "/v1/batch/objects", body);
    const size_t before = stored();
    expect_error(writer->commit(one_more()), ErrorCode::kBadData, body);
    EXPECT_EQ(stored() - before, 1U) << body;
  }
  answer_to("POST", "/v1/batch/objects", R"([{"result": {"errors": null}}])");
  EXPECT_TRUE(writer->commit(one_more()));
  answer_to("POST", "/v1/batch/objects", R"({"error": [{"message": "invalid property"}]})", 422);
  const Status refused = writer->commit(one_more());
  expect_error(refused, ErrorCode::kBadData, "422");
  EXPECT_THAT(refused.error().message, HasSubstr("invalid property"));
}

TEST_F(WeaviateWriter, OnlyObjectsThatWereRefusedAreSentAgain) {
  auto writer = Writer::open(address());
  ASSERT_OK(writer);
  CollectionChange change = one_more();
  change.puts.push_back(test::put_of("/photos/c.jpg", 3));
  std::atomic<int> times = 0;
  answers_ = [&](const test::ServerRequest& request) -> std::optional<test::ServerReply> {
    if (request.method != "POST" || !request.path.starts_with("/v1/batch") || ++times > 1) return {};
    return test::ServerReply{.body = R"([{"result": {"status": "SUCCESS"}},
      {"result": {"errors": {"error": [{"message": "no replica"}]}, "status": "FAILED"}}])"};
  };
  ASSERT_OK(writer->commit(change));
  const auto batches = sent("POST", "/v1/batch/objects");
  ASSERT_EQ(batches.size(), 2U);
  const Json again = Json::parse(batches[1])["objects"];
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0]["id"], uuid_of("Photos", "/photos/c.jpg"));
}

TEST_F(WeaviateWriter, ARemovalThatIsNotConfirmedIsAnError) {
  auto writer = Writer::open(address());
  ASSERT_OK(writer);
  const std::vector<int64_t> ids = {there().whole.item.id};
  CollectionChange change;
  change.removals = ids;
  for (const char* body :
       {"", "null", "3", "[]", "{}", R"({"results": null})", R"({"results": []})", R"({"results": {}})",
        R"({"results": {"failed": null}})", R"({"results": {"failed": "0"}})",
        R"({"results": {"matches": 1, "successful": 1}})"}) {
    answer_to("DELETE", "/v1/batch/objects", body);
    expect_error(writer->remove_ids(ids), ErrorCode::kBadData, body);
    expect_error(writer->remove_path("/photos"), ErrorCode::kBadData, body);
    expect_error(writer->commit(change), ErrorCode::kBadData, body);
  }
  // Objects that could not be removed are asked for again.
  std::atomic<int> times = 0;
  answers_ = [&](const test::ServerRequest& request) -> std::optional<test::ServerReply> {
    if (request.method != "DELETE" || ++times > 1) return {};
    return test::ServerReply{.body = R"({"results": {"failed": 1, "matches": 1}})"};
  };
  EXPECT_EQ(writer->remove_ids(ids).value(), 1);
  EXPECT_EQ(times, 2);
}

// Any worker may remove an item at any time.
TEST_F(WeaviateWriter, ItemsThatAnotherWorkerRemovedArePassedOver) {
  auto writer = Writer::open(address());
  ASSERT_OK(writer);
  have({});
  const Item gone = there().whole.item;
  for (const char* kind : {"put", "update", "facts", "removal"}) {
    CollectionChange change = one_more();
    const std::string of = kind;
    if (of == "put") {
      change.puts.push_back(test::put_of(gone.path, 1));
      change.puts.back().item.id = gone.id;
    }
    if (of == "update") change.updates = {gone};
    if (of == "facts") change.facts = {{gone.id, ItemFacts{}}};
    if (of == "removal") change.removals = {gone.id};
    const size_t before = stored();
    const Status done = writer->commit(change);
    ASSERT_TRUE(done) << kind << ": " << done.error().message;
    ASSERT_EQ(stored() - before, 1U) << kind;
    const Json objects = Json::parse(sent("POST", "/v1/batch/objects").back())["objects"];
    ASSERT_EQ(objects.size(), 1U) << kind;
    EXPECT_EQ(objects[0]["id"], uuid_of("Photos", "/photos/b.jpg")) << kind;
  }
  EXPECT_EQ(deleted(), 0U);
  const std::vector<int64_t> ids = {gone.id};
  EXPECT_EQ(writer->remove_ids(ids).value(), 0);
}

// The other errors are none of an item that is gone.
TEST_F(WeaviateWriter, AnAnswerOfAnotherShapeIsNoRemovedItem) {
  auto writer = Writer::open(address());
  ASSERT_OK(writer);
  answer_to("POST", "/v1/graphql", R"({"data": {"Get": {"x": null}}})");
  const Item item = there().whole.item;
  const std::vector<int64_t> ids = {item.id};
  CollectionChange update;
  update.updates = {item};
  CollectionChange removal;
  removal.removals = ids;
  CollectionChange put;
  put.puts = {test::put_of(item.path, 1)};
  put.puts.front().item.id = item.id;
  for (const CollectionChange& change : {update, removal, put}) {
    expect_error(writer->commit(change), ErrorCode::kBadData, "null");
  }
  expect_error(writer->remove_ids(ids), ErrorCode::kBadData, "null");
  expect_error(writer->remove_path("/photos"), ErrorCode::kBadData, "null");
  expect_error(writer->find_path(item.path), ErrorCode::kBadData, "null");
  expect_error(writer->find_hash(item.hash, 0), ErrorCode::kBadData, "null");
  EXPECT_EQ(stored() + deleted(), 0U);
}

TEST_F(WeaviateWriter, AnItemIsNotStoredAgainWithoutItsRow) {
  auto writer = Writer::open(address());
  ASSERT_OK(writer);
  CollectionChange change;
  change.updates = {there().whole.item};
  for (const char* row : {"none", "null", "\"\"", "\"AACAPw==\""}) {
    Json object = there().in_graphql;
    object.erase("row");
    if (std::string_view(row) != "none") object["row"] = Json::parse(row);
    answer_to("POST", "/v1/graphql", found(Json::array({object})).body);
    expect_error(writer->commit(change), ErrorCode::kBadData, row);
  }
  EXPECT_EQ(stored(), 0U);
}

// An object's UUID is made of the path as it was stored, and of the class's name: an object of another UUID cannot be
// found by its path.
TEST_F(WeaviateWriter, AnObjectOfOtherRootsIsNeitherRemovedNorStoredTwice) {
  auto writer = Writer::open(address());
  ASSERT_OK(writer);
  const StoredItem item = stored_item("/photos/a.jpg", 1, "photos/a.jpg");
  int asked = 0;
  answers_ = [&](const test::ServerRequest& request) -> std::optional<test::ServerReply> {
    if (request.path != "/v1/graphql") return {};
    // A loop that removes nothing ends here.
    return found(++asked > 100 ? Json::array() : Json::array({item.in_graphql}));
  };
  const int64_t id = item.whole.item.id;
  const std::vector<int64_t> ids = {id};
  const auto removed = writer->remove_ids(ids);
  expect_error(removed, ErrorCode::kMismatch, "ids");
  EXPECT_THAT(removed.error().message, HasSubstr("/photos/a.jpg"));
  expect_error(writer->remove_path("/photos"), ErrorCode::kMismatch, "path");
  expect_error(writer->remove_matching(parse_filter("width>1").value()), ErrorCode::kMismatch, "filter");
  CollectionChange removal;
  removal.removals = ids;
  CollectionChange update;
  update.updates = {item.whole.item};
  CollectionChange facts;
  facts.facts = {{id, ItemFacts{}}};
  for (const CollectionChange& change : {removal, update, facts}) {
    expect_error(writer->commit(change), ErrorCode::kMismatch, "change");
  }
  EXPECT_EQ(stored() + deleted(), 0U);
  EXPECT_FALSE(writer->was_removed("/photos/a.jpg").value());
}

TEST_F(WeaviateWriter, AnItemThatALaggingReplicaListsAgainCountsOnce) {
  auto writer = Writer::open(address());
  ASSERT_OK(writer);
  std::atomic<int> asked = 0;
  answers_ = [&](const test::ServerRequest& request) -> std::optional<test::ServerReply> {
    if (request.path != "/v1/graphql") return {};
    return found(++asked > 2 ? Json::array() : Json::array({there().in_graphql}));
  };
  EXPECT_EQ(writer->remove_path("/photos").value(), 1);
  EXPECT_EQ(deleted(), 2U);
  asked = 0;
  EXPECT_EQ(writer->remove_matching(parse_filter("width>1").value()).value(), 1);
}

TEST_F(WeaviateWriter, AnItemThatMovesLeavesNoObject) {
  auto writer = Writer::open(address());
  ASSERT_OK(writer);
  const StoredItem a = stored_item("/photos/a.jpg", 1);
  const StoredItem b = stored_item("/photos/b.jpg", 2);
  have({a, b});
  CollectionChange change;
  change.updates = {a.whole.item};
  change.updates[0].path = "/photos/c.jpg";
  ASSERT_OK(writer->commit(change));
  ASSERT_EQ(deleted(), 1U);
  EXPECT_THAT(sent("DELETE", "/v1/batch/objects").front(), HasSubstr(a.uuid));
  // Names that were exchanged: each object is written, and none removed.
  change.updates = {a.whole.item, b.whole.item};
  std::swap(change.updates[0].path, change.updates[1].path);
  ASSERT_OK(writer->commit(change));
  EXPECT_EQ(deleted(), 1U);
  const Json objects = Json::parse(sent("POST", "/v1/batch/objects").back())["objects"];
  ASSERT_EQ(objects.size(), 2U);
  for (const Json& object : objects) {
    const bool was_b = object["id"] == a.uuid;
    EXPECT_EQ(object["properties"]["row"], (was_b ? b : a).in_graphql["row"]);
  }
  // A new file at the path that another one had.
  change.updates.pop_back();
  change.updates[0].path = "/photos/c.jpg";
  change.puts = {test::put_of("/photos/a.jpg", 4)};
  ASSERT_OK(writer->commit(change));
  EXPECT_EQ(deleted(), 1U);
}

TEST_F(WeaviateWriter, WhatTheClusterDidNotNoteIsNotRemembered) {
  auto writer = Writer::open(address());
  ASSERT_OK(writer);
  CollectionChange change;
  change.removed = {{"/photos/x.jpg", "abc"}};
  change.failures = {{"/photos/y.jpg", ErrorCode::kBadData, "not a JPEG", 10, 20, 30}};
  const std::string refusal = R"({"error": [{"message": "read only"}]})";
  answer_to("POST", "/v1/batch/objects", refusal, 422);
  const Status refused = writer->commit(change);
  expect_error(refused, ErrorCode::kBadData, "422");
  EXPECT_THAT(refused.error().message, HasSubstr("read only"));
  EXPECT_FALSE(writer->was_removed("/photos/x.jpg").value());
  EXPECT_FALSE(writer->find_failure("/photos/y.jpg").value());
  answers_ = nullptr;
  ASSERT_OK(writer->commit(change));
  EXPECT_TRUE(writer->was_removed("/photos/x.jpg").value());
  ASSERT_TRUE(writer->find_failure("/photos/y.jpg").value());
  EXPECT_EQ(writer->find_failure("/photos/y.jpg").value()->tries, 1) << "a try that was not noted counts";

  CollectionChange forget;
  forget.forget_removed = {"/photos/x.jpg"};
  forget.forget_failures = {"/photos/y.jpg"};
  answer_to("DELETE", "/v1/batch/objects", refusal, 422);
  expect_error(writer->commit(forget), ErrorCode::kBadData, "422");
  EXPECT_TRUE(writer->was_removed("/photos/x.jpg").value());
  EXPECT_TRUE(writer->find_failure("/photos/y.jpg").value());
  answers_ = nullptr;
  EXPECT_EQ(writer->forget_removed("/photos").value(), 1);
  ASSERT_OK(writer->commit(forget));
  EXPECT_FALSE(writer->was_removed("/photos/x.jpg").value());
  EXPECT_FALSE(writer->find_failure("/photos/y.jpg").value());
}

TEST_F(WeaviateWriter, LooksUpWhileNotesAreUnderWay) {
  auto writer = Writer::open(address());
  ASSERT_OK(writer);
  std::future<bool> looked;
  std::future_status at_once = std::future_status::deferred;
  answers_ = [&](const test::ServerRequest& request) -> std::optional<test::ServerReply> {
    if (request.method != "POST" || request.body.find("PhotosNotes") == std::string::npos) return {};
    looked = std::async(std::launch::async, [&] { return writer->was_removed("/photos/x.jpg").value(); });
    at_once = looked.wait_for(seconds(10));  // not for ever: a writer that holds its lock goes on afterwards
    return {};
  };
  CollectionChange change;
  change.removed = {{"/photos/x.jpg", "abc"}};
  ASSERT_OK(writer->commit(change));
  ASSERT_TRUE(looked.valid());
  EXPECT_EQ(at_once, std::future_status::ready);
  EXPECT_FALSE(looked.get()) << "it was not noted yet";
  EXPECT_TRUE(writer->was_removed("/photos/x.jpg").value());
}

// The cluster cannot take a change now. Without a stop, each of these writers waits for half a minute.
class WeaviateWriterStop : public WeaviateWriter {
 protected:
  // Makes the server request the stop, and give this answer, when it gets a request that begins so.
  void stop_at(const std::string& method, const std::string& path, const test::ServerReply& reply) {
    answers_ = [this, method, path,
                reply](const test::ServerRequest& request) -> std::optional<test::ServerReply> {
      if (request.method != method || !request.path.starts_with(path)) return {};
      stop_.request_stop();
      return reply;
    };
  }
  std::stop_source stop_;
};

TEST_F(WeaviateWriterStop, EndsTheWaitForANode) {
  auto writer = Writer::open(address(), stop_.get_token());
  ASSERT_OK(writer);
  stop_at("POST", "/v1/batch/objects", {.status = 503});
  expect_error(writer->commit(one_more()), ErrorCode::kCancelled, "503");
  EXPECT_EQ(stored(), 1U);
}

TEST_F(WeaviateWriterStop, EndsTheWaitForAReplica) {
  auto writer = Writer::open(address(), stop_.get_token());
  ASSERT_OK(writer);
  stop_at(
      "POST", "/v1/batch/objects",
      {.body = R"([{"result": {"errors": {"error": [{"message": "no replica"}]}, "status": "FAILED"}}])"});
  expect_error(writer->commit(one_more()), ErrorCode::kCancelled, "no replica");
  EXPECT_EQ(stored(), 1U);
}

TEST_F(WeaviateWriterStop, EndsTheWaitForARemoval) {
  auto writer = Writer::open(address(), stop_.get_token());
  ASSERT_OK(writer);
  stop_at("DELETE", "/v1/batch/objects", {.body = R"({"results": {"failed": 1}})"});
  const std::vector<int64_t> ids = {there().whole.item.id};
  expect_error(writer->remove_ids(ids), ErrorCode::kCancelled, "failed");
  EXPECT_EQ(deleted(), 1U);
}

TEST_F(WeaviateWriterStop, EndsTheWaitForALaggingReplica) {
  auto writer = Writer::open(address(), stop_.get_token());
  ASSERT_OK(writer);
  int asked = 0;
  answers_ = [&](const test::ServerRequest& request) -> std::optional<test::ServerReply> {
    if (request.method == "DELETE") stop_.request_stop();
    if (request.path != "/v1/graphql") return {};
    return found(++asked > 100 ? Json::array() : Json::array({there().in_graphql}));
  };
  expect_error(writer->remove_path("/photos"), ErrorCode::kCancelled, "listed again");
  EXPECT_EQ(deleted(), 1U);
}

TEST_F(WeaviateWriterStop, EndsTheWaitForAClass) {
  stop_at("POST", "/v1/schema", {.status = 503});
  expect_error(Writer::create(address(), test::fake_checkpoint(), IngestSettings{}, stop_.get_token()),
               ErrorCode::kCancelled, "503");
  EXPECT_EQ(sent("POST", "/v1/schema").size(), 1U);
}

// The options of the public class reach the writer.
TEST_F(WeaviateWriterStop, IsAnOptionOfEveryWriter) {
  auto writer = CollectionWriter::open(address(), {.stop = stop_.get_token()});
  ASSERT_OK(writer);
  stop_at("POST", "/v1/batch/objects", {.status = 503});
  expect_error(writer->commit(one_more()), ErrorCode::kCancelled, "open");
  auto made = CollectionWriter::create(address(), test::fake_checkpoint(), {}, {.stop = stop_.get_token()});
  ASSERT_OK(made);
  expect_error(made->commit(one_more()), ErrorCode::kCancelled, "create");
}

// A change that is under way when a stop is requested is stored, and known to be.
TEST_F(WeaviateWriterStop, EndsNoRequestThatIsUnderWay) {
  auto writer = Writer::open(address(), stop_.get_token());
  ASSERT_OK(writer);
  stop_at("POST", "/v1/batch/objects", {.body = R"([{"result": {"status": "SUCCESS"}}])", .wait_ms = 1'500});
  CollectionChange change;
  change.removed = {{"/photos/x.jpg", "abc"}};
  ASSERT_OK(writer->commit(change));
  EXPECT_TRUE(writer->was_removed("/photos/x.jpg").value());
}

}  // namespace
}  // namespace saccade::weaviate
