#include "saccade/collection/places.h"

#include <cmath>
#include <random>

#include <gmock/gmock.h>

#include "saccade/core/test_folder.h"

namespace saccade {
namespace {

using testing::HasSubstr;

// From GeoNames, by tools/places/bundle.mjs.
constexpr const char* kTowns =
    "# Towns\n"
    "-33.8678\t151.2073\tSydney, New South Wales, AU\n"
    "-16.5000\t-179.9900\tWest of the line, FJ\n"
    "45.7485\t4.8467\tLyon, Auvergne-Rhône-Alpes, FR\n"
    "45.7660\t4.8795\tVilleurbanne, Auvergne-Rhône-Alpes, FR\n"
    "78.2232\t15.6469\tLongyearbyen, Svalbard, SJ\n";

TEST(Places, NearestTownOrNone) {
  const test::TestFolder folder;
  const Gazetteer places(folder.write("towns.tsv", kTowns));
  EXPECT_EQ(places.nearest(45.75, 4.85).value(), "Lyon, Auvergne-Rhône-Alpes, FR");
  EXPECT_EQ(places.nearest(45.766, 4.88).value(), "Villeurbanne, Auvergne-Rhône-Alpes, FR");
  EXPECT_EQ(places.nearest(45.4, 4.9).value(), "Lyon, Auvergne-Rhône-Alpes, FR");  // another cell
  EXPECT_EQ(places.nearest(-33.8568, 151.2153).value(), "Sydney, New South Wales, AU");
  EXPECT_EQ(places.nearest(-16.5, 179.9).value(), "West of the line, FJ");    // over the date line
  EXPECT_EQ(places.nearest(78.3, 14).value(), "Longyearbyen, Svalbard, SJ");  // three cells away, and 38 km
  EXPECT_EQ(places.nearest(0, 0).value(), "");
  EXPECT_EQ(places.nearest(90, 0).value(), "");
  EXPECT_EQ(places.nearest(-90, 180).value(), "");
  EXPECT_FALSE(places.nearest(std::nan(""), 0));
}

TEST(Places, AsALookAtEveryTownFindsIt) {
  const test::TestFolder folder;
  std::mt19937 random(7);
  std::uniform_real_distribution<double> across(0, 1);
  std::string towns;
  std::vector<std::pair<double, double>> all;
  for (int i = 0; i < 3000; ++i) {
    const double latitude = std::round((60 + 25 * across(random)) * 1e4) / 1e4;
    const double longitude = std::round((170 + 20 * across(random)) * 1e4) / 1e4;
    all.emplace_back(latitude, longitude > 180 ? longitude - 360 : longitude);
    towns += fmt::format("{:.4f}\t{:.4f}\t{}\n", all.back().first, all.back().second, i);
  }
  const Gazetteer places(folder.write("towns.tsv", towns));
  int found = 0;
  for (int i = 0; i < 300; ++i) {
    const double latitude = 60 + 25 * across(random);
    double longitude = 170 + 20 * across(random);
    if (longitude > 180) longitude -= 360;
    // Law of cosines, over all of them.
    int best = -1;
    double least = kNearestKilometres;
    for (size_t t = 0; t < all.size(); ++t) {
      const double r = std::acos(-1.0) / 180;
      const double c =
          std::sin(latitude * r) * std::sin(all[t].first * r) +
          std::cos(latitude * r) * std::cos(all[t].first * r) * std::cos((longitude - all[t].second) * r);
      const double away = 6371 * std::acos(std::min(1.0, c));
      if (away < least) {
        least = away;
        best = static_cast<int>(t);
      }
    }
    EXPECT_EQ(places.nearest(latitude, longitude).value(), best < 0 ? "" : std::to_string(best));
    found += best >= 0 ? 1 : 0;
  }
  EXPECT_GT(found, 50);
}

TEST(Places, FilesThatAreNoneAreErrors) {
  const test::TestFolder folder;
  EXPECT_EQ(Gazetteer(folder / "none.tsv").nearest(1, 1).error().code, ErrorCode::kNotFound);
  const Gazetteer broken(folder.write("broken.tsv", "# head\n1\t2\tA\nnorth\t2\tB\n"));
  EXPECT_THAT(broken.nearest(1, 1).error().message, HasSubstr("line 3"));
  EXPECT_FALSE(broken.nearest(1, 1));
}

}  // namespace
}  // namespace saccade
