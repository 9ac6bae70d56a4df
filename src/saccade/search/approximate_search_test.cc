// Searches of a collection with an approximate index: what they say of themselves, and when they are exact after all.
#include <filesystem>
#include <memory>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/collection/build_approximate.h"
#include "saccade/collection/collection_reader.h"
#include "saccade/collection/collection_writer.h"
#include "saccade/collection/test_support.h"
#include "saccade/core/files/files.h"
#include "saccade/core/rows.h"
#include "saccade/core/test_folder.h"
#include "saccade/search/answer_warnings.h"
#include "saccade/search/search.h"

namespace saccade {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr int64_t kDim = 32;
constexpr int64_t kItems = 20'000;
constexpr char kFingerprint[] = "2222222222222222222222222222222222222222222222222222222222222222";

std::vector<float> near_center(int center, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::normal_distribution<float> noise;  // one of its own, because a distribution keeps every second number
  std::mt19937 of_center(static_cast<uint32_t>(center));
  std::vector<float> row(kDim);
  for (float& value : row) value = normal(of_center) + 0.4F * noise(random);
  normalize_row(row);
  return row;
}

class ApproximateSearch : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    temporary_ = new test::TestFolder;
    auto writer = CollectionWriter::create(folder(), {"none", "", kFingerprint, kDim});
    ASSERT_TRUE(writer.has_value()) << writer.error().message;
    std::mt19937 random(1);
    CollectionChange change;
    for (int64_t i = 0; i < kItems; ++i) {
      CollectionChange::Put put;
      put.item.path = fmt::format("/{}.png", i);
      put.item.hash = fmt::format("{:064x}", i);
      put.item.format = "png";
      put.item.width = 1 + i % 1000;
      put.item.height = 10;
      put.values = near_center(static_cast<int>(i % 200), random);
      change.puts.push_back(std::move(put));
    }
    ASSERT_TRUE(writer->commit(change).has_value());
    ThreadPool pool(2);
    std::mt19937 other(2);
    Matrix<float> texts(90, kDim);
    for (int64_t q = 0; q < 90; ++q)
      std::ranges::copy(near_center(static_cast<int>(q), other), texts.row(q).begin());
    const CollectionReader collection = CollectionReader::open(folder()).value();
    const auto built = build_approximate(collection, {.from = 1000, .texts = texts.view()}, pool);
    ASSERT_TRUE(built.has_value()) << built.error().message;
    ASSERT_LT((*built)->texts.probe.scanned, kItems / 4);
    ASSERT_LT((*built)->images.probe.scanned, kItems / 4);
  }
  static void TearDownTestSuite() { delete temporary_; }
  static std::filesystem::path folder() { return temporary_->path() / "c"; }

  static SearchAnswer search(const SearchQuery& query, int seed = 7) {
    ThreadPool pool(2);
    const CollectionReader collection = CollectionReader::open(folder()).value();
    std::mt19937 random(static_cast<uint32_t>(seed));
    auto answer = search_row(collection, near_center(seed, random), query, pool);
    EXPECT_TRUE(answer.has_value()) << answer.error().message;
    return answer ? *std::move(answer) : SearchAnswer();
  }
  static SearchQuery text() {
    SearchQuery query;
    query.text = QueryText("red");
    return query;
  }

  static test::TestFolder* temporary_;
};
test::TestFolder* ApproximateSearch::temporary_ = nullptr;

TEST_F(ApproximateSearch, SaysSoInNoteAndJson) {
  const SearchAnswer answer = search(text());
  ASSERT_TRUE(answer.approximate.has_value()) << approximate_note(answer);
  EXPECT_TRUE(answer.approximate->texts);
  EXPECT_EQ(answer.approximate->queries, 60);
  EXPECT_GE(answer.approximate->recall, 0.95);
  EXPECT_THAT(approximate_note(answer),
              testing::MatchesRegex("approximate, recall (0.9[5-9]|1.00) measured on 60 text queries"));
  EXPECT_EQ(scored_note(answer), "");
  const Json json = answer_json(answer);
  EXPECT_EQ(json["approximate"]["of"], "text");
  EXPECT_EQ(json["approximate"]["at"], 10);
  EXPECT_EQ(json["approximate"]["queries"], 60);
  const auto notes = answer_notes(answer);
  EXPECT_TRUE(std::ranges::any_of(notes, [](const AnswerNote& note) { return note.name == "approximate"; }));
  // Searches by an image have a figure of their own.
  const SearchAnswer image = search({});
  ASSERT_TRUE(image.approximate.has_value());
  EXPECT_FALSE(image.approximate->texts);
  EXPECT_THAT(approximate_note(image), HasSubstr("image queries"));
}

