#include "saccade/search/keywords/keyword_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "saccade/collection/catalog/sqlite.h"
#include "saccade/collection/catalog/words/word_match.h"
#include "saccade/collection/collection_writer.h"
#include "saccade/core/files/files.h"
#include "saccade/core/hash.h"
#include "saccade/core/source_dir.h"
#include "saccade/core/test_folder.h"
#include "saccade/search/query_language.h"
#include "saccade/search/search.h"

namespace saccade {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

namespace fs = std::filesystem;

constexpr int64_t kDim = 4;

// Never encodes: queries come as rows.
class NoEncoder : public EncoderBackend {
 public:
  [[nodiscard]] const EncoderInfo& info() const override { return info_; }
  [[nodiscard]] const Preprocessing& preprocessing() const override { return preprocessing_; }
  [[nodiscard]] const Tokenizer* tokenizer() const override { return nullptr; }
  [[nodiscard]] Result<Matrix<float>> encode_images(MatrixView<const float>) override {
    return fail(ErrorCode::kInternal, "encodes nothing");
  }
  [[nodiscard]] Result<Matrix<float>> encode_texts(std::span<const TokenizedText>) override {
    return fail(ErrorCode::kInternal, "encodes nothing");
  }

 private:
  EncoderInfo info_;
  Preprocessing preprocessing_;
};

class WordSearchTest : public testing::Test {
 protected:
  void SetUp() override {
    auto writer = CollectionWriter::create(folder_, {"none", "/none", sha256_hex("none"), kDim});
    ASSERT_TRUE(writer) << writer.error().message;
    writer_ = std::make_unique<CollectionWriter>(*std::move(writer));
  }
  // A picture whose cosine with the query, axis 0, is `score`.
  static CollectionChange::Put put(const std::string& path, double score, const std::string& caption = "") {
    CollectionChange::Put result;
    result.item.path = path;
    result.item.hash = sha256_hex(path);
    result.item.width = result.item.height = 10;
    result.item.format = "png";
    result.item.caption = caption;
    // Different directions beside axis 0, so that none looks like another.
    const double angle = static_cast<double>(std::hash<std::string>()(path) % 1000);
    const double rest = std::sqrt(1 - score * score);
    result.values = {static_cast<float>(score), static_cast<float>(rest * std::cos(angle)),
                     static_cast<float>(rest * std::sin(angle)), 0};
    return result;
  }
  void add(std::vector<CollectionChange::Put> puts) {
    CollectionChange change;
    change.puts = std::move(puts);
    const Status status = writer_->commit(change);
    ASSERT_TRUE(status) << status.error().message;
  }
  SearchAnswer answer_to(const std::string& typed, double share = kWordShare, int64_t k = 10,
                         const std::string& filter = "") {
    const auto collection = CollectionReader::open(folder_);
    EXPECT_TRUE(collection) << collection.error().message;
    SearchQuery query;
    query.text = read_query_text(typed).value();
    query.keyword_weight = share;
    query.k = k;
    query.filter = filter;
    query.group_duplicates = fold_;
    EncodedQuery encoded;
    encoded.row = {1, 0, 0, 0};
    if (ahead_) look_ahead(*collection, query);
    auto answer = search_encoded(*collection, encoder_, encoded, query, pool_);
    EXPECT_TRUE(answer) << answer.error().message;
    return answer ? *std::move(answer) : SearchAnswer{};
  }
  static std::vector<std::string> paths(const SearchAnswer& answer) {
    std::vector<std::string> result;
    for (const SearchHit& hit : answer.hits) result.push_back(hit.item.path);
    return result;
  }

