#include "saccade/collection/catalog/facets.h"

#include <algorithm>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/collection/test_support.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

class Facets : public testing::Test {
 protected:
  // A picture of the catalog, without a file behind it.
  void put(const std::string& path, int64_t width, int64_t height, const std::string& format,
           int64_t seconds) {
    CollectionChange change;
    Item item;
    item.path = path;
    item.hash = sha256_hex(path);
    item.width = width;
    item.height = height;
    item.format = format;
    item.mtime_ns = seconds * 1'000'000'000;
    std::vector<float> row(8);
    row[0] = 1;
    change.puts.push_back({item, row, {}});
    ASSERT_OK(writer_->commit(change));
  }
  void SetUp() override {
    auto writer = CollectionWriter::create(temporary_.path() / "c", test::fake_checkpoint());
    ASSERT_OK(writer);
    writer_.emplace(*std::move(writer));
  }
  [[nodiscard]] CollectionReader open() const {
    return CollectionReader::open(temporary_.path() / "c").value();
  }

  test::TestFolder temporary_;
  std::optional<CollectionWriter> writer_;
};

constexpr int64_t kDay = 86'400;

TEST_F(Facets, OfWhatFilesSayOfThemselves) {
  put("/all/a.jpg", 100, 100, "jpeg", 0);
  put("/all/b.jpg", 100, 100, "jpeg", 0);
  put("/all/c.jpg", 100, 100, "jpeg", 0);
  CollectionChange change;
  ItemFacts facts;
  facts.read = FactsRead::kEverything;
  facts.picture.camera = "Canon \"R5\"";
  facts.picture.taken = 946'684'799;  // 1999, whatever the file's own time
  facts.picture.keywords = {"Paris", "night"};
  facts.place = "Lyon, Auvergne-Rhône-Alpes, FR";
  change.facts.emplace_back(1, facts);
  facts.picture.keywords = {"paris"};
  facts.place = "Paris, Île-de-France, FR";
  change.facts.emplace_back(2, facts);
  ASSERT_OK(writer_->commit(change));
  const CollectionReader collection = open();
  const auto facets = collection_facets(collection, "");
  ASSERT_OK(facets);
  std::map<std::string, std::vector<std::pair<std::string, int64_t>>> found;
  for (const Facet& facet : *facets) {
    for (const FacetValue& value : facet.values) {
      found[facet.name].emplace_back(value.name, value.items);
      const auto allowed = collection.allowed(parse_filter(value.filter).value());
      ASSERT_OK(allowed);
      EXPECT_EQ(std::count(allowed->begin(), allowed->end(), 1), value.items) << value.filter;
    }
  }
  using Values = std::vector<std::pair<std::string, int64_t>>;
  EXPECT_EQ(found["camera"], (Values{{"Canon \"R5\"", 2}}));
  EXPECT_EQ(found["place"], (Values{{"Lyon, Auvergne-Rhône-Alpes, FR", 1}, {"Paris, Île-de-France, FR", 1}}));
  EXPECT_EQ(found["keyword"], (Values{{"Paris", 2}, {"night", 1}}));
  EXPECT_EQ(found["date"], (Values{{"1999", 2}, {"1970", 1}}));
}

TEST_F(Facets, EachValuesFilterLeavesAsManyPicturesAsItSays) {
  put("/all/birds/a [1]*.jpg", 4000, 3000, "jpeg", 0);
  put("/all/birds/b.jpg", 300, 400, "jpeg", 20 * 365 * kDay);
  put("/all/b*/c.png", 90, 100, "png", 20 * 365 * kDay + 40 * kDay);
  put("/all/b[x]\"y\\/d.png", 110, 100, "png", 20 * 365 * kDay);
  put("/all/bc/e.svg", 1000, 1000, "svg", -5 * kDay - 1);
  put("/all/f.svg", 1, 1, "svg", 54 * 365 * kDay);
  const CollectionReader collection = open();
  const auto facets = collection_facets(collection, "");
  ASSERT_OK(facets);
  std::vector<std::string> names;
  for (const Facet& facet : *facets) {
    names.push_back(facet.name);
    for (const FacetValue& value : facet.values) {
      const auto filter = parse_filter(value.filter);
      ASSERT_TRUE(filter) << value.filter << ": " << filter.error().message;
      const auto allowed = collection.allowed(*filter);
      ASSERT_OK(allowed);
      EXPECT_EQ(std::ranges::count(*allowed, 1), value.items) << value.filter;
    }
  }
  EXPECT_THAT(names, ElementsAre("folder", "format", "date", "size", "shape"));
  EXPECT_EQ((*facets)[0].values.front().name, "birds");  // of most pictures
  EXPECT_EQ((*facets)[0].values.size(), 4U);
  EXPECT_EQ((*facets)[2].values.front().name, "2023");
  EXPECT_EQ((*facets)[2].values.back().name, "1969");
}

TEST_F(Facets, SizesOfNoRealImageAreLarge) {
  put("/all/a.jpg", int64_t{1} << 62, int64_t{1} << 62, "jpeg", 0);
  put("/all/b.jpg", 10, 10, "jpeg", 0);
  const CollectionReader collection = open();
  const auto facets = collection_facets(collection, "");
  ASSERT_OK(facets);
  const auto size = std::ranges::find(*facets, "size", &Facet::name);
  ASSERT_NE(size, facets->end());
  for (const FacetValue& value : size->values) {
    const auto allowed = collection.allowed(parse_filter(value.filter).value());
    ASSERT_OK(allowed);
    EXPECT_EQ(std::ranges::count(*allowed, 1), value.items) << value.name;
  }
}

TEST_F(Facets, AreOfWhatAFilterLeaves) {
  put("/a/b/one.png", 10, 10, "png", 0);
  put("/a/b/c/two.png", 10, 10, "png", kDay);
  put("/a/d/three.jpg", 10, 10, "jpeg", 40 * kDay);
  const CollectionReader collection = open();
  const auto facets = collection_facets(collection, "format=png");
  ASSERT_OK(facets);
  ASSERT_EQ(facets->size(), 2U);  // folder and date: all else is the same
  EXPECT_EQ((*facets)[0].values.front().filter, "path~\"/a/b/c/*\"");
  EXPECT_EQ((*facets)[1].values.front().name, "1970-01-02");  // days of one month
  EXPECT_EQ((*facets)[1].values.back().name, "1970-01-01");
  const auto none = collection_facets(collection, "format=gif");
  ASSERT_OK(none);
  EXPECT_THAT(*none, IsEmpty());
  EXPECT_EQ(collection_facets(collection, "width>").error().code, ErrorCode::kUsage);
}

}  // namespace
}  // namespace saccade
