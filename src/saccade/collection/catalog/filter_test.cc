#include "saccade/collection/catalog/filter.h"

#include <random>

#include <gmock/gmock.h>

#include "saccade/collection/collection_reader.h"
#include "saccade/collection/collection_writer.h"
#include "saccade/collection/test_support.h"
#include "saccade/core/test_folder.h"

namespace saccade {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kSecond = 1'000'000'000;

// Four pictures whose fields tell every condition apart.
class FilterTest : public testing::Test {
 protected:
  void SetUp() override {
    auto writer = CollectionWriter::create(folder_.path() / "c", test::fake_checkpoint());
    ASSERT_OK(writer);
    CollectionChange change;
    const auto add = [&](std::string path, int64_t width, int64_t height, std::string format, int64_t size,
                         int64_t time, std::string caption) {
      auto put = test::put_of(std::move(path), static_cast<int>(change.puts.size()));
      put.item.width = width;
      put.item.height = height;
      put.item.format = std::move(format);
      put.item.size = size;
      put.item.mtime_ns = time * kSecond;
      put.item.caption = std::move(caption);
      change.puts.push_back(std::move(put));
    };
    add("/p/birds/owl.jpg", 640, 480, "jpeg", 1'999'999, 1704067199,
        "An Owl on a branch");  // 2023-12-31T23:59:59
    add("/p/birds/[x].png", 100, 400, "png", 2'000'000, 1704067200,
        "it's \"quoted\"");                                                 // 2024-01-01T00:00:00
    add("/p/cats/cat.jpg", 4000, 3000, "jpeg", 2'097'152, 1717199999, "");  // 2024-05-31T23:59:59
    add("/p/dogs/dog.heic", 1000, 1000, "heif", 5, 1735689600, "dog");      // 2025-01-01T00:00:00
    ASSERT_OK(writer->commit(change));
    auto collection = CollectionReader::open(folder_.path() / "c");
    ASSERT_OK(collection);
    collection_.emplace(*std::move(collection));
  }

  // The ids (1 to 4) a filter leaves.
  std::vector<int64_t> matches(std::string_view text) {
    const auto filter = parse_filter(text);
    if (!filter) {
      ADD_FAILURE() << text << ": " << filter.error().message;
      return {};
    }
    const auto mask = collection_->allowed(*filter);
    if (!mask) {
      ADD_FAILURE() << text << ": " << mask.error().message << " in " << filter->sql;
      return {};
    }
    std::vector<int64_t> ids;
    for (size_t row = 0; row < mask->size(); ++row) {
      if ((*mask)[row] != 0) ids.push_back(collection_->ids()[row]);
    }
    return ids;
  }