  test::TestFolder temporary_;
  fs::path folder_ = temporary_.path() / "collection";
  std::unique_ptr<CollectionWriter> writer_;
  NoEncoder encoder_;
  ThreadPool pool_{2};
  bool fold_ = false;
  bool ahead_ = false;  // look_ahead() before a search
};

// The case that words are there for: the model takes a stop sign for a red apple.
TEST_F(WordSearchTest, AFileCaptionedRedAppleIsTheFirstRedApple) {
  add({put("/1.png", 0.9, "stop sign"), put("/2.png", 0.8, "red stop sign"), put("/3.png", 0.7, "bell"),
       put("/4.png", 0.6), put("/5.png", 0.5, "a red apple")});
  EXPECT_EQ(paths(answer_to("red apple", 0)).front(), "/1.png");
  const SearchAnswer answer = answer_to("red apple");
  EXPECT_THAT(paths(answer), ElementsAre("/5.png", "/1.png", "/2.png", "/3.png", "/4.png"));
  const SearchHit& first = answer.hits.front();
  EXPECT_FLOAT_EQ(first.score, 0.5F) << "the score stays the cosine";
  EXPECT_EQ(first.vector_rank, 5);
  ASSERT_TRUE(first.keywords);
  EXPECT_EQ(first.keywords->rank, 1);
  EXPECT_DOUBLE_EQ(first.keywords->weight, 1);
  ASSERT_EQ(first.keywords->matches.size(), 2U);
  EXPECT_EQ(first.keywords->matches[0].term, "red");
  EXPECT_EQ(first.keywords->matches[0].fields, kInCaption);
  EXPECT_TRUE(first.keywords->all);
  EXPECT_FALSE(answer.hits[2].keywords) << "a stop sign that is red is no apple";
  ASSERT_TRUE(answer.keywords);
  EXPECT_EQ(answer.keywords->pictures, 1);
  EXPECT_DOUBLE_EQ(answer.keywords->share, kWordShare);
  EXPECT_EQ(words_note(answer), "1 of 5 results also matches by caption");
}

// "red" is rarer than "heart", and images with "red" alone look less like a red heart than hearts do.
TEST_F(WordSearchTest, AColourAloneNeverLiftsAnImage) {
  std::vector<CollectionChange::Put> puts;
  for (int i = 0; i < 10; ++i) puts.push_back(put(fmt::format("/h{}.png", i), 0.8 - 0.01 * i, "heart"));
  for (int i = 0; i < 3; ++i) puts.push_back(put(fmt::format("/r{}.png", i), 0.75 + 0.01 * i, "red apple"));
  puts.push_back(put("/both.png", 0.3, "a red heart"));
  for (int i = 0; i < 40; ++i) puts.push_back(put(fmt::format("/o{}.png", i), 0.01 * i, "bell"));
  add(std::move(puts));
  const SearchAnswer answer = answer_to("red heart", kWordShare, 11);
  EXPECT_EQ(paths(answer).front(), "/both.png") << "all words come first";
  for (size_t i = 1; i < 11; ++i) {
    EXPECT_EQ(answer.hits[i].item.path, fmt::format("/h{}.png", i - 1));
    EXPECT_FALSE(answer.hits[i].keywords->all);
  }
  EXPECT_EQ(words_note(answer), "all 11 results also match by caption");
  // A colour matches where nothing else is asked for.
  EXPECT_EQ(answer_to("red").keywords->pictures, 4);
}

// Words that no image has count as words that this image lacks.
TEST_F(WordSearchTest, AKnownAttributeOfAnUnknownThingIsNoMatch) {
  add({put("/1.png", 0.9, "bell"), put("/2.png", 0.8, "red apple"), put("/3.png", 0.7, "car")});
  const SearchAnswer answer = answer_to("red gizmo");
  EXPECT_EQ(answer.keywords->pictures, 0);
  EXPECT_EQ(paths(answer), paths(answer_to("red gizmo", 0)));
}

TEST_F(WordSearchTest, WithoutAMatchNothingChanges) {
  std::vector<CollectionChange::Put> puts;
  for (int i = 0; i < 50; ++i) {
    puts.push_back(put(fmt::format("/{}.png", i), 0.9 - 0.01 * i, i % 2 == 0 ? "bell" : ""));
  }
  add(std::move(puts));
  for (const char* text :
       {"red apple", "the", "\"red bell\"", "!?", "*", "\"\"\"", "AND OR NOT", "bell*", "caption:bell"}) {
    const SearchAnswer plain = answer_to(text, 0, 50);
    const SearchAnswer worded = answer_to(text, 0.9, 50);
    if (worded.keywords && worded.keywords->pictures > 0) continue;  // "bell*" is the word
    EXPECT_EQ(paths(plain), paths(worded)) << text;
    EXPECT_EQ(words_note(worded), "") << text;
    for (const SearchHit& hit : worded.hits) EXPECT_FALSE(hit.keywords || hit.vector_rank) << text;
  }
  EXPECT_FALSE(answer_to("bell", 0).keywords);
}

// By formula, on every picture, with plain loops.
TEST_F(WordSearchTest, HitsAreOrderedAsTheFormulaSays) {
  std::vector<CollectionChange::Put> puts;
  for (int i = 0; i < 60; ++i) {
    std::string caption = i % 7 == 0 ? "red apple" : i % 5 == 0 ? "green apple" : i % 3 == 0 ? "red car" : "";
    puts.push_back(put(fmt::format("/{}.png", i), std::sin(i * 37.0) * 0.9, caption));
  }
  add(std::move(puts));
  const auto collection = CollectionReader::open(folder_);
  SearchQuery query;
  query.text = "red apple";
  query.keyword_weight = kWordShare;
  const std::vector<uint8_t> all(60, 1);
  const auto ranking = rank_by_keywords(*collection, query, all);
  ASSERT_TRUE(ranking);
  std::vector<float> row = {1, 0, 0, 0};
  ScoreScale scale = score_scale(collection->rows(), row);
  scale.separation = estimated_separation(scale.deviation, double{encoder_.info().logit_scale});
  for (const double share : {0.1, 0.5, 0.8, 1.0}) {
    const SearchAnswer answer = answer_to("red apple", share, 60);
    const SearchAnswer by_score = answer_to("red apple", 0, 60);
    ASSERT_EQ(answer.hits.size(), 60U);
    std::map<std::string, int64_t> rank;
    for (const SearchHit& hit : by_score.hits) rank[hit.item.path] = hit.rank;
    double last = std::numeric_limits<double>::infinity();
    for (const SearchHit& hit : answer.hits) {
      ASSERT_EQ(hit.vector_rank, rank.at(hit.item.path));
      const bool apple = hit.item.caption.ends_with("apple");
      EXPECT_EQ(hit.keywords.has_value(), apple) << hit.item.caption;
      WordEvidence evidence;
      if (apple) evidence = place_of(*ranking, hit.item.row)->evidence;
      EXPECT_EQ(evidence.all, hit.item.caption == "red apple");
      EXPECT_NEAR(evidence.coverage, !apple ? 0 : evidence.all ? 1 : 1 / 1.3, 1e-12);
      const double sum = order_of(scale, double{hit.score}, evidence, share);
      EXPECT_LE(sum, last + 1e-12);
      last = sum;
    }
  }
}

TEST_F(WordSearchTest, WordsBringWhatVectorsDoNotAndEveryAnswerIsAPrefixOfALongerOne) {
  std::vector<CollectionChange::Put> puts;
  for (int i = 0; i < 3000; ++i) puts.push_back(put(fmt::format("/{}.png", i), 0.9 - 0.0002 * i));
  puts.push_back(put("/far/needle.png", -0.5));
  add(std::move(puts));
  const SearchAnswer answer = answer_to("needle", 0.5, 10);
  EXPECT_EQ(paths(answer).front(), "/far/needle.png");
  EXPECT_EQ(paths(answer)[1], "/0.png");
  EXPECT_FALSE(answer.hits[0].vector_rank) << "below the depth";
  EXPECT_EQ(answer.hits[0].keywords->matches[0].fields, kInName);
  EXPECT_EQ(words_note(answer), "1 of 10 results also matches by file name");
  EXPECT_EQ(paths(answer_to("needle", 0.005, 1)).front(), "/0.png");
  const std::vector<std::string> all = paths(answer_to("needle", 0.5, 3001));
  ASSERT_EQ(all.size(), 3001U);
  for (const int64_t k : {1, 2, 100, 999, 1000, 1001, 2500}) {
    const auto some = paths(answer_to("needle", 0.5, k));
    ASSERT_EQ(std::ssize(some), k);
    EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin())) << k;
  }
}

