// Aliases of a Weaviate cluster, and a class that is encoded anew. The server of these tests answers as /v1/aliases does:
// lists, single aliases, 404 for a missing one, 422 for a class that is missing.
#include "saccade/collection/weaviate/aliases.h"

#include <map>
#include <mutex>
#include <string>

#include <gmock/gmock.h>

#include "saccade/collection/reencode/reencode.h"
#include "saccade/collection/reencode/switch_collection.h"
#include "saccade/collection/weaviate/test_cluster.h"
#include "saccade/collection/weaviate/weaviate_client.h"

namespace saccade::weaviate {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class WeaviateAliases : public ClusterTest {
 protected:
  WeaviateAliases() {
    answers_ = [this](const test::ServerRequest& request) { return answer_alias(request); };
  }
  [[nodiscard]] std::string named(const std::string& name) const {
    const std::string photos = address();
    return photos.substr(0, photos.rfind('/') + 1) + name;
  }
  [[nodiscard]] Client client() const {
    ClientOptions options;
    options.reading.rounds = options.writing.rounds = 1;
    return Client(parsed(), options);
  }

  std::map<std::string, std::string> aliases_;
  std::string lost_;  // method of a request whose answer is lost after it had its effect

 private:
  static std::string class_body(const std::string& name) {
    CollectionInfo info;
    info.product_version = "1";
    info.created = "2026-01-31T12:00:00Z";
    info.checkpoint = test::fake_checkpoint();
    Address of;
    of.name = name;
    return dump_json(class_json(of, info));
  }
  std::optional<test::ServerReply> answer_alias(const test::ServerRequest& request) {
    const std::lock_guard lock(mutex_);
    const std::string schema = "/v1/schema/";
    if (request.method == "GET" && request.path.starts_with(schema)) {
      std::string name = request.path.substr(schema.size());
      if (aliases_.contains(name)) name = aliases_[name];
      if (name != "Photos" && name != "Renewed") return test::ServerReply{.status = 404};
      return test::ServerReply{.body = class_body(name)};
    }
    const std::string path = "/v1/aliases";
    if (!request.path.starts_with(path)) return {};
    if (request.method == "GET" && !request.path.starts_with(path + "/")) {
      Json list = Json::array();
      for (const auto& [alias, of] : aliases_) {
        if (request.path == path + "?class=" + of) list.push_back({{"alias", alias}, {"class", of}});
      }
      return test::ServerReply{.body = dump_json({{"aliases", std::move(list)}})};
    }
    const bool is_new = request.method == "POST";
    Json body = request.method == "GET" ? Json::object() : Json::parse(request.body);
    const std::string alias =
        is_new ? body["alias"].get<std::string>() : request.path.substr(path.size() + 1);
    if (!is_new && !aliases_.contains(alias)) return test::ServerReply{.status = 404};
    if (request.method != "GET") {
      const auto of = body["class"].get<std::string>();
      const bool known = of == "Photos" || of == "Renewed";
      if (!known || alias == "Photos" || alias == "Renewed") {
        return test::ServerReply{
            .status = 422, .body = R"({"error": [{"message": "class or alias is not as it should be"}]})"};
      }
      aliases_[alias] = of;
      if (request.method == lost_) return test::ServerReply{.status = 422};
    }
    return test::ServerReply{.body = dump_json({{"alias", alias}, {"class", aliases_[alias]}})};
  }

  std::mutex mutex_;
};

TEST_F(WeaviateAliases, AreCreatedAndChanged) {
  const Client cluster = client();
  EXPECT_EQ(class_of_alias(cluster, "Pictures").value(), std::nullopt);
  ASSERT_OK(set_alias(cluster, "Pictures", "Photos"));
  EXPECT_EQ(class_of_alias(cluster, "Pictures").value(), "Photos");
  EXPECT_THAT(aliases_of_class(cluster, "Photos").value(), ElementsAre("Pictures"));
  EXPECT_THAT(aliases_of_class(cluster, "Renewed").value(), IsEmpty());
  ASSERT_OK(set_alias(cluster, "Pictures", "Renewed"));
  EXPECT_EQ(class_of_alias(cluster, "Pictures").value(), "Renewed");
  // The first is made, and the second is one request that changes it.
  EXPECT_EQ(Json::parse(sent("POST", "/v1/aliases").front()),
            (Json{{"class", "Photos"}, {"alias", "Pictures"}}));
  EXPECT_EQ(Json::parse(sent("PUT", "/v1/aliases/Pictures").front()), (Json{{"class", "Renewed"}}));
  ASSERT_OK(set_alias(cluster, "Pictures", "Renewed"));
  EXPECT_THAT(sent("PUT", "/v1/aliases/Pictures"), SizeIs(1));
}

TEST_F(WeaviateAliases, ARefusalHasTheEnginesReason) {
  const Status refused = set_alias(client(), "Pictures", "Missing");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kBadData);
  EXPECT_THAT(refused.error().message, HasSubstr("not as it should be"));
}

