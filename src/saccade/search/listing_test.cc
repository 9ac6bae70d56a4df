#include "saccade/search/listing.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "saccade/collection/catalog/empty_filter.h"
#include "saccade/collection/test_support.h"
#include "saccade/core/test_folder.h"

namespace saccade {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kSecond = 1'000'000'000;

class Listing : public testing::Test {
 protected:
  void SetUp() override {
    auto writer = CollectionWriter::create(folder_ / "c", test::fake_checkpoint());
    ASSERT_OK(writer);
    CollectionChange change;
    for (const auto& [path, seconds] : std::vector<std::pair<std::string, int64_t>>{
             {"/old.jpg", 1'000}, {"/new.png", 3'000}, {"/middle.jpg", 2'000}, {"/photo.jpg", 500}}) {
      change.puts.push_back(test::put_of(path, static_cast<int>(seconds)));
      change.puts.back().item.mtime_ns = seconds * kSecond;
      change.puts.back().item.format = path.ends_with(".jpg") ? "jpeg" : "png";
    }
    ASSERT_OK(writer->commit(change));
    CollectionChange facts;
    ItemFacts taken;
    taken.picture.taken = 2'500;  // whatever the file's own time
    facts.facts.emplace_back(4, taken);
    ASSERT_OK(writer->commit(facts));
  }
  [[nodiscard]] CollectionReader open() const { return CollectionReader::open(folder_ / "c").value(); }
  static std::vector<std::string> paths(const SearchAnswer& answer) {
    std::vector<std::string> paths;
    for (const SearchHit& hit : answer.hits) paths.push_back(hit.item.path);
    return paths;
  }

  test::TestFolder folder_;
};

TEST_F(Listing, ImagesAreListedByTheDateTheyWereTakenElseByTheFiles) {
  const auto answer = list_newest(open(), {});
  ASSERT_OK(answer);
  EXPECT_THAT(paths(*answer), ElementsAre("/new.png", "/photo.jpg", "/middle.jpg", "/old.jpg"));
  EXPECT_EQ(answer->searched, 4);
  for (size_t i = 0; i < answer->hits.size(); ++i) {
    EXPECT_EQ(answer->hits[i].rank, static_cast<int64_t>(i) + 1);
    EXPECT_TRUE(std::isnan(answer->hits[i].score));
  }
  const Json json = answer_json(*answer);
  EXPECT_TRUE(json["hits"][0]["score"].is_null());
  EXPECT_EQ(json["hits"][1]["dated_by"], "taken");
  EXPECT_EQ(json["query"]["order"], "date");
}

TEST_F(Listing, TheOldestDateThereIsComesLast) {
  auto writer = CollectionWriter::open(folder_ / "c");
  ASSERT_OK(writer);
  CollectionChange change;
  change.puts.push_back(test::put_of("/first.jpg", 7));
  change.puts.back().item.mtime_ns = std::numeric_limits<int64_t>::min();
  ASSERT_OK(writer->commit(change));
  EXPECT_EQ(paths(list_newest(open(), {}).value()).back(), "/first.jpg");
}

TEST_F(Listing, TheFilterDecidesWhichAndKHowMany) {
  SearchQuery query;
  query.filter = "format=jpg";
  query.k = 2;
  const auto answer = list_newest(open(), query);
  ASSERT_OK(answer);
  EXPECT_THAT(paths(*answer), ElementsAre("/photo.jpg", "/middle.jpg"));
  EXPECT_EQ(answer->searched, 3);
  query.filter = "format=gif";
  EXPECT_TRUE(list_newest(open(), query)->hits.empty());
  query.filter = "format=";
  EXPECT_EQ(list_newest(open(), query).error().code, ErrorCode::kUsage);
  query = {};
  query.min_probability = 0.5;
  EXPECT_EQ(list_newest(open(), query).error().code, ErrorCode::kUsage);
  query = {};
  query.k = 0;
  EXPECT_EQ(list_newest(open(), query).error().code, ErrorCode::kUsage);
}

TEST_F(Listing, AQueryIsNoListing) {
  SearchQuery query;
  EXPECT_TRUE(is_listing(query));
  query.images.push_back({.content = std::filesystem::path("a.png")});
  EXPECT_FALSE(is_listing(query));
  query = {};
  query.text = "bell";
  EXPECT_FALSE(is_listing(query));
}

TEST_F(Listing, AnEmptyFilterSaysWhy) {
  const CollectionReader collection = open();
  EXPECT_EQ(why_filter_is_empty(collection, "", true).value(), "");
  EXPECT_EQ(why_filter_is_empty(collection, "format=png", true).value(), "");
  EXPECT_THAT(why_filter_is_empty(collection, "format=gif", true).value(), HasSubstr("png"));
  EXPECT_THAT(why_filter_is_empty(collection, "place~Lyon", false).value(), HasSubstr("./dev build"));
  EXPECT_THAT(why_filter_is_empty(collection, "place~Lyon", true).value(),
              testing::Not(HasSubstr("./dev build")));
  EXPECT_EQ(why_filter_is_empty(collection, "width>", true).error().code, ErrorCode::kUsage);
}

}  // namespace
}  // namespace saccade