// By counting, for every match, those that are stronger. Many are as strong as the last one that counts.
TEST_F(WordSearchTest, RanksCountDownToTheDepth) {
  constexpr int kItems = 5400;
  constexpr int kMatches = 1300;
  std::vector<CollectionChange::Put> puts;
  for (int i = 0; i < kItems; ++i) {
    std::string caption = i % 4 == 0 && i / 4 < kMatches ? "needle" : "hay";
    for (int words = i * 7 % 23; words > 0; --words) caption += " hay";
    puts.push_back(put(fmt::format("/{}.png", i), 0.5, caption));
  }
  add(std::move(puts));
  const auto collection = CollectionReader::open(folder_);
  ASSERT_TRUE(collection) << collection.error().message;
  SearchQuery query;
  query.text = "needle";
  query.keyword_weight = kWordShare;
  const std::vector<uint8_t> all(kItems, 1);
  const auto ranking = rank_by_keywords(*collection, query, all);
  ASSERT_TRUE(ranking) << ranking.error().message;
  EXPECT_EQ(ranking->report.pictures, kMatches);
  EXPECT_TRUE(ranking->words.any_all);
  const std::string term = "needle";
  const auto matches = collection->match_words({&term, 1});
  ASSERT_TRUE(matches) << matches.error().message;
  ASSERT_EQ(std::ssize(matches->found), kMatches);
  std::vector<double> strengths;
  for (const WordMatch& match : matches->found) {
    strengths.push_back(
        WordEvidence{.all = true, .coverage = 1, .bm25 = match.weight / matches->weight}.strength());
  }
  size_t expected = 0;
  for (size_t i = 0; i < strengths.size(); ++i) {
    const int64_t rank =
        1 + std::ranges::count_if(strengths, [&](double other) { return other > strengths[i]; });
    const KeywordRanking::Place* place = place_of(*ranking, matches->found[i].row);
    ASSERT_EQ(place != nullptr, rank <= kWordDepth) << i;
    if (place == nullptr) continue;
    ++expected;
    EXPECT_EQ(place->rank, rank) << i;
    EXPECT_EQ(place->id, matches->found[i].id);
    EXPECT_EQ(place->evidence.strength(), strengths[i]);
  }
  EXPECT_EQ(ranking->places.size(), expected);
  EXPECT_GT(std::ssize(ranking->places), kWordDepth) << "ties of the last rank that counts";
  EXPECT_LT(std::ssize(ranking->places), kMatches);
}