TEST_F(WeaviateAliases, AChangeWhoseAnswerIsLostCounts) {
  ASSERT_OK(set_alias(client(), "Pictures", "Photos"));
  lost_ = "PUT";
  ASSERT_OK(set_alias(client(), "Pictures", "Renewed"));
  EXPECT_EQ(class_of_alias(client(), "Pictures").value(), "Renewed");
}

TEST_F(WeaviateAliases, AnAnswerOfAnotherShapeIsRefused) {
  answer_to("GET", "/v1/aliases", R"({"aliases": 3})");
  EXPECT_EQ(aliases_of_class(client(), "Photos").error().code, ErrorCode::kBadData);
  answer_to("GET", "/v1/aliases", R"({"aliases": [null]})");
  EXPECT_EQ(aliases_of_class(client(), "Photos").error().code, ErrorCode::kBadData);
  answer_to("GET", "/v1/aliases", R"({"alias": "Pictures"})");
  EXPECT_EQ(class_of_alias(client(), "Pictures").error().code, ErrorCode::kBadData);
}

TEST_F(WeaviateAliases, SwitchFromOneClassToTheNext) {
  aliases_["Pictures"] = "Photos";
  const std::string first = address();
  const std::string second = named("Renewed");
  const std::string alias = named("Pictures");
  EXPECT_EQ(settled_collection(alias + "?root=photos=/mnt").value(), first + "?root=photos=/mnt");
  EXPECT_EQ(where_name_leads(alias, first, second).value(), NameLeads::kToFirst);
  ASSERT_OK(check_has_no_alias(second));
  ASSERT_OK(switch_name(alias, first, second));
  EXPECT_EQ(aliases_["Pictures"], "Renewed");
  EXPECT_EQ(where_name_leads(alias, first, second).value(), NameLeads::kToSecond);
  EXPECT_EQ(where_name_leads(named("Free"), first, second).value(), NameLeads::kNowhere);
  ASSERT_OK(switch_name(alias, first, second));
  // A class that is in use is not filled any more.
  const Status used = check_has_no_alias(second);
  ASSERT_FALSE(used);
  EXPECT_EQ(used.error().code, ErrorCode::kMismatch);
  EXPECT_THAT(used.error().message, HasSubstr("Pictures"));
  const auto info = CollectionReader::open(alias);
  ASSERT_OK(info);
  EXPECT_EQ(info->folder(), alias);
}

TEST_F(WeaviateAliases, RefuseANameThatLeadsElsewhere) {
  const std::string first = address();
  const std::string second = named("Renewed");
  const auto refusal = [&](const std::string& name, const std::string& from, const std::string& to) {
    const auto leads = where_name_leads(name, from, to);
    EXPECT_FALSE(leads);
    return leads ? std::string() : leads.error().message;
  };
  EXPECT_THAT(refusal(first, first, second), HasSubstr("a class has this name"));
  aliases_["Pictures"] = "Photos";
  EXPECT_THAT(refusal(named("Pictures"), named("Other"), second), HasSubstr("leads to the class Photos"));
  EXPECT_THAT(refusal(named("Pictures"), "/photos", second), HasSubstr("leads to the class Photos"));
  EXPECT_THAT(refusal(named("Pictures"), first, "/photos"), HasSubstr("an alias cannot lead to /photos"));
  EXPECT_THAT(sent("PUT", "/v1/aliases"), IsEmpty());
}