  test::TestFolder folder_;
  std::optional<CollectionReader> collection_;
};

TEST_F(FilterTest, Numbers) {
  EXPECT_THAT(matches("width>=640"), ElementsAre(1, 3, 4));
  EXPECT_THAT(matches("width > 640"), ElementsAre(3, 4));
  EXPECT_THAT(matches("width=640"), ElementsAre(1));
  EXPECT_THAT(matches("width!=640"), ElementsAre(2, 3, 4));
  EXPECT_THAT(matches("height<=480"), ElementsAre(1, 2));
  EXPECT_THAT(matches("id=3"), ElementsAre(3));
  EXPECT_THAT(matches("pixels>=12M"), ElementsAre(3));
  EXPECT_THAT(matches("pixels<100k"), ElementsAre(2));
  EXPECT_THAT(matches("aspect<1"), ElementsAre(2));
  EXPECT_THAT(matches("aspect>1.3"), ElementsAre(1, 3));
  EXPECT_THAT(matches("aspect=1"), ElementsAre(4));
}

TEST_F(FilterTest, SizesInThousandsAndIn1024s) {
  EXPECT_THAT(matches("size<2MB"), ElementsAre(1, 4));
  EXPECT_THAT(matches("size>=2MiB"), ElementsAre(3));
  EXPECT_THAT(matches("size=2000000"), ElementsAre(2));
  EXPECT_THAT(matches("size>1.5mb and size<0.002GB"), ElementsAre(1));
  EXPECT_THAT(matches("size<=5B"), ElementsAre(4));
}

TEST_F(FilterTest, DatesAreSpans) {
  EXPECT_THAT(matches("date=2024"), ElementsAre(2, 3));
  EXPECT_THAT(matches("date!=2024"), ElementsAre(1, 4));
  EXPECT_THAT(matches("date>2024"), ElementsAre(4));
  EXPECT_THAT(matches("date>=2024"), ElementsAre(2, 3, 4));
  EXPECT_THAT(matches("date<2024"), ElementsAre(1));
  EXPECT_THAT(matches("date<=2024"), ElementsAre(1, 2, 3));
  EXPECT_THAT(matches("date=2024-05"), ElementsAre(3));
  EXPECT_THAT(matches("date=2024-05-31"), ElementsAre(3));
  EXPECT_THAT(matches("date=2024-05-31T23:59"), ElementsAre(3));
  EXPECT_THAT(matches("date=2024-05-31T23:59:58"), IsEmpty());
  EXPECT_THAT(matches("date>=2023-12-31T23:59:59 and date<2024-01-01T00:00:01"), ElementsAre(1, 2));
  EXPECT_THAT(matches("added=2023-11-14"), ElementsAre(1, 2, 3, 4));
}

TEST_F(FilterTest, TextAndGlobs) {
  EXPECT_THAT(matches("format=jpeg"), ElementsAre(1, 3));
  EXPECT_THAT(matches("format=JPG"), ElementsAre(1, 3));
  EXPECT_THAT(matches("format!=jpg"), ElementsAre(2, 4));
  EXPECT_THAT(matches("format=heic"), ElementsAre(4));
  EXPECT_THAT(matches("format~*p*g*"), ElementsAre(1, 2, 3));
  EXPECT_THAT(matches("path~\"*/birds/*\""), ElementsAre(1, 2));
  EXPECT_THAT(matches("path!~*/birds/*"), ElementsAre(3, 4));
  EXPECT_THAT(matches("path=/p/cats/cat.jpg"), ElementsAre(3));
  EXPECT_THAT(matches("path~*/[[]x].png"), ElementsAre(2));
  EXPECT_THAT(matches("path~*/CAT.*"), IsEmpty());
  EXPECT_THAT(matches("caption~*owl*"), ElementsAre(1));
  EXPECT_THAT(matches("caption=DOG"), ElementsAre(4));
  EXPECT_THAT(matches("caption=\"\""), ElementsAre(3));
  EXPECT_THAT(matches(R"(caption="it's \"quoted\"")"), ElementsAre(2));
  EXPECT_THAT(matches(R"(caption='it\'s "quoted"')"), ElementsAre(2));
  EXPECT_THAT(matches("hash=" + sha256_hex("2")), ElementsAre(3));
}

TEST_F(FilterTest, WithoutAGlobTextIsLookedForAnywhere) {
  EXPECT_THAT(matches("path~birds"), ElementsAre(1, 2));
  EXPECT_THAT(matches("path~BIRDS"), ElementsAre(1, 2));
  EXPECT_THAT(matches("path!~birds"), ElementsAre(3, 4));
  EXPECT_THAT(matches("caption~owl"), ElementsAre(1));
  EXPECT_THAT(matches("caption~dog or format~pe"), ElementsAre(1, 3, 4));
  EXPECT_THAT(matches("format=.jpg"), ElementsAre(1, 3));
  EXPECT_THAT(matches("path=birds"), IsEmpty());
}

TEST_F(FilterTest, WhatFilesSayOfThemselves) {
  {
    auto writer = CollectionWriter::open(folder_.path() / "c");
    ASSERT_OK(writer);
    CollectionChange change;
    ItemFacts facts;
    facts.read = FactsRead::kEverything;
    facts.picture.taken = 946'684'799;  // 1999-12-31T23:59:59, whatever the file's own time
    facts.picture.camera = "Canon EOS R5";
    facts.picture.lens = "RF50mm F1.2 L USM";
    facts.picture.rating = 4;
    facts.picture.latitude = -33.86;
    facts.picture.longitude = 151.2;
    facts.picture.keywords = {"Paris", "by night"};
    facts.picture.title = "The tower";
    facts.place = "Sydney, AU";
    facts.grain = 0.9;
    change.facts.emplace_back(2, facts);
    ItemFacts drawn;
    drawn.read = FactsRead::kPixels;
    change.facts.emplace_back(3, drawn);
    ASSERT_OK(writer->commit(change));
  }
  ASSERT_OK(collection_->refresh());
  EXPECT_THAT(matches("date=1999"), ElementsAre(2));  // of the others it is the file's
  EXPECT_THAT(matches("date>=2024"), ElementsAre(3, 4));
  EXPECT_THAT(matches("taken=1999-12-31"), ElementsAre(2));
  EXPECT_THAT(matches("taken>=1900"), ElementsAre(2));
  EXPECT_THAT(matches("camera~canon"), ElementsAre(2));
  EXPECT_THAT(matches("camera=\"canon eos r5\""), ElementsAre(2));
  EXPECT_THAT(matches("camera~\"canon*\""), ElementsAre(2));
  EXPECT_THAT(matches("camera=\"\""), ElementsAre(1, 3, 4));
  EXPECT_THAT(matches("lens~1.2"), ElementsAre(2));
  EXPECT_THAT(matches("rating>=4"), ElementsAre(2));
  EXPECT_THAT(matches("rating=0"), ElementsAre(1, 3, 4));
  EXPECT_THAT(matches("latitude<-30 and longitude>150"), ElementsAre(2));
  EXPECT_THAT(matches("keyword=paris"), ElementsAre(2));
  EXPECT_THAT(matches("keyword=night"), IsEmpty());  // the whole of one
  EXPECT_THAT(matches("keyword~night"), ElementsAre(2));
  EXPECT_THAT(matches("keyword~\"by*\""), ElementsAre(2));
  EXPECT_THAT(matches("keyword!=paris"), ElementsAre(1, 3, 4));
  EXPECT_THAT(matches("title~tower"), ElementsAre(2));
  EXPECT_THAT(matches("place~sydney"), ElementsAre(2));
  EXPECT_THAT(matches("photograph=yes"), ElementsAre(2));
  EXPECT_THAT(matches("photograph=no"), ElementsAre(1, 3, 4));

  const auto why = [&](const char* text) { return collection_->why_empty(*parse_filter(text)).value(); };
  EXPECT_EQ(why("camera~canon"), "");
  EXPECT_THAT(why("camera~leica"),
              HasSubstr("no image meets camera~leica (values here: \"Canon EOS R5\" (1))"));
  EXPECT_THAT(why("format=cr2 and width>1"),
              HasSubstr("no image meets format=cr2 (values here: \"jpeg\" (2), "));
  EXPECT_THAT(why("width>5000"), HasSubstr("no image meets width>5000 (values here: 100 to 4000)"));
  EXPECT_THAT(why("date<1990"), HasSubstr("(values here: 1999-12-31 to 2025-01-01)"));
  EXPECT_THAT(why("camera~canon and format=jpeg"), HasSubstr("all of them together by none"));
  const auto values = collection_->values_of("keyword", 10);
  ASSERT_OK(values);
  ASSERT_EQ(values->size(), 2U);
  EXPECT_EQ((*values)[0].value, "Paris");
  EXPECT_EQ(collection_->values_of("format", 1)->front().value, "jpeg");
  EXPECT_EQ(collection_->values_of("width", 1).error().code, ErrorCode::kUsage);
}

TEST_F(FilterTest, AndBindsBeforeOrAndNotBeforeAnd) {
  EXPECT_THAT(matches("id=1 or id=2 and id=3"), ElementsAre(1));
  EXPECT_THAT(matches("(id=1 or id=2) and id=2"), ElementsAre(2));
  EXPECT_THAT(matches("not id=1 and id<3"), ElementsAre(2));
  EXPECT_THAT(matches("not (id=1 or id=3)"), ElementsAre(2, 4));
  EXPECT_THAT(matches("NOT not id=1"), ElementsAre(1));
  EXPECT_THAT(matches("((id=1))OR(id=4)"), ElementsAre(1, 4));
  EXPECT_THAT(matches("width>=640 and format=jpeg and (path~\"*/birds/*\" or not caption~\"*dog*\") and "
                      "date>=2023-06-01 and size<2MB"),
              ElementsAre(1));
}

TEST_F(FilterTest, ValuesAreNeverSql) {
  EXPECT_THAT(matches("caption=\"x' OR 1=1 --\""), IsEmpty());
  EXPECT_THAT(matches("path=\"'); DROP TABLE items; --\""), IsEmpty());
  EXPECT_EQ(collection_->item_count(), 4);
}

// Half a second before 1970 is a time of 1969.
TEST(FilterDates, FractionsBefore1970AreRoundedDown) {
  const test::TestFolder folder;
  auto writer = CollectionWriter::create(folder.path() / "c", test::fake_checkpoint());
  ASSERT_OK(writer);
  CollectionChange change;
  for (const int64_t time : {-kSecond / 2, -kSecond, int64_t{0}, kSecond / 2}) {
    auto put = test::put_of("/p/" + std::to_string(change.puts.size()) + ".png",
                            static_cast<int>(change.puts.size()));
    put.item.mtime_ns = time;
    change.puts.push_back(std::move(put));
  }
  ASSERT_OK(writer->commit(change));
  auto collection = CollectionReader::open(folder.path() / "c");
  ASSERT_OK(collection);
  const auto filter = parse_filter("date<1970");
  ASSERT_OK(filter);
  const auto mask = collection->allowed(*filter);
  ASSERT_OK(mask);
  EXPECT_THAT(*mask, ElementsAre(1, 1, 0, 0));
}

TEST(FilterErrors, SayWhereAndWhatInstead) {
  const auto message = [](std::string_view text) {
    const auto filter = parse_filter(text);
    if (filter) return "accepted: " + filter->sql;
    EXPECT_EQ(filter.error().code, ErrorCode::kUsage);
    return filter.error().message;
  };
  EXPECT_THAT(message(""), HasSubstr("column 1: expected a field (id, width,"));
  EXPECT_THAT(message("widht>3"), HasSubstr("column 1: expected a field"));
  EXPECT_THAT(message("widht>3"), HasSubstr("found \"widht\"; did you mean width?"));
  EXPECT_THAT(message("width 3"),
              HasSubstr("column 7: expected one of = != < <= > >= after \"width\", found \"3\""));
  EXPECT_THAT(message("width~3"), HasSubstr("column 6: expected one of"));
  EXPECT_THAT(message("path>a"), HasSubstr("column 5: expected one of = != ~ !~ after \"path\""));
  EXPECT_THAT(message("width="), HasSubstr("column 7: expected a value, found the end"));
  EXPECT_THAT(message("width=12x"), HasSubstr("column 7: expected a whole number, found \"12x\""));
  EXPECT_THAT(message("width=99999999999999999999"), HasSubstr("expected a whole number"));
  EXPECT_THAT(message("size<3 apples"),
              HasSubstr("column 8: expected \"and\", \"or\" or the end, found \"apples\""));
  EXPECT_THAT(message("size<9999999999GB"), HasSubstr("expected a size like"));
  EXPECT_THAT(message("size<1.5.5MB"), HasSubstr("expected a size like"));
  EXPECT_THAT(message("date=2024-13"), HasSubstr("column 6: expected a date like"));
  EXPECT_THAT(message("date=2023-02-29"), HasSubstr("expected a date like"));
  EXPECT_THAT(message("date=2024-01-01T24:00"), HasSubstr("expected a date like"));
  EXPECT_THAT(message("aspect>inf"), HasSubstr("expected a number like 1.5"));
  EXPECT_THAT(message("(id=1"),
              HasSubstr("column 6: expected \"and\", \"or\" or the \")\" for column 1, found the end"));
  EXPECT_THAT(message("id=1)"), HasSubstr("column 5: expected \"and\", \"or\" or the end, found \")\""));
  EXPECT_THAT(message("caption=\"open"), HasSubstr("column 14: expected the \" for column 9"));
  EXPECT_THAT(message("id=1 and"), HasSubstr("column 9: expected a field"));
  EXPECT_THAT(message(std::string_view("path=\"a\0b\"", 10)), HasSubstr("zero byte"));
}

TEST(FilterErrors, Limits) {
  const std::string deep = std::string(13, '(').append("id=1").append(13, ')');
  EXPECT_THAT(parse_filter(deep).error().message, HasSubstr("nested deeper than 12"));
  std::string nots;
  for (int i = 0; i < 13; ++i) nots += "not ";
  EXPECT_THAT(parse_filter(nots + "id=1").error().message, HasSubstr("nested deeper than 12"));
  std::string many = "id=1";
  for (int i = 0; i < 500; ++i) many += " or id=1";
  EXPECT_THAT(parse_filter(many).error().message, HasSubstr("more than 500 conditions"));
  EXPECT_THAT(parse_filter(std::string(10'001, ' ')).error().message, HasSubstr("10001 bytes, limit 10000"));
  EXPECT_THAT(parse_filter("path~" + std::string(1'001, '*')).error().message, HasSubstr("limit 1000"));
}

TEST_F(FilterTest, TheLargestFiltersRun) {
  std::string many = "id=1";
  for (int i = 1; i < 500; ++i) many += " or id=1";
  EXPECT_THAT(matches(many), ElementsAre(1));
  EXPECT_THAT(matches(std::string(12, '(').append("id=1").append(12, ')')), ElementsAre(1));
  std::string nots;
  for (int i = 0; i < 12; ++i) nots += "not ";
  EXPECT_THAT(matches(nots + "id=1"), ElementsAre(1));
  // The filter that fills the stack of SQLite's parser fastest.
  std::string wide;
  for (int i = 0; i < 12; ++i) wide += "id=2 or id=1 and (";
  EXPECT_THAT(matches(wide + "id=3 or id=1 and aspect>1 and date!=2024" + std::string(12, ')')),
              ElementsAre(1, 2));
}

// Whatever comes in, the parser ends with SQL that SQLite takes or with kUsage.
TEST_F(FilterTest, RandomTextGivesSqlOrAnError) {
  constexpr std::array<std::string_view, 37> kParts = {
      "width",      "size", "date", "path", "caption",    "format", "aspect", "and ",       "or ",
      "not ",       "(",    ")",    "=",    "!=",         "<",      "<=",     "~",          "!~",
      "2MB",        "12",   "1.5",  "2024", "\"a b\"",    "'x'",    "\\",     "\"",         "*[",
      "]",          " ",    "\t",   "\xff", "2024-02-30", "?",      ";",      "width<=12 ", "caption~'x' ",
      "date!=2024 "};
  std::mt19937 random(7);
  int accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    const auto parts = random() % 9;
    for (unsigned i = 0; i < parts; ++i) text += kParts[random() % kParts.size()];
    const auto filter = parse_filter(text);
    if (!filter) {
      ASSERT_EQ(filter.error().code, ErrorCode::kUsage) << text;
      continue;
    }
    ++accepted;
    ASSERT_OK(collection_->allowed(*filter));
  }
  EXPECT_GT(accepted, 100);
}

}  // namespace
}  // namespace saccade
