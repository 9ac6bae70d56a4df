// Addresses, names and filters of collections in a Weaviate cluster. What a server answers is tested in
// search/weaviate_protocol_test.cc, and answers that none should give in weaviate_answers_test.cc and
// weaviate_writer_test.cc.
#include <gtest/gtest.h>

#include "saccade/collection/weaviate/address.h"
#include "saccade/collection/weaviate/objects.h"
#include "saccade/collection/weaviate/where.h"
#include "saccade/core/uuid.h"

namespace saccade::weaviate {
namespace {

TEST(WeaviateAddress, NodesNameAndOptions) {
  const auto address = parse_address("weaviate://a,b:81/Photos?root=p=/mnt/p/&replicas=2&root=q=/q&shards=6");
  ASSERT_TRUE(address) << address.error().message;
  EXPECT_EQ(address->endpoints, (std::vector<std::string>{"http://a:8080", "http://b:81"}));
  EXPECT_EQ(address->name, "Photos");
  EXPECT_EQ(address->replicas, 2);
  EXPECT_EQ(address->shards, 6);
  EXPECT_EQ(stored_path(*address, "/mnt/p/2024/a.jpg"), "p/2024/a.jpg");
  EXPECT_EQ(stored_path(*address, "/mnt/pp/a.jpg"), "/mnt/pp/a.jpg");
  EXPECT_EQ(local_path(*address, "p/2024/a.jpg"), "/mnt/p/2024/a.jpg");
  EXPECT_EQ(local_path(*address, "r/a.jpg"), "r/a.jpg");
  EXPECT_EQ(parse_address("weaviates://[::1]/P_1")->endpoints.front(), "https://[::1]:443");
  EXPECT_EQ(parse_address("weaviate://[::1]:9/P")->endpoints.front(), "http://[::1]:9");
}

TEST(WeaviateAddress, FaultsAreNamed) {
  for (const char* text :
       {"weaviate://host", "weaviate://host/", "weaviate://host/photos", "weaviate://host/A-b",
        "weaviate:///Photos", "weaviate://key@host/Photos", "weaviate://host/P?root=p",
        "weaviate://host/P?root=p=relative", "weaviate://host/P?root=p=/", "weaviate://host/PhotosNotes",
        "weaviate://host/P?replicas=0", "weaviate://host/P?x=1"}) {
    const auto address = parse_address(text);
    ASSERT_FALSE(address) << text;
    EXPECT_EQ(address.error().code, ErrorCode::kUsage) << text;
    EXPECT_TRUE(address.error().message.starts_with(text)) << address.error().message;
  }
  EXPECT_FALSE(is_address("weaviate:/host"));
  EXPECT_TRUE(is_address("weaviates://host/P"));
}

// RFC 9562, appendix A.4.
TEST(WeaviateObjects, UuidsOfNames) {
  EXPECT_EQ(name_uuid("6ba7b810-9dad-11d1-80b4-00c04fd430c8", "www.example.com"),
            "2ed6657d-e927-568b-95e1-2665a8aea6a2");
  EXPECT_EQ(id_of("00000000-0000-5080-8000-000000000000"), 1);
  EXPECT_EQ(id_of("00000000-0001-5fff-8000-000000000000"), 63);
  EXPECT_EQ(id_of("ffffffff-ffff-5fff-bfff-ffffffffffff"), (int64_t{1} << 53) - 1);
}

std::string where(std::string_view filter, bool exact = true) {
  const Where where = where_of(parse_filter(filter).value().tree);
  EXPECT_EQ(where.exact, exact) << filter;
  return where.graphql;
}

TEST(WeaviateWhere, FiltersAsConditions) {
  EXPECT_EQ(where("width>=640"), R"({path:["width"],operator:GreaterThanEqual,valueNumber:640})");
  EXPECT_EQ(where("caption=\"\""), R"({path:["caption"],operator:Equal,valueText:"=="})");
  // Weaviate's Not yields removed objects too: those without a format.
  const std::string stored = R"(,{path:["format"],operator:Like,valueText:"=*="}]})";
  EXPECT_EQ(where("caption!~D\u00d6G"),
            "{operator:And,operands:[{operator:Not,operands:[{path:[\"caption\"],operator:Like,"
            "valueText:\"=*d\u00f6g*=\"}]}" +
                stored);
  EXPECT_EQ(where("path~\"a?*b\""), R"({path:["path"],operator:Like,valueText:"=a?*b="})");
  EXPECT_EQ(where("path~ships"), R"({path:["path_folded"],operator:Like,valueText:"=*ships*="})");
  EXPECT_EQ(where("size=1 or (width=2 and not height=3)"),
            R"({operator:And,operands:[{operator:Or,operands:[{path:["size"],operator:Equal,valueNumber:1},)"
            R"({operator:And,operands:[{path:["width"],operator:Equal,valueNumber:2},)"
            R"({operator:Not,operands:[{path:["height"],operator:Equal,valueNumber:3}]}]}]})" +
                stored);
}

TEST(WeaviateWhere, ASetOfCharactersIsAWeakerCondition) {
  const char* const kPrefix = R"({path:["caption"],operator:Like,valueText:"=a*="})";
  EXPECT_EQ(where("caption~\"a[b-d]e\"", false), kPrefix);
  EXPECT_EQ(where("not caption~\"a[b-d]e\"", false), "");
  EXPECT_EQ(where("width=1 and not caption~\"a[b-d]e\"", false),
            R"({path:["width"],operator:Equal,valueNumber:1})");
  EXPECT_EQ(where("width=1 or not caption~\"a[b-d]e\"", false), "");
  EXPECT_EQ(where("not not caption~\"a[b-d]e\"", false),
            std::string("{operator:And,operands:[{operator:Not,operands:[{operator:Not,operands:[") +
                kPrefix + R"(]}]},{path:["format"],operator:Like,valueText:"=*="}]})");
}

TEST(WeaviateWhere, TextsAreKeptWithoutWildcardsAndControlCharacters) {
  EXPECT_EQ(kept_text(" a*b?\n"), "= a\uE02Ab\uE03F\uE00A=");
}

}  // namespace
}  // namespace saccade::weaviate