TEST_F(WordSearchTest, WordsThatNearlyAllImagesHaveAreNotSearchedForAndTheAnswerSaysSo) {
  std::vector<CollectionChange::Put> puts;
  for (int i = 0; i < 40; ++i)
    puts.push_back(put(fmt::format("/{}.png", i), 0.5, i < 2 ? "icon bell" : "icon"));
  add(std::move(puts));
  const SearchAnswer common = answer_to("icon");
  ASSERT_TRUE(common.keywords);
  EXPECT_EQ(common.keywords->pictures, 0);
  EXPECT_EQ(common.keywords->reason,
            "the words of the query are in more than a quarter of the images and were not searched for");
  EXPECT_EQ(words_note(common), common.keywords->reason);
  const SearchAnswer both = answer_to("icon bell");
  ASSERT_TRUE(both.keywords);
  EXPECT_EQ(both.keywords->pictures, 2);
  EXPECT_EQ(both.keywords->reason, "");
}

TEST_F(WordSearchTest, PhrasesStandSideBySide) {
  add({put("/1.png", 0.9, "apple, red"), put("/2.png", 0.8, "a red apple"),
       put("/3.png", 0.7, "red apple tree")});
  EXPECT_EQ(answer_to("red apple").keywords->pictures, 3);
  EXPECT_EQ(answer_to("\"red apple\"").keywords->pictures, 2);
  EXPECT_THAT(paths(answer_to("\"red apple\" tree")), ElementsAre("/3.png", "/2.png", "/1.png"));
}

TEST_F(WordSearchTest, WhatIsNotWantedIsNotBroughtByWords) {
  add({put("/1.png", 0.9), put("/2.png", 0.5, "cats and dogs"), put("/3.png", 0.4, "a cat")});
  const SearchAnswer answer = answer_to("cats -dogs");
  EXPECT_EQ(answer.keywords->pictures, 1);
  EXPECT_EQ(paths(answer).front(), "/3.png");
}

TEST_F(WordSearchTest, AWordThatIsNotWantedCountsHoweverManyImagesHaveIt) {
  std::vector<CollectionChange::Put> puts;
  for (int i = 0; i < 40; ++i) puts.push_back(put(fmt::format("/dog{}.png", i), 0.2, "dogs"));
  puts.push_back(put("/1.png", 0.9));
  puts.push_back(put("/2.png", 0.5, "cats and dogs"));
  puts.push_back(put("/3.png", 0.4, "a cat"));
  add(std::move(puts));
  const SearchAnswer answer = answer_to("cats -dogs", 1);
  EXPECT_EQ(answer.keywords->pictures, 1);
  EXPECT_EQ(paths(answer).front(), "/3.png");
}

