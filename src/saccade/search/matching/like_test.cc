#include <random>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "saccade/collection/test_support.h"
#include "saccade/core/test_folder.h"
#include "saccade/search/search.h"

namespace saccade {
namespace {

using Puts = std::vector<CollectionChange::Put>;

// Sixty images with copies, near-duplicates and pairs among them, and dates in no order.
Puts random_puts(std::mt19937& random) {
  std::normal_distribution<float> normal;
  Puts puts;
  for (int i = 0; i < 60; ++i) {
    const bool raw = random() % 4 == 0;
    auto put =
        test::put_of(fmt::format("/{}/IMG_{}.{}", raw ? 0 : random() % 2, i / 2, raw ? "CR2" : "jpg"), i);
    if (std::ranges::any_of(puts, [&](const auto& other) { return other.item.path == put.item.path; }))
      continue;
    put.item.format = raw ? "raw" : "jpeg";
    put.item.mtime_ns = static_cast<int64_t>(random() % 1000) * 1'000'000'000;
    if (!puts.empty() && random() % 3 == 0) {
      put.values = puts[random() % puts.size()].values;
      if (random() % 2 == 0) put.values[0] += 0.01F * normal(random);
      float length = 0;
      for (const float value : put.values) length += value * value;
      for (float& value : put.values) value /= std::sqrt(length);
    }
    puts.push_back(std::move(put));
  }
  return puts;
}

class Like : public testing::Test {
 protected:
  CollectionReader make(const std::string& name, const Puts& puts) {
    auto writer = CollectionWriter::create(folder_ / name, test::fake_checkpoint());
    EXPECT_TRUE(writer) << writer.error().message;
    CollectionChange change;
    change.puts = puts;
    EXPECT_TRUE(writer->commit(change));
    return *CollectionReader::open(folder_ / name);
  }

  // Searches by a stored image alone.
  Result<SearchAnswer> search_like(const CollectionReader& collection, int64_t id, SearchQuery query) {
    SACCADE_ASSIGN(query.images.emplace_back(), stored_image(collection, id));
    return search(collection, encoder_, query, pool_);
  }

  // "rank path [folded ...]" of each hit.
  static std::vector<std::string> told(const SearchAnswer& answer) {
    std::vector<std::string> hits;
    for (const SearchHit& hit : answer.hits) {
      std::string& text = hits.emplace_back(fmt::format("{} {}", hit.rank, hit.item.path));
      for (const SearchHit::Folded& copy : hit.folded) text += " [" + copy.item.path + "]";
    }
    return hits;
  }

  test::TestFolder folder_;
  test::FakeEncoder encoder_;
  ThreadPool pool_{2};
};

TEST_F(Like, IsASearchOfTheOtherImages) {
  std::mt19937 random(22);
  for (int round = 0; round < 12; ++round) {
    const Puts puts = random_puts(random);
    const CollectionReader collection = make(fmt::format("all {}", round), puts);
    const size_t which = random() % puts.size();
    Puts others = puts;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(which));
    const CollectionReader without = make(fmt::format("without {}", round), others);
    for (const int64_t k : {1, 5, 20, 100}) {
      for (const Order order : {Order::kScore, Order::kDate}) {
        SearchQuery query;
        query.k = k;
        query.order = order;
        query.group_duplicates = round % 3 != 0;
        query.filter = round % 2 == 0 ? "" : "id>0";
        const auto answer = search_like(collection, static_cast<int64_t>(which) + 1, query);
        ASSERT_OK(answer);
        const auto expected = search_row(without, puts[which].values, query, pool_);
        ASSERT_OK(expected);
        EXPECT_EQ(told(*answer), told(*expected)) << "round " << round << ", k " << k;
        EXPECT_EQ(answer->searched, expected->searched);
        EXPECT_EQ(answer->query.k, k);
      }
    }
  }
}

TEST_F(Like, AnItemThatIsNotThereIsAnError) {
  const CollectionReader collection = make("c", {test::put_of("/a.jpg", 1)});
  EXPECT_EQ(search_like(collection, 7, {}).error().code, ErrorCode::kNotFound);
  const auto alone = search_like(collection, 1, {});
  ASSERT_OK(alone);
  EXPECT_TRUE(alone->hits.empty());
  EXPECT_EQ(alone->searched, 0);
  SearchQuery query;
  query.filter = "id>1";
  EXPECT_EQ(search_like(collection, 1, query)->searched, 0);
}

// By date the next hits may stand anywhere among those of a longer search.
TEST_F(Like, MoreHitsNeverRepeatAndNeverOmit) {
  std::mt19937 random(21);
  const Puts puts = random_puts(random);
  const CollectionReader collection = make("c", puts);
  for (const Order order : {Order::kScore, Order::kDate}) {
    std::set<int64_t> shown;
    std::vector<int64_t> ranks;
    SearchQuery query;
    query.order = order;
    query.group_duplicates = false;
    for (query.k = 7;; query.k += 7) {
      auto answer = search_row(collection, puts[3].values, query, pool_);
      ASSERT_OK(answer);
      drop_shown(shown, *answer);
      if (answer->hits.empty()) break;
      ASSERT_LE(answer->hits.size(), 7U);
      int64_t before = std::numeric_limits<int64_t>::max();
      for (const SearchHit& hit : answer->hits) {
        EXPECT_TRUE(shown.insert(hit.item.id).second) << hit.item.path;
        ranks.push_back(hit.rank);
        EXPECT_TRUE(order != Order::kDate || hit.item.mtime_ns <= before);
        before = hit.item.mtime_ns;
      }
      // Each page has the next ranks.
      std::ranges::sort(ranks);
      EXPECT_EQ(ranks.back(), std::ssize(ranks));
    }
    EXPECT_EQ(shown.size(), puts.size());
  }
}

}  // namespace
}  // namespace saccade