TEST_F(WeaviateAliases, AClassIsEncodedIntoAFolder) {
  const test::TestFolder temporary;
  const std::string path = (temporary.path() / "a.png").string();
  test::write_text(path, test::png(1));
  StoredItem stored = stored_item(path, 1);
  Item& item = stored.whole.item;
  item.hash = sha256_hex(test::png(1));
  item.size = static_cast<int64_t>(test::png(1).size());
  item.caption = "of a cluster";
  const Json properties = properties_of(parsed(), stored.whole, "");
  stored.in_graphql["item"] = properties["item"];
  stored.in_listing["properties"] = properties;
  answers_ = [&](const test::ServerRequest& request) -> std::optional<test::ServerReply> {
    if (request.path == "/v1/graphql") return found(Json::array({stored.in_graphql}));
    if (!request.path.starts_with("/v1/objects?class=Photos&")) return {};
    const bool first = request.path.find("&after=") == std::string::npos;
    return test::ServerReply{
        .body = dump_json({{"objects", first ? Json::array({stored.in_listing}) : Json::array()}})};
  };
  auto from = CollectionReader::open(address());
  ASSERT_OK(from);
  WriterOptions writing;
  writing.copy_of = identity_of(from->info());
  const std::filesystem::path folder = temporary.path() / "c";
  auto into = CollectionWriter::create(folder, test::fake_checkpoint(), {}, writing);
  ASSERT_OK(into);
  test::FakeEncoder encoder;
  ThreadPool pool(2);
  const auto report = reencode(
      *into, [&]() -> Result<EncoderBackend*> { return &encoder; }, *from, {}, pool);
  ASSERT_OK(report);
  EXPECT_EQ(report->items, 1);
  EXPECT_EQ(report->added, 1);
  EXPECT_THAT(report->failed, IsEmpty());
  const auto made = CollectionReader::open(folder);
  ASSERT_OK(made);
  const auto found_item = made->item_of_path(path);
  ASSERT_OK(found_item);
  EXPECT_EQ(found_item->id, 1);  // ids of a cluster are made of paths
  EXPECT_EQ(found_item->hash, item.hash);
  EXPECT_EQ(found_item->caption, "of a cluster");
  EXPECT_EQ(test::faults(folder), "");
}

// A class holds valid UTF-8 alone: bytes that are none do not make an item differ in every pass.
TEST_F(WeaviateAliases, ACaptionThatIsNoUtf8IsCarriedOnce) {
  const test::TestFolder temporary;
  const std::filesystem::path folder = temporary.path() / "c";
  const std::string path = "/photos/a.jpg";
  StoredItem stored = stored_item(path, 1);
  stored.whole.item.caption = "a caf\xe9";
  {
    auto writer = CollectionWriter::create(folder, test::fake_checkpoint());
    ASSERT_OK(writer);
    CollectionChange change;
    change.puts = {test::put_of(path, 1)};
    change.puts.front().item.caption = stored.whole.item.caption;
    ASSERT_OK(writer->commit(change));
  }
  auto from = CollectionReader::open(folder);
  ASSERT_OK(from);
  CollectionInfo info;
  info.product_version = "1";
  info.created = "2026-01-31T12:00:00Z";
  info.checkpoint = test::fake_checkpoint();
  info.copy_of = identity_of(from->info());
  const std::string schema = dump_json(class_json(parsed(), info));
  const Json properties = properties_of(parsed(), stored.whole, "");
  stored.in_graphql["item"] = properties["item"];
  stored.in_listing["properties"] = properties;
  answers_ = [&](const test::ServerRequest& request) -> std::optional<test::ServerReply> {
    if (request.path == "/v1/schema/Photos") return test::ServerReply{.body = schema};
    if (request.path == "/v1/graphql") return found(Json::array({stored.in_graphql}));
    if (!request.path.starts_with("/v1/objects?class=Photos&")) return {};
    const bool first = request.path.find("&after=") == std::string::npos;
    return test::ServerReply{
        .body = dump_json({{"objects", first ? Json::array({stored.in_listing}) : Json::array()}})};
  };
  auto into = CollectionWriter::open(address());
  ASSERT_OK(into);
  test::FakeEncoder encoder;
  ThreadPool pool(2);
  const auto report = reencode(
      *into, [&]() -> Result<EncoderBackend*> { return &encoder; }, *from, {}, pool);
  ASSERT_OK(report);
  EXPECT_EQ(report->items, 1);
  EXPECT_EQ(report->unchanged, 1);
  EXPECT_EQ(report->described, 0);
  EXPECT_THAT(sent("POST", "/v1/batch/objects"), IsEmpty());
}

}  // namespace
}  // namespace saccade::weaviate
