// Server in place of a Weaviate cluster, for tests of answers that a real one does not give. It has the class Photos with
// one item and no notes, and stores nothing. A test replaces single answers by ones that are malformed on purpose; what a
// real server answers is recorded in tests/golden/weaviate.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "saccade/collection/test_support.h"
#include "saccade/collection/weaviate/address.h"
#include "saccade/collection/weaviate/objects.h"
#include "saccade/core/json.h"
#include "saccade/hub/test_server.h"

namespace saccade::weaviate {

// An item as a writer stores it.
struct StoredItem {
  WholeItem whole;  // with its id
  std::string uuid;
  Json in_graphql;  // as GraphQL gives it, with its row
  Json in_listing;  // as /v1/objects gives it
};

class ClusterTest : public testing::Test {
 protected:
  // Returns the answer to a request, or nullopt for the usual one.
  using Answers = std::function<std::optional<test::ServerReply>(const test::ServerRequest&)>;

  [[nodiscard]] std::string address() const {
    return "weaviate://" + server_.endpoint().substr(std::string("http://").size()) + "/Photos";
  }
  [[nodiscard]] Address parsed() const { return parse_address(address()).value(); }

  // stored: the name of which the UUID is made; empty: the item's path.
  [[nodiscard]] static StoredItem stored_item(const std::string& path, int seed,
                                              const std::string& stored = "") {
    CollectionChange::Put put = test::put_of(path, seed);
    StoredItem item;
    item.uuid = uuid_of("Photos", stored.empty() ? path : stored);
    item.whole = {std::move(put.item), ItemFacts{}, std::move(put.values)};
    item.whole.item.id = item.whole.item.row = id_of(item.uuid);
    Address of;
    of.name = "Photos";
    const Json properties = properties_of(of, item.whole, "");
    item.in_graphql = {
        {"item", properties["item"]}, {"row", properties["row"]}, {"_additional", {{"id", item.uuid}}}};
    item.in_listing = {{"class", "Photos"}, {"id", item.uuid}, {"properties", properties}};
    return item;
  }
  // The item that the server has.
  [[nodiscard]] static const StoredItem& there() {
    static const StoredItem item = stored_item("/photos/a.jpg", 1);
    return item;
  }

  [[nodiscard]] static test::ServerReply data(const Json& value) {
    return {.body = dump_json({{"data", value}})};
  }
  // An answer to GraphQL of these objects, under the names that the store gives them.
  [[nodiscard]] static test::ServerReply found(const Json& objects) {
    return data({{"Get", {{"x", objects}, {"near", objects}, {"words", objects}}}, {"Aggregate", counts()}});
  }
  [[nodiscard]] static Json counts() {
    const Json one = Json::array({{{"meta", {{"count", 1}}}}});
    Json all;
    for (const char* name : {"x", "met", "all", "captions", "looked", "photographs"}) all[name] = one;
    all["all"][0]["size"] = {{"sum", 101}};
    all["formats"] = Json::array({{{"groupedBy", {{"value", "=jpeg="}}}, {"meta", {{"count", 1}}}}});
    return all;
  }
  // Makes the server give this body to requests that begin so.
  void answer_to(const std::string& method, const std::string& path, const std::string& body,
                 int status = 200) {
    answers_ = [=](const test::ServerRequest& request) -> std::optional<test::ServerReply> {
      if (request.method != method || !request.path.starts_with(path)) return {};
      return test::ServerReply{.status = status, .body = body};
    };
  }

  // Returns the bodies of the requests that begin so, in their order.
  [[nodiscard]] std::vector<std::string> sent(const std::string& method, const std::string& path) const {
    std::vector<std::string> bodies;
    for (const test::ServerRequest& request : server_.requests()) {
      if (request.method == method && request.path.starts_with(path)) bodies.push_back(request.body);
    }
    return bodies;
  }

  Answers answers_;  // set while no request is under way

 private:
  test::ServerReply answer(const test::ServerRequest& request) {
    if (answers_) {
      if (auto reply = answers_(request)) return *std::move(reply);
    }
    if (request.path == "/v1/meta") return {.body = R"({"version": "1.35.2"})"};
    if (request.path == "/v1/schema/Photos") {
      CollectionInfo info;
      info.product_version = "1";
      info.created = "2026-01-31T12:00:00Z";
      info.checkpoint = test::fake_checkpoint();
      Address of;
      of.name = "Photos";
      return {.body = dump_json(class_json(of, info))};
    }
    if (request.path == "/v1/schema") return {.body = request.body};
    if (request.path == "/v1/graphql") return found(Json::array({there().in_graphql}));
    if (request.path.starts_with("/v1/objects?class=Photos&")) {
      const bool first = request.path.find("&after=") == std::string::npos;
      return {.body = dump_json({{"objects", first ? Json::array({there().in_listing}) : Json::array()}})};
    }
    if (request.path.starts_with("/v1/objects?class=PhotosNotes&")) return {.body = R"({"objects": []})"};
    if (request.path.starts_with("/v1/batch/objects")) {
      if (request.method == "DELETE") return {.body = R"({"results": {"failed": 0}})"};
      Json results = Json::array();
      for (size_t i = 0; i < Json::parse(request.body)["objects"].size(); ++i) {
        results.push_back({{"result", {{"status", "SUCCESS"}}}});
      }
      return {.body = dump_json(results)};
    }
    return {.status = 404};
  }

  test::TestServer server_{[this](const test::ServerRequest& request) { return answer(request); }};
};

}  // namespace saccade::weaviate