TEST_F(WordSearchTest, TheFilterHoldsForWordsToo) {
  add({put("/1.png", 0.9), put("/needle.png", 0.5)});
  EXPECT_THAT(paths(answer_to("needle", 1, 10, "path != \"/needle.png\"")), ElementsAre("/1.png"));
}

TEST_F(WordSearchTest, LookingAheadChangesNoAnswer) {
  add({put("/1.png", 0.9, "bell"), put("/2.png", 0.8, "red apple"), put("/3.png", 0.7, "apple tree"),
       put("/4.png", 0.6)});
  for (const char* text : {"apple", "red apple -tree", "nowhere", "!?"}) {
    for (const char* filter : {"", "caption~a", "path!=/2.png", "camera=x"}) {
      ahead_ = false;
      const SearchAnswer plain = answer_to(text, kWordShare, 10, filter);
      ahead_ = true;
      const SearchAnswer ahead = answer_to(text, kWordShare, 10, filter);
      EXPECT_EQ(paths(ahead), paths(plain)) << text << ", " << filter;
      EXPECT_EQ(ahead.searched, plain.searched) << text << ", " << filter;
      EXPECT_EQ(words_note(ahead), words_note(plain)) << text << ", " << filter;
    }
  }
  // The search itself reports a wrong query.
  const auto collection = CollectionReader::open(folder_);
  ASSERT_TRUE(collection) << collection.error().message;
  SearchQuery query;
  query.text = "apple";
  query.filter = "no such field";
  look_ahead(*collection, query);
  EncodedQuery encoded;
  encoded.row = {1, 0, 0, 0};
  const auto answer = search_encoded(*collection, encoder_, encoded, query, pool_);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kUsage);
}

TEST_F(WordSearchTest, CopiesAreFoldedUnderTheOneThatWordsBring) {
  fold_ = true;
  auto copy = put("/2.png", 0.5, "needle");
  copy.values = put("/1.png", 0.5).values;
  add({put("/0.png", 0.9), put("/1.png", 0.5), copy});
  const SearchAnswer answer = answer_to("needle", 0.9);
  ASSERT_EQ(answer.hits.size(), 2U);
  EXPECT_EQ(answer.hits[0].item.path, "/2.png");
  ASSERT_EQ(answer.hits[0].folded.size(), 1U);
  EXPECT_EQ(answer.hits[0].folded[0].item.path, "/1.png");
}

// By words the copy without a caption ranks behind the last hit.
TEST_F(WordSearchTest, ACopyWithoutACaptionIsGroupedBehindTheLastHit) {
  fold_ = true;
  const auto first = put("/1.png", 0.9, "a needle");
  auto copy = put("/copy.png", 0.5);
  copy.values = first.values;
  add({first, put("/2.png", 0.8, "a needle"), put("/3.png", 0.7, "a needle"), copy});
  for (const int64_t k : {1, 2, 3}) {
    const SearchAnswer answer = answer_to("needle", 1, k);
    ASSERT_EQ(answer.hits.size(), static_cast<size_t>(k));
    EXPECT_EQ(answer.hits[0].item.path, "/1.png");
    ASSERT_EQ(answer.hits[0].folded.size(), 1U) << k;
    EXPECT_EQ(answer.hits[0].folded[0].item.path, "/copy.png");
  }
}

TEST_F(WordSearchTest, TermsAreWordsAndPhrases) {
  const auto terms = [](const std::string& typed) {
    SearchQuery query;
    query.text = read_query_text(typed).value();
    return word_terms(query);
  };
  EXPECT_THAT(terms("A photo of the Red apple, red!"), ElementsAre("red", "apple"));
  EXPECT_THAT(terms("the of"), ElementsAre("the", "of")) << "where there is nothing else";
  EXPECT_THAT(terms("\"stop sign\" red sign"), ElementsAre("stop sign", "red"));
  EXPECT_THAT(terms("cats -dogs bird:2"), ElementsAre("cats", "bird"));
  EXPECT_THAT(terms("..."), IsEmpty());
}

TEST_F(WordSearchTest, AShareIsFromNoneToAll) {
  add({put("/1.png", 0.9)});
  const auto collection = CollectionReader::open(folder_);
  EncodedQuery encoded;
  encoded.row = {1, 0, 0, 0};
  for (const double share : {-0.1, 1.1, std::nan("")}) {
    SearchQuery query;
    query.text = "x";
    query.keyword_weight = share;
    EXPECT_EQ(search_encoded(*collection, encoder_, encoded, query, pool_).error().code, ErrorCode::kUsage)
        << share;
  }
}