TEST_F(ApproximateSearch, ExactGoesAroundIt) {
  SearchQuery query = text();
  query.exact = true;
  int64_t same = 0;
  for (int seed = 0; seed < 30; ++seed) {
    const SearchAnswer exact = search(query, seed);
    EXPECT_FALSE(exact.approximate.has_value());
    EXPECT_EQ(approximate_note(exact), "");
    EXPECT_TRUE(answer_json(exact)["approximate"].is_null());
    const SearchAnswer near = search(text(), seed);
    ASSERT_EQ(near.hits.size(), exact.hits.size());
    for (const SearchHit& hit : near.hits) {
      // A score is exact, whoever finds it.
      const auto there =
          std::ranges::find(exact.hits, hit.item.id, [](const SearchHit& one) { return one.item.id; });
      if (there == exact.hits.end()) continue;
      EXPECT_EQ(there->score, hit.score);
      ++same;
    }
  }
  EXPECT_GE(same, 285);
}

// Some of them by the index, some exactly.
TEST_F(ApproximateSearch, QueriesTogetherGetTheAnswersThatEachGetsAlone) {
  ThreadPool pool(2);
  const CollectionReader collection = CollectionReader::open(folder()).value();
  test::FakeEncoder encoder;  // gives its logit scale alone
  std::mt19937 random(3);
  std::vector<EncodedQuery> encoded(20);
  std::vector<SearchQuery> queries(20);
  std::vector<EncodedSearch> searches;
  for (size_t i = 0; i < 20; ++i) {
    encoded[i].row = near_center(static_cast<int>(i), random);
    queries[i] = text();
    queries[i].exact = i % 3 == 0;
    searches.push_back({&encoded[i], &queries[i]});
  }
  const auto answers = search_encoded_all(collection, encoder, searches, pool);
  for (size_t i = 0; i < 20; ++i) {
    const auto alone = search_encoded(collection, encoder, encoded[i], queries[i], pool);
    ASSERT_TRUE(alone && answers[i]);
    EXPECT_EQ(answers[i]->approximate.has_value(), i % 3 != 0);
    Json together = answer_json(*answers[i]);
    Json expected = answer_json(*alone);
    together["rescored"] = expected["rescored"] = nullptr;
    EXPECT_EQ(dump_json(together), dump_json(expected)) << i;
  }
}

TEST_F(ApproximateSearch, FiltersThatLeaveFewAreSearchedExactly) {
  SearchQuery query = text();
  query.filter = "width<=20";
  const SearchAnswer few = search(query);
  EXPECT_FALSE(few.approximate.has_value());
  EXPECT_EQ(few.searched, 400);
  EXPECT_EQ(few.hits.size(), 10U);
  query.filter = "width<=900";
  const SearchAnswer most = search(query);
  EXPECT_TRUE(most.approximate.has_value());
  EXPECT_EQ(most.searched, 18'000);
  for (const SearchHit& hit : most.hits) EXPECT_LE(hit.item.width, 900);
}

TEST_F(ApproximateSearch, ADamagedIndexIsAnExactAnswerWithANote) {
  const std::filesystem::path file = folder() / "rows-1.lists";
  const std::string whole = read_file(file).value();
  std::string damaged = whole;
  // All signs are at the file's end, or means: every list is touched.
  for (size_t at = damaged.size() / 4; at < damaged.size(); at += 64)
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
  ASSERT_TRUE(write_file_atomic(file, damaged).has_value());
  SearchQuery exact = text();
  exact.exact = true;
  const SearchAnswer expected = search(exact);
  const SearchAnswer answer = search(text());
  EXPECT_FALSE(answer.approximate.has_value());
  EXPECT_THAT(approximate_note(answer), StartsWith("searched exactly: "));
  EXPECT_THAT(approximate_note(answer), HasSubstr("saccade collection ann"));
  ASSERT_EQ(answer.hits.size(), expected.hits.size());
  for (size_t i = 0; i < answer.hits.size(); ++i) EXPECT_EQ(answer.hits[i].item.id, expected.hits[i].item.id);
  ASSERT_TRUE(write_file_atomic(file, std::string_view(whole).substr(0, whole.size() / 2)).has_value());
  EXPECT_THAT(approximate_note(search(text())), HasSubstr("approximate index: "));
  std::filesystem::remove(file);
  EXPECT_EQ(approximate_note(search(text())), "");
  ASSERT_TRUE(write_file_atomic(file, whole).has_value());
  EXPECT_TRUE(search(text()).approximate.has_value());
}

}  // namespace
}  // namespace saccade
