// Tests of records: what is written has the keys in their order, is read back, and is refused by its key's name.
#include "lab/eval/run/record_fields.h"

#include <functional>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/eval/figures/ranking.h"
#include "lab/eval/figures/relevance.h"
#include "lab/eval/figures/sample.h"

namespace saccade::lab {
namespace {

using testing::HasSubstr;

struct RecordPart {
  int64_t n = 0;
  std::optional<double> share;
  static void fields(auto& self, auto& field) { SACCADE_FIELDS(n, share); }
};

struct WholeRecord {
  std::string name;
  double value = 0;
  bool is_right = false;
  TiePolicy ties = TiePolicy::kPessimistic;
  std::string reason;
  std::vector<RecordPart> parts;
  std::vector<std::pair<std::string, double>> stages;
  std::map<std::string, std::string> versions;
  std::vector<double> ranks;
  std::vector<std::optional<int64_t>> lengths;
  std::optional<RecordPart> part;
  int64_t inner = 0;
  int64_t young = 7;  // older runs lack it
  std::optional<int64_t> cut;
  ByDirection<RecordPart> ways;
  Json details;
  std::vector<Figure> figures;
  static void fields(auto& self, auto& field) {
    SACCADE_FIELDS(name, value, is_right, ties);
    field.or_null("reason", self.reason);
    SACCADE_FIELDS(parts, stages, versions);
    field.whole("ranks", self.ranks);
    SACCADE_FIELDS(lengths, part);
    field.object("deep", [&](auto& in) { in("inner", self.inner); });
    field.added("young", self.young);
    field.if_set("cut", self.cut);
    SACCADE_FIELDS(ways, details);
    field.rest(self.figures);
  }
};

constexpr const char* kWholeRecord =
    R"({"name":"a","value":0.5,"is_right":true,"ties":"mean","reason":null,"parts":[{"n":1,"share":null},{"n":2,"share":0.25}],)"
    R"("stages":{"read":0.5,"decode":null},"versions":{"a":"1","b":"2"},"ranks":[1,2.5],"lengths":[3,null],"part":null,"deep":{"inner":4},"young":8,)"
    R"("ways":{"t2i":{"n":5,"share":null},"i2t":{"n":6,"share":null}},"details":[1],)"
    R"("r1":{"value":0.5,"low":0.25,"high":0.75,"bca_low":null,"bca_high":null},)"
    R"("r5":{"value":0.0,"low":0.0,"high":0.0,"bca_low":null,"bca_high":null,"wilson_high":0.5}})";

TEST(Records, WhatIsReadIsWrittenTheSame) {
  const auto whole = read_record<WholeRecord>(parse_json(kWholeRecord).value());
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_EQ(dump_json(record_json(*whole)), kWholeRecord);
  EXPECT_EQ(whole->parts[1].share, 0.25);
  EXPECT_FALSE(whole->parts[0].share);
  EXPECT_EQ(whole->stages[0], (std::pair<std::string, double>("read", 0.5)));
  EXPECT_TRUE(std::isnan(whole->stages[1].second));
  EXPECT_EQ(whole->inner, 4);
  EXPECT_EQ(whole->ways.of(Direction::kImageToText).n, 6);
  ASSERT_NE(find_named(whole->figures, "r5"), nullptr);
  EXPECT_EQ(find_named(whole->figures, "r5")->wilson_high, 0.5);
  EXPECT_EQ(find_named(whole->figures, "r10"), nullptr);
}

TEST(Records, OlderAndNewerRunsAreRead) {
  Json json = parse_json(kWholeRecord).value();
  for (const char* key : {"young", "reason", "part"}) json.erase(key);
  json["new"] = 3;
  const auto whole = read_record<WholeRecord>(json);
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_EQ(whole->young, 7);
  EXPECT_EQ(whole->figures.size(), 2U);
}

TEST(Records, FaultsNameTheirKeysAndWhatIsExpected) {
  const auto error_of = [](const std::function<void(Json&)>& change) {
    Json json = parse_json(kWholeRecord).value();
    change(json);
    const auto whole = read_record<WholeRecord>(json);
    EXPECT_FALSE(whole) << dump_json(json);
    return whole ? std::string() : whole.error().message;
  };
  EXPECT_EQ(error_of([](Json& json) { json.erase("name"); }), "\"name\" is missing");
  EXPECT_EQ(error_of([](Json& json) { json["is_right"] = 1; }),
            "\"is_right\" is a number (1), expected true or false");
  EXPECT_EQ(error_of([](Json& json) { json["ties"] = "none"; }),
            "\"ties\" is a string (\"none\"), expected one of " + list_of_names<TiePolicy>());
  EXPECT_EQ(error_of([](Json& json) { json["value"] = "much"; }),
            "\"value\" is a string (\"much\"), expected a number");
  EXPECT_EQ(error_of([](Json& json) { json["parts"][1].erase("n"); }), "\"parts[1]\": \"n\" is missing");
  EXPECT_EQ(error_of([](Json& json) { json["parts"] = Json::object(); }),
            "\"parts\" is an object ({}), expected an array");
  EXPECT_EQ(error_of([](Json& json) { json["lengths"][0] = 1.5; }),
            "\"lengths[0]\" is a number (1.5), expected a whole number");
  EXPECT_EQ(error_of([](Json& json) { json["stages"] = Json::array(); }),
            "\"stages\" is an array ([]), expected an object");
  EXPECT_EQ(error_of([](Json& json) { json["stages"]["read"] = true; }),
            "\"stages\": \"read\" is true or false (true), expected a number");
  EXPECT_EQ(error_of([](Json& json) { json["deep"] = nullptr; }),
            "\"deep\" is null (null), expected an object");
  EXPECT_EQ(error_of([](Json& json) { json["deep"]["inner"] = "x"; }),
            "\"deep\": \"inner\" is a string (\"x\"), expected a whole number");
  EXPECT_EQ(error_of([](Json& json) { json["ways"].erase("i2t"); }), "\"ways\": \"i2t\" is missing");
  EXPECT_EQ(error_of([](Json& json) { json["r5"].erase("low"); }), "\"r5\": \"low\" is missing");
  EXPECT_EQ(error_of([](Json& json) { json = 5; }), "a number where an object is expected");
}

// Nothing compared is null throughout; a comparison without an interval is not.
TEST(Records, BlankDifferencesStayBlank) {
  constexpr const char* kBlank =
      R"({"r1":{"difference":null,"low":null,"high":null,"bca_low":null,"bca_high":null,"p_value":null,"significant":null},)"
      R"("r5":{"difference":0.5,"low":null,"high":null,"bca_low":null,"bca_high":null,"p_value":null,"significant":false}})";
  std::vector<Difference> differences;
  ASSERT_TRUE(RecordReader::read("t2i", parse_json(kBlank).value(), differences));
  ASSERT_EQ(differences.size(), 2U);
  EXPECT_TRUE(differences[0].blank);
  EXPECT_FALSE(differences[1].blank);
  EXPECT_EQ(differences[1].figure.name, "r5");
  EXPECT_EQ(dump_json(record_json(differences)), kBlank);
  Json lacks = parse_json(kBlank).value();
  lacks["r5"].erase("significant");
  const Status status = RecordReader::read("t2i", lacks, differences);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("\"t2i\": \"r5\": \"significant\" is missing"));
}

// Fields that were renamed are read from earlier runs.
TEST(Records, EarlierKeysAreRead) {
  Difference difference;
  ASSERT_TRUE(RecordReader::read(
      "r1",
      parse_json(
          R"({"difference":0.5,"low":0.1,"high":0.9,"bca_low":null,"bca_high":null,"p_value":0.01,"told_apart":true})")
          .value(),
      difference));
  EXPECT_TRUE(difference.significant);

  Json json = parse_json(R"({"protocol": {"words": "all", "null_picture": {"kind": "grey"}},
                             "excluded": {"empty captions": 1, "visual texts without a picture": 2},
                             "left_out": [{"reason": "pictures of galleries that are not there"}],
                             "datasets": [{"pictures_sha256": "ab"}], "words": 3, "significant": 1, "told_apart": 2})")
                  .value();
  use_current_keys(json);
  use_current_key(json["protocol"], kProtocolDescription);
  EXPECT_EQ(json, parse_json(R"({"protocol": {"description": "all", "null_image": {"kind": "grey"}},
                                 "excluded": {"empty captions": 1, "visual texts without an image": 2},
                                 "left_out": [{"reason": "images of galleries that are not there"}],
                                 "datasets": [{"images_sha256": "ab"}], "words": 3, "significant": 1, "told_apart": 2})")
                      .value());
}

}  // namespace
}  // namespace saccade::lab