// More near-duplicates than are looked at first, so that images without words that score below them are not found then.
TEST_F(WordSearchTest, ManyNearDuplicatesDoNotPutWeakWordsBeforeBetterScores) {
  std::vector<CollectionChange::Put> puts;
  const auto add_one = [&](const std::string& path, std::vector<float> values, const std::string& caption) {
    puts.push_back(put(path, 0, caption));
    puts.back().values = std::move(values);
  };
  for (int i = 0; i < 300; ++i) {
    const float score = 0.9F + 1e-5F * static_cast<float>(i);
    add_one(fmt::format("/copy{}.png", i), {score, std::sqrt(1 - score * score), 0, 0}, "");
  }
  add_one("/1.png", {0.6F, 0, 0.8F, 0}, "");
  add_one("/2.png", {0.5F, 0, 0, std::sqrt(0.75F)}, "");
  add_one("/3.png", {-0.5F, std::sqrt(0.75F), 0, 0}, "needle");
  add_one("/4.png", {-0.5F, 0, std::sqrt(0.75F), 0}, "needle");
  add_one("/5.png", {-0.5F, 0, 0, std::sqrt(0.75F)}, "needle");
  add(std::move(puts));
  fold_ = true;
  EXPECT_THAT(paths(answer_to("needle", 0.001, 3)), ElementsAre("/copy299.png", "/1.png", "/2.png"));
}

// An index that still finds an image, and has a damaged page of its text.
TEST_F(WordSearchTest, TextsThatCannotBeReadLeaveTheAnswerAsItIs) {
  add({put("/1.png", 0.9, "stop sign"), put("/2.png", 0.8, "red apple"), put("/3.png", 0.7, "apple tree")});
  writer_.reset();
  const fs::path catalog = folder_ / "catalog.sqlite";
  {
    auto database = Database::open(catalog, Database::Mode::kWrite);
    ASSERT_TRUE(database) << database.error().message;
    const std::string text = "red apple " + std::string(20'000, 'Q');
    ASSERT_TRUE(database->execute(fmt::format("UPDATE words SET caption = '{}' WHERE rowid = 2", text)));
  }
  const std::vector<std::string> whole = paths(answer_to("apple"));
  // Pages that continue a text begin with the next one's number. The words in the index are in lower case.
  std::string bytes = read_file(catalog).value();
  constexpr size_t kPage = 4096;
  int damaged = 0;
  for (size_t page = 0; page + kPage <= bytes.size(); page += kPage) {
    if (bytes.find_first_not_of('Q', page + 4) < page + kPage) continue;
    bytes.replace(page, 4, 4, '\xff');
    ++damaged;
  }
  ASSERT_GT(damaged, 1);
  ASSERT_TRUE(write_file_atomic(catalog, bytes));
  const SearchAnswer answer = answer_to("apple");
  EXPECT_EQ(paths(answer), whole);
  for (const SearchHit& hit : answer.hits) {
    EXPECT_EQ(hit.keywords.has_value(), hit.item.path != "/1.png") << hit.item.path;
    if (!hit.keywords) continue;
    EXPECT_EQ(hit.keywords->matches.empty(), hit.item.path == "/2.png") << hit.item.path;
  }
  EXPECT_THAT(words_note(answer), HasSubstr("2 of 3 results also match by caption; the words of a result"));
}

// A collection without such an index is searched by vectors, and says so.
TEST_F(WordSearchTest, OlderCollectionsAreSearchedByVectors) {
  const fs::path old = temporary_.path() / "old";
  fs::copy(fs::path(test::kSourceDir) / "tests/data/collection_v1", old);
  const auto collection = CollectionReader::open(old);
  ASSERT_TRUE(collection) << collection.error().message;
  SearchQuery query;
  query.text = "apple";
  query.keyword_weight = kWordShare;
  EncodedQuery encoded;
  encoded.row.resize(static_cast<size_t>(collection->info().checkpoint.dim));
  encoded.row[0] = 1;
  const auto answer = search_encoded(*collection, encoder_, encoded, query, pool_);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->hits.size(), 3U);
  EXPECT_THAT(words_note(*answer), HasSubstr("the next `saccade index`"));
}

}  // namespace
}  // namespace saccade
