#include "saccade/search/search.h"

#include <cmath>
#include <filesystem>
#include <memory>
#include <numeric>
#include <random>
#include <stop_token>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/collection/collection_writer.h"
#include "saccade/core/files/files.h"
#include "saccade/core/test_folder.h"
#include "saccade/search/query_language.h"
#include "saccade/search/row_finder.h"
#include "saccade/search/test_letters.h"

namespace saccade {
namespace {

using testing::HasSubstr;

constexpr int64_t kDim = 8;
constexpr char kFingerprint[] = "1111111111111111111111111111111111111111111111111111111111111111";

std::vector<float> unit(std::vector<float> row) {
  test::normalize(row);
  return row;
}

std::vector<float> axis(int64_t which) {
  std::vector<float> row(kDim);
  row[static_cast<size_t>(which)] = 1;
  return row;
}

// Pictures are encoded by their mean colour: red is axis 0, green axis 1, blue axis 2. A text is the sum of
// its letters: 'a' is axis 0, 'b' axis 1, ...
class LetterEncoder : public EncoderBackend {
 public:
  explicit LetterEncoder(bool with_tokenizer = true) {
    info_.fingerprint = kFingerprint;
    info_.dim = kDim;
    info_.context = 6;
    preprocessing_.resize_mode = ResizeMode::kSquash;
    preprocessing_.resize_height = preprocessing_.resize_width = 4;
    preprocessing_.crop = false;
    if (with_tokenizer) tokenizer_ = std::make_unique<test::LetterTokenizer>();
  }
  [[nodiscard]] const EncoderInfo& info() const override { return info_; }
  [[nodiscard]] const Preprocessing& preprocessing() const override { return preprocessing_; }
  [[nodiscard]] const Tokenizer* tokenizer() const override { return tokenizer_.get(); }
  [[nodiscard]] Result<Matrix<float>> encode_images(MatrixView<const float> pixels) override {
    Matrix<float> rows(pixels.rows(), kDim);
    for (int64_t r = 0; r < pixels.rows(); ++r) {
      std::vector<float> row(kDim);
      for (int64_t i = 0; i < 48; ++i) row[static_cast<size_t>(i / 16)] += pixels(r, i);
      std::ranges::copy(unit(row), rows.row(r).begin());
      if (broken_) rows(r, 1) = std::nanf("");
    }
    return rows;
  }
  [[nodiscard]] Result<Matrix<float>> encode_texts(std::span<const TokenizedText> texts) override {
    ++text_passes_;
    Matrix<float> rows(static_cast<int64_t>(texts.size()), kDim);
    for (size_t t = 0; t < texts.size(); ++t) {
      std::vector<float> row(kDim);
      for (const int32_t id : texts[t].ids) {
        if (id < kDim) row[static_cast<size_t>(id)] += 1;
        if (id == 'z' - 'a') row[0] -= 1;
      }
      std::ranges::copy(unit(row), rows.row(static_cast<int64_t>(t)).begin());
      if (broken_) rows(static_cast<int64_t>(t), 1) = std::nanf("");
    }
    return rows;
  }

  EncoderInfo info_;
  bool broken_ = false;  // gives rows that are no numbers
  int text_passes_ = 0;

 private:
  Preprocessing preprocessing_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

class SearchTest : public testing::Test {
 protected:
  void SetUp() override {
    auto writer = CollectionWriter::create(folder_ / "collection", {"letters", "", kFingerprint, kDim});
    ASSERT_TRUE(writer.has_value()) << writer.error().message;
    writer_ = std::make_unique<CollectionWriter>(*std::move(writer));
  }

  static CollectionChange::Put put(const std::string& name, std::vector<float> row, char hash = 'a') {
    row.resize(kDim);  // the axes not named are 0
    CollectionChange::Put result;
    result.item.path = "/pictures/" + name;
    result.item.hash = std::string(63, '0') + hash;
    result.item.width = static_cast<int64_t>(10 * name.size());
    result.item.height = 10;
    result.item.format = "png";
    result.item.caption = "picture " + name;
    result.values = unit(std::move(row));
    return result;
  }
  void add(std::vector<CollectionChange::Put> puts) {
    CollectionChange change;
    change.puts = std::move(puts);
    const Status status = writer_->commit(change);
    ASSERT_TRUE(status.has_value()) << status.error().message;
  }
  CollectionReader open() {
    auto collection = CollectionReader::open(folder_ / "collection");
    EXPECT_TRUE(collection.has_value()) << collection.error().message;
    return *std::move(collection);
  }
  SearchAnswer answer_to(const SearchQuery& query) {
    const CollectionReader collection = open();
    auto answer = search(collection, encoder_, query, pool_);
    EXPECT_TRUE(answer.has_value()) << answer.error().message;
    return answer.has_value() ? *std::move(answer) : SearchAnswer{};
  }
  Error error_of(const SearchQuery& query) {
    const CollectionReader collection = open();
    auto answer = search(collection, encoder_, query, pool_);
    EXPECT_FALSE(answer.has_value());
    return answer.has_value() ? Error{} : answer.error();
  }
  std::filesystem::path picture(const std::string& name, uint8_t red, uint8_t green, uint8_t blue) {
    Image image;
    image.width = image.height = 4;
    image.channels = 3;
    for (int i = 0; i < 16; ++i) image.pixels.insert(image.pixels.end(), {red, green, blue});
    const auto png = encode_png(image);
    EXPECT_TRUE(png.has_value());
    EXPECT_TRUE(write_file_atomic(folder_ / name, *png).has_value());
    return folder_ / name;
  }
  static std::vector<std::string> paths(const SearchAnswer& answer) {
    std::vector<std::string> result;
    for (const SearchHit& hit : answer.hits) {
      result.push_back(hit.item.path);
      for (const SearchHit::Folded& copy : hit.folded) result.push_back("  " + copy.item.path);
    }
    return result;
  }

  test::TestFolder folder_;
  std::unique_ptr<CollectionWriter> writer_;
  LetterEncoder encoder_;
  ThreadPool pool_{2};
};

SearchQuery text_query(std::string text, int64_t k = 10) {
  SearchQuery query;
  query.text = std::move(text);
  query.k = k;
  return query;
}

TEST_F(SearchTest, RanksByScoreAndSaysHowManyTokensWereRead) {
  add({put("b", axis(1)), put("a", axis(0)), put("ab", {1, 1}), put("c", axis(2))});
  const SearchAnswer answer = answer_to(text_query("a", 3));
  ASSERT_THAT(paths(answer), testing::ElementsAre("/pictures/a", "/pictures/ab", "/pictures/b"));
  EXPECT_FLOAT_EQ(answer.hits[0].score, 1);
  EXPECT_NEAR(answer.hits[1].score, std::sqrt(0.5), 1e-6);
  EXPECT_EQ(answer.hits[2].rank, 3);
  EXPECT_EQ(answer.searched, 4);
  ASSERT_TRUE(answer.tokens.has_value());
  EXPECT_EQ(answer.tokens->used, 1);
  EXPECT_EQ(answer.tokens->dropped, 0);

  const SearchAnswer cut = answer_to(text_query("abcdefg"));
  EXPECT_EQ(cut.tokens->used, 4);
  EXPECT_EQ(cut.tokens->dropped, 3);
  EXPECT_EQ(tokens_text(*cut.tokens),
            "first 4 tokens read, the other 3 dropped: the model has no room for more");
}

// Asks for a stop while the rows are looked at, as a client does that leaves meanwhile.
class LeavesWhileFinding final : public RowFinder {
 public:
  Result<FoundRows> find(const SearchedRows& searched, std::span<const float> query, int64_t k,
                         std::span<const int64_t> wanted, ThreadPool& pool) override {
    leaves_.request_stop();
    return find_rows(searched, {query.data(), 1, static_cast<int64_t>(query.size())}, k, pool, {&wanted, 1});
  }
  std::stop_source leaves_;
};

TEST_F(SearchTest, StopsWhereItIsAsked) {
  add({put("b", axis(1)), put("a", axis(0))});
  const CollectionReader collection = open();
  SearchQuery query = text_query("a");
  LeavesWhileFinding finder;
  query.stop = finder.leaves_.get_token();
  const auto encoded = encode_query(collection, encoder_, query);
  ASSERT_TRUE(encoded) << encoded.error().message;
  const auto answer = search_encoded(collection, encoder_, *encoded, query, pool_, finder);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(encode_query(collection, encoder_, query).error().code, ErrorCode::kCancelled);
}

TEST_F(SearchTest, AQueryHasBoundsHoweverItIsMade) {
  add({put("a", axis(0))});
  EXPECT_EQ(error_of(text_query(std::string(8193, 'a'))).message,
            "the query has 8193 characters, at most 8192 are taken");
}

TEST_F(SearchTest, LongTextsAreCutOrReadInChunks) {
  add({put("abcd", {1, 1, 1, 1}), put("efg", {0, 0, 0, 0, 1, 1, 1}), put("b", axis(1))});
  SearchQuery query = text_query("abcdefg");
  const SearchAnswer cut = answer_to(query);
  EXPECT_NEAR(cut.hits[0].score, 1, 1e-6);
  EXPECT_NEAR(cut.hits[2].score, 0, 1e-6);  // "efg": nothing of it was read
  query.long_text = LongText::kChunk;
  const SearchAnswer whole = answer_to(query);
  EXPECT_EQ(whole.tokens->used, 7);
  EXPECT_EQ(whole.tokens->dropped, 0);
  EXPECT_EQ(whole.tokens->chunks, 2);
  EXPECT_EQ(tokens_text(*whole.tokens), "all 7 tokens read, in 2 chunks");
  // "abcd" and "efg", each as a row of length 1; their mean brought to length 1.
  EXPECT_NEAR(whole.hits[0].score, std::sqrt(0.5), 1e-6);
  EXPECT_NEAR(whole.hits[1].score, std::sqrt(0.5), 1e-6);
  EXPECT_NEAR(whole.hits[2].score, std::sqrt(0.5) / 2, 1e-6);
  EXPECT_EQ(dump_json(answer_json(whole)["tokens"]), R"({"used":7,"dropped":0,"chunks":2})");
  // A text that fits is the same either way.
  query.text = "ab";
  const SearchAnswer chunked = answer_to(query);
  EXPECT_EQ(chunked.tokens->chunks, 1);
  query.long_text = LongText::kTruncate;
  EXPECT_EQ(dump_json(answer_json(chunked)), dump_json(answer_json(answer_to(query))));
}

TEST_F(SearchTest, SaysWhatTheModelEffectivelyReads) {
  add({put("a", axis(0))});
  SearchQuery query = text_query("abc");
  EXPECT_EQ(measured_length_note(answer_to(query)), "");
  query.measured_length = MeasuredLength{
      .dataset = "birds", .domain = "ornithology", .tokens = 3, .low = 2, .high = 4, .longer_texts = 0.31};
  const SearchAnswer within = answer_to(query);
  EXPECT_EQ(measured_length_note(within), "");
  EXPECT_EQ(answer_json(within)["effective_length"]["exceeded"], false);
  query.text = "abcd";
  const SearchAnswer beyond = answer_to(query);
  EXPECT_EQ(
      measured_length_note(beyond),
      "of these 4 tokens the model reads about the first 3: 3 tokens (2 to 4) give 95% of the best R@1, on "
      "birds (ornithology), where 31% of the texts are longer; with other images and texts it may read "
      "another number");
  EXPECT_EQ(
      dump_json(answer_json(beyond)["effective_length"]),
      R"({"tokens":3,"low":2,"high":4,"share":0.95,"dataset":"birds","longer_texts":0.31,"exceeded":true})");
  query.measured_length->at_end = true;
  EXPECT_THAT(measured_length_note(answer_to(query)),
              testing::StartsWith(
                  "of these 4 tokens the model reads at least the first 3, the most that was measured: "));
  query.measured_length->at_end = false;
  // In chunks, it is the longest chunk that counts.
  query.text = "abcdef";
  query.long_text = LongText::kChunk;
  EXPECT_EQ(measured_length_note(answer_to(query)), "");
  query.text = "abcdefg";
  EXPECT_THAT(measured_length_note(answer_to(query)),
              testing::StartsWith("in a chunk of 4 tokens the model"));
}

TEST_F(SearchTest, TiesAreBrokenByIdEvenWhereRowsAreInAnotherOrder) {
  std::vector<CollectionChange::Put> puts;
  for (int i = 0; i < 60; ++i) puts.push_back(put(std::to_string(i), axis(0)));
  add(std::move(puts));
  // Items 1 to 30 get new rows, behind all others: row order is now 31..60, 1..30.
  CollectionChange change;
  for (int64_t id = 1; id <= 30; ++id) {
    auto item = open().item(id);
    ASSERT_TRUE(item.has_value());
    change.puts.push_back({*item, axis(0), {}});
  }
  ASSERT_TRUE(writer_->commit(change).has_value());
  SearchQuery query = text_query("a", 7);
  query.group_duplicates = false;
  const SearchAnswer answer = answer_to(query);
  ASSERT_EQ(answer.hits.size(), 7U);
  for (size_t i = 0; i < 7; ++i) EXPECT_EQ(answer.hits[i].item.id, static_cast<int64_t>(i) + 1);
}

TEST_F(SearchTest, NearDuplicatesAreFoldedUnderTheBestOfThem) {
  add({put("copy", {1, 0.02F}, 'b'), put("a", axis(0)), put("same", axis(0)), put("ab", {1, 1}),
       put("c", axis(2))});
  const SearchAnswer folded = answer_to(text_query("a", 2));
  EXPECT_THAT(paths(folded),
              testing::ElementsAre("/pictures/a", "  /pictures/same", "  /pictures/copy", "/pictures/ab"));
  EXPECT_TRUE(folded.hits[0].folded[0].same_bytes);
  EXPECT_FALSE(folded.hits[0].folded[1].same_bytes);
  SearchQuery query = text_query("a", 2);
  query.group_duplicates = false;
  EXPECT_THAT(paths(answer_to(query)), testing::ElementsAre("/pictures/a", "/pictures/same"));
}

TEST_F(SearchTest, ARawFileIsShownOnceWithThePictureMadeOfIt) {
  const auto raw = [](CollectionChange::Put put) {
    put.item.format = "raw";
    return put;
  };
  add({put("sub/x.jpg", {1, 0.3F}, 'b'), raw(put("x.CR2", {1, 0.2F}, 'c')), put("x.jpg", {1, 0.4F}, 'd'),
       raw(put("y.CR2", {1, 0.5F}, 'e')), raw(put("x.DNG", {1, 0.6F}, 'f')), put("y.png", {1, 0.7F}, '1')});
  EXPECT_THAT(paths(answer_to(text_query("a", 6))),
              testing::ElementsAre("/pictures/x.jpg", "  /pictures/x.CR2", "  /pictures/x.DNG",
                                   "/pictures/sub/x.jpg", "/pictures/y.png", "  /pictures/y.CR2"));
  SearchQuery query = text_query("a", 6);
  query.group_duplicates = false;
  EXPECT_EQ(answer_to(query).hits.size(), 6U);
}

TEST_F(SearchTest, FramesSayTheirSecondAndALivePhotoIsShownOnce) {
  const auto frame = [](CollectionChange::Put put) {
    put.item.format = "video";
    return put;
  };
  add({frame(put("IMG_1.MOV#t=0.000", {1, 0.2F}, 'b')), put("IMG_1.HEIC", {1, 0.4F}, 'c'),
       frame(put("IMG_1.MOV#t=1.500", {1, 0.3F}, 'd')), frame(put("trip.mp4#t=61.250", {1, 0.6F}, 'e')),
       put("trip.jpg", {1, 0.7F}, 'f')});
  const SearchAnswer answer = answer_to(text_query("a", 5));
  EXPECT_THAT(paths(answer), testing::ElementsAre("/pictures/IMG_1.HEIC", "  /pictures/IMG_1.MOV#t=0.000",
                                                  "  /pictures/IMG_1.MOV#t=1.500",
                                                  "/pictures/trip.mp4#t=61.250", "/pictures/trip.jpg"));
  const Json json = answer_json(answer);
  EXPECT_EQ(json["hits"][0]["second"], Json());
  EXPECT_EQ(json["hits"][0]["near_duplicates"][1]["path"], "/pictures/IMG_1.MOV");
  EXPECT_EQ(json["hits"][0]["near_duplicates"][1]["second"], 1.5);
  EXPECT_EQ(json["hits"][1]["path"], "/pictures/trip.mp4");
  EXPECT_EQ(json["hits"][1]["second"], 61.25);
}

TEST_F(SearchTest, HitsSayWhatTheirFilesDoAndAreOrderedByIt) {
  auto old = put("old", {1, 0.4F}, 'b');
  old.item.mtime_ns = 1'700'000'000'000'000'000;
  old.facts.emplace();
  old.facts->picture.taken = 1'000'000'000;
  old.facts->picture.camera = "Leica";
  auto young = put("young", {1, 0.2F}, 'c');
  young.item.mtime_ns = 1'600'000'000'000'000'000;
  add({old, young});
  SearchQuery query = text_query("a", 2);
  query.order = Order::kDate;
  const SearchAnswer answer = answer_to(query);
  EXPECT_THAT(paths(answer), testing::ElementsAre("/pictures/young", "/pictures/old"));
  const Json json = answer_json(answer);
  EXPECT_EQ(json["hits"][0]["metadata"], Json::object());
  EXPECT_EQ(json["hits"][1]["metadata"], (Json{{"taken", "2001-09-09T01:46:40"}, {"camera", "Leica"}}));
  EXPECT_EQ(json["hits"][0]["dated_by"], "file");
  EXPECT_EQ(json["hits"][1]["dated_by"], "taken");
}

// Rounding brings the product of many a row of length 1 with itself below 1.
TEST_F(SearchTest, EqualRowsAreFoldedWhateverTheThreshold) {
  std::mt19937 random(1);
  std::normal_distribution<float> value;
  int below = 0;
  std::vector<CollectionChange::Put> puts;
  for (int i = 0; i < 40; ++i) {
    std::vector<float> row(kDim);
    for (float& v : row) v = value(random);
    row = unit(row);
    if (std::inner_product(row.begin(), row.end(), row.begin(), 0.0F) < 1) ++below;
    puts.push_back(put(fmt::format("{}", i), row));
    puts.push_back(put(fmt::format("{} again", i), row));
  }
  ASSERT_GT(below, 0);
  add(std::move(puts));
  SearchQuery query = text_query("a", 100);
  query.duplicate_cosine = 1;
  const SearchAnswer answer = answer_to(query);
  EXPECT_EQ(answer.hits.size(), 40U);
  for (const SearchHit& hit : answer.hits) EXPECT_EQ(hit.folded.size(), 1U) << hit.item.path;
}

TEST_F(SearchTest, CopiesNeverCrowdOutTheOtherPictures) {
  std::vector<CollectionChange::Put> puts;
  for (int i = 0; i < 1'000; ++i) puts.push_back(put(std::to_string(i), axis(0)));
  for (int64_t i = 1; i < 5; ++i) puts.push_back(put("other" + std::to_string(i), axis(i)));
  add(std::move(puts));
  const SearchAnswer answer = answer_to(text_query("a", 5));
  ASSERT_EQ(answer.hits.size(), 5U);
  EXPECT_EQ(answer.hits[0].folded.size(), 999U);
  EXPECT_EQ(answer.hits[4].item.path, "/pictures/other4");
  EXPECT_EQ(answer_to(text_query("a", 100)).hits.size(), 5U);
}

TEST_F(SearchTest, TheFilterLeavesOut) {
  add({put("a", axis(0)), put("longer", {1, 0.5F}), put("longest", {1, 1})});
  SearchQuery query = text_query("a", 2);
  query.filter = "width>=60";
  const SearchAnswer answer = answer_to(query);
  EXPECT_THAT(paths(answer), testing::ElementsAre("/pictures/longer", "/pictures/longest"));
  EXPECT_EQ(answer.searched, 2);
  query.filter = "width>=1000";
  EXPECT_THAT(answer_to(query).hits, testing::IsEmpty());
  query.filter = "width>=";
  EXPECT_EQ(error_of(query).code, ErrorCode::kUsage);
  EXPECT_THAT(error_of(query).message, HasSubstr("filter: "));
}

// Random rows, some of them copies of others, in a collection that keeps them in eight bits too.
class ManyRows : public SearchTest {
 protected:
  void SetUp() override {
    SearchTest::SetUp();
    IngestSettings settings;
    settings.int8_rows = Int8Policy::kOn;
    auto coded = CollectionWriter::create(folder_ / "coded", {"letters", "", kFingerprint, kDim}, settings);
    ASSERT_TRUE(coded.has_value());
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    CollectionChange change;
    for (int i = 0; i < 3'000; ++i) {
      std::vector<float> row(kDim);
      for (float& value : row) value = normal(random);
      if (i % 5 == 0 && i > 0) row = change.puts[static_cast<size_t>(i) / 2].values;
      change.puts.push_back(put(fmt::format("{}{}", i, std::string(static_cast<size_t>(i % 7), 'x')), row));
      if (i % 50 == 0) change.puts.back().item.caption = "a bed";
    }
    ASSERT_TRUE(coded->commit(change).has_value());
    ASSERT_TRUE(coded->remove_path("/pictures/12xxxxx").has_value());
    add(std::move(change.puts));
    ASSERT_TRUE(writer_->remove_path("/pictures/12xxxxx").has_value());
  }
};

TEST_F(ManyRows, InEightBitsChangeNoAnswer) {
  const CollectionReader with = *CollectionReader::open(folder_ / "coded");
  const CollectionReader without = open();
  ASSERT_EQ(with.int8_rows().count, 3'000);
  for (const char* text : {"a", "abc", "gh", "z", "bbbh"}) {
    for (const int64_t k : {1, 7, 50}) {
      for (const char* filter : {"", "width >= 60", "id < 40"}) {
        for (const bool folding : {true, false}) {
          SearchQuery query = text_query(text, k);
          query.filter = filter;
          query.group_duplicates = folding;
          const auto found = search(with, encoder_, query, pool_);
          const auto expected = search(without, encoder_, query, pool_);
          ASSERT_TRUE(found.has_value() && expected.has_value());
          EXPECT_FALSE(expected->rescored.has_value());
          // 39 pictures are read sooner in full.
          EXPECT_EQ(found->rescored.has_value(), query.filter != "id < 40");
          Json json = answer_json(*found);
          EXPECT_EQ(json["rescored"].is_null(), query.filter == "id < 40");
          EXPECT_GE(found->rescored.value_or(k), k);
          json["rescored"] = nullptr;
          EXPECT_EQ(dump_json(json), dump_json(answer_json(*expected)));
        }
      }
    }
  }
}

// Queries of all kinds, those with errors among them.
TEST_F(ManyRows, QueriesTogetherGetTheAnswersThatEachGetsAlone) {
  const CollectionReader coded = *CollectionReader::open(folder_ / "coded");
  const CollectionReader plain = open();
  const auto stored = stored_image(plain, 700);
  ASSERT_TRUE(stored) << stored.error().message;
  std::vector<SearchQuery> queries;
  // Texts of the same tokens differ by a space; words of captions and of none; too long for the encoder.
  for (const char* text : {"a", "b", "a b", "ab", "bed", "a bed", "abcdefgh", "h", "cab", "gg", "ffe"}) {
    for (const int64_t k : {1, 20, 300}) {
      for (const double weight : {0.0, 0.5}) {
        queries.push_back(text_query(text, k));
        queries.back().keyword_weight = weight;
        queries.back().group_duplicates = k == 20;
        if (k == 1) queries.back().filter = weight == 0 ? "width >= 60" : "id < 40";
      }
    }
  }
  SearchQuery by_image;
  by_image.images = {{picture("green.png", 0, 255, 0)}};
  SearchQuery composed = text_query("a");
  composed.images = by_image.images;
  SearchQuery like;
  like.images = {*stored};
  SearchQuery unwanted = text_query("a");
  unwanted.text.leave_out("b");
  for (const SearchQuery& query : {by_image, composed, like, unwanted}) queries.push_back(query);
  const size_t right = queries.size();
  SearchQuery gone = composed;
  gone.images = {{folder_ / "gone.png"}};
  SearchQuery broken_filter = text_query("a");
  broken_filter.filter = "width>=";
  for (const SearchQuery& query : {text_query("a", 0), SearchQuery(), gone, broken_filter,
                                   text_query(std::string(9'000, 'a')), text_query("cancelled")}) {
    queries.push_back(query);
  }
  std::stop_source stopped;
  stopped.request_stop();
  queries.back().stop = stopped.get_token();

  for (const LongText long_text : {LongText::kTruncate, LongText::kChunk}) {
    for (const CollectionReader* collection : {&coded, &plain}) {
      std::vector<const SearchQuery*> asked;
      for (SearchQuery& query : queries) {
        query.long_text = long_text;
        asked.push_back(&query);
      }
      encoder_.text_passes_ = 0;
      const auto encoded = encode_queries(*collection, encoder_, asked);
      ASSERT_EQ(encoded.size(), queries.size());
      EXPECT_EQ(encoder_.text_passes_, 1);
      std::vector<EncodedSearch> searches;
      std::vector<size_t> which;
      for (size_t i = 0; i < queries.size(); ++i) {
        if (!encoded[i]) continue;
        searches.push_back({&*encoded[i], asked[i]});
        which.push_back(i);
      }
      EXPECT_EQ(searches.size(), right + 1) << "the broken filter is found later";
      const auto answers = search_encoded_all(*collection, encoder_, searches, pool_);
      ASSERT_EQ(answers.size(), searches.size());
      size_t next = 0;
      for (size_t i = 0; i < queries.size(); ++i) {
        const auto alone = search(*collection, encoder_, queries[i], pool_);
        EXPECT_EQ(alone.has_value(), i < right) << i;
        const bool searched = next < which.size() && which[next] == i;
        const Error* error = !encoded[i] ? &encoded[i].error() : nullptr;
        if (searched && !answers[next]) error = &answers[next].error();
        if (!alone) {
          ASSERT_NE(error, nullptr) << i;
          EXPECT_EQ(error->code, alone.error().code);
          EXPECT_EQ(error->message, alone.error().message);
        } else {
          ASSERT_EQ(error, nullptr) << i << ": " << error->message;
          Json together = answer_json(*answers[next]);
          Json expected = answer_json(*alone);
          together["rescored"] = expected["rescored"] = nullptr;
          EXPECT_EQ(dump_json(together), dump_json(expected)) << i;
          EXPECT_FALSE(alone->hits.empty());
        }
        if (searched) ++next;
      }
    }
  }
  EXPECT_TRUE(search_encoded_all(plain, encoder_, {}, pool_).empty());
  EXPECT_TRUE(encode_queries(plain, encoder_, {}).empty());
}

// A text that cannot be encoded fails the batch that it is in, and no other query.
TEST_F(ManyRows, ATextWithoutADirectionIsAnErrorOfItsQueryAlone) {
  const CollectionReader collection = open();
  const SearchQuery queries[] = {text_query("a"), text_query("z a"), text_query("b")};
  const std::vector<const SearchQuery*> asked = {&queries[0], &queries[1], &queries[2]};
  const auto encoded = encode_queries(collection, encoder_, asked);
  ASSERT_FALSE(encoded[1]);
  EXPECT_EQ(encoded[1].error().message, encode_query(collection, encoder_, queries[1]).error().message);
  for (const size_t i : {0U, 2U}) {
    ASSERT_TRUE(encoded[i]) << encoded[i].error().message;
    EXPECT_EQ(encoded[i]->row, encode_query(collection, encoder_, queries[i])->row);
  }
}

// Requests of a shared pass: of different depths, with wanted rows, and one that does not fit.
TEST(FindTogether, EachGetsWhatItWouldGetAlone) {
  Matrix<float> rows(500, kDim);
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (float& value : rows.values()) value = normal(random);
  ThreadPool pool(2);
  const std::vector<int64_t> wanted = {3, 77, 499};
  std::vector<RowRequest> requests;
  for (int64_t i = 0; i < 7; ++i) {
    requests.push_back({.query = std::as_const(rows).row(i), .k = 1 + 20 * i, .wanted = {}});
    if (i % 2 == 0) requests.back().wanted = wanted;
  }
  for (const int64_t broken : {0, 1}) {
    if (broken == 1) requests[2].k = -1;
    const auto together = find_together({.rows = rows.view()}, requests, pool);
    ASSERT_EQ(together.size(), requests.size());
    for (size_t i = 0; i < requests.size(); ++i) {
      const auto alone = find_rows({.rows = rows.view()}, {requests[i].query.data(), 1, kDim}, requests[i].k,
                                   pool, {&requests[i].wanted, 1});
      ASSERT_EQ(together[i].has_value(), alone.has_value()) << i;
      if (!alone) {
        EXPECT_EQ(together[i].error().message, alone.error().message);
        continue;
      }
      ASSERT_EQ(together[i]->best.front().size(), static_cast<size_t>(requests[i].k));
      for (size_t r = 0; r < alone->best.front().size(); ++r) {
        EXPECT_EQ(together[i]->best.front()[r].row, alone->best.front()[r].row);
        EXPECT_EQ(together[i]->best.front()[r].score, alone->best.front()[r].score);
      }
      EXPECT_EQ(together[i]->wanted, alone->wanted);
    }
  }
  EXPECT_TRUE(find_together({.rows = rows.view()}, {}, pool).empty());
}

TEST_F(SearchTest, RemovedPicturesAreNeverHits) {
  add({put("a", axis(0)), put("ab", {1, 1})});
  ASSERT_TRUE(writer_->remove_path("/pictures/a").has_value());
  EXPECT_THAT(paths(answer_to(text_query("a"))), testing::ElementsAre("/pictures/ab"));
  ASSERT_TRUE(writer_->remove_path("/pictures/ab").has_value());
  EXPECT_THAT(answer_to(text_query("a")).hits, testing::IsEmpty());
}

TEST_F(SearchTest, PicturesAndTextWithPictures) {
  add({put("red", axis(0)), put("green", axis(1)), put("redgreen", {1, 1}), put("blue", axis(2))});
  SearchQuery query;
  query.images = {{picture("green.png", 0, 255, 0)}};
  const SearchAnswer by_picture = answer_to(query);
  EXPECT_EQ(by_picture.hits[0].item.path, "/pictures/green");
  EXPECT_FALSE(by_picture.tokens.has_value());
  query.text = "a";
  const SearchAnswer both = answer_to(query);
  EXPECT_EQ(both.hits[0].item.path, "/pictures/redgreen");
  EXPECT_NEAR(both.hits[0].score, 1, 1e-6);
  EXPECT_TRUE(both.tokens.has_value());

  query.images = {{picture("red.png", 255, 0, 0)}};
  query.text = "z";
  EXPECT_EQ(error_of(query).code, ErrorCode::kBadData);
  EXPECT_THAT(error_of(query).message, HasSubstr("cancel out"));
  query.images = {{folder_ / "none.png"}};
  EXPECT_EQ(error_of(query).code, ErrorCode::kNotFound);
  EXPECT_THAT(error_of(query).message, HasSubstr("none.png"));
}

TEST_F(SearchTest, PicturesComeAsBytesToo) {
  add({put("red", axis(0)), put("green", axis(1))});
  SearchQuery query;
  query.images = {{picture("green.png", 0, 255, 0)}};
  const SearchAnswer by_file = answer_to(query);
  SearchQuery bytes;
  const std::string content = read_file(query.images.front().name()).value();
  bytes.images = {QueryImage::of_bytes("", content)};
  const SearchAnswer by_bytes = answer_to(bytes);
  ASSERT_EQ(paths(by_bytes), paths(by_file));
  EXPECT_EQ(by_bytes.hits[0].score, by_file.hits[0].score);
  EXPECT_TRUE(answer_json(by_bytes)["query"]["image"].is_null());
  bytes.images = {QueryImage::of_bytes("a name that is no file's", content)};
  EXPECT_EQ(paths(answer_to(bytes)), paths(by_file));
  bytes.images = {QueryImage::of_bytes("a name that is no file's", "no picture")};
  EXPECT_THAT(error_of(bytes).message, HasSubstr("image a name that is no file's: not an image"));
}

TEST_F(SearchTest, WeightsSayHowMuchEachPartCounts) {
  add({put("red", axis(0)), put("green", axis(1)), put("redgreen", {1, 1})});
  SearchQuery query = text_query("a", 3);  // red
  query.images = {{picture("green.png", 0, 255, 0)}};
  EXPECT_EQ(paths(answer_to(query))[0], "/pictures/redgreen");
  query.fusion = Fusion{.text_weight = 3, .image_weight = 1};
  const SearchAnswer red = answer_to(query);
  EXPECT_EQ(paths(red)[0], "/pictures/red");
  EXPECT_NEAR(red.hits[0].score, 3 / std::sqrt(10.0), 1e-6);
  query.fusion = Fusion{.text_weight = 1, .image_weight = -1};  // red, but not green
  EXPECT_THAT(paths(answer_to(query)),
              testing::ElementsAre("/pictures/red", "/pictures/redgreen", "/pictures/green"));
  query.fusion = Fusion{.text_weight = 0, .image_weight = 0};
  EXPECT_THAT(error_of(query).message, HasSubstr("cancel out"));
  query.fusion = Fusion{.text_weight = std::nanf(""), .image_weight = 1};
  EXPECT_EQ(error_of(query).code, ErrorCode::kUsage);
  // A part alone is not weighed.
  query.images.clear();
  query.fusion = Fusion{.text_weight = -2, .image_weight = 1};
  EXPECT_NEAR(answer_to(query).hits[0].score, 1, 1e-6);
}

TEST_F(SearchTest, APictureAndATextAreComposedAsAsked) {
  add({put("red", axis(0)), put("green", axis(1)), put("redgreen", {1, 1})});
  SearchQuery query = text_query("a", 3);  // red
  query.images = {{picture("green.png", 0, 255, 0)}};
  // A third of the way from green to red: 30 degrees.
  query.fusion = Fusion{.method = Compose::kSlerp, .text_weight = 1, .image_weight = 2};
  const SearchAnswer slerp = answer_to(query);
  EXPECT_EQ(paths(slerp)[0], "/pictures/redgreen");
  EXPECT_NEAR(slerp.hits[1].score, std::cos(std::acos(-1.0) / 6), 1e-6);
  EXPECT_EQ(composed_note(slerp),
            "the query lies on the great circle from the image's embedding to the text's, 0.33 of the way");
  // Green, moved by what red differs by from green.
  query.fusion = Fusion{.method = Compose::kDirection, .was = "b"};
  const SearchAnswer moved = answer_to(query);
  EXPECT_EQ(paths(moved)[0], "/pictures/red");
  EXPECT_NEAR(moved.hits[0].score, 1, 1e-6);
  EXPECT_EQ(answer_json(moved)["query"]["compose"]["was"], "b");
  EXPECT_EQ(composed_note(moved),
            "the query is the image's embedding plus 1 times the difference between the text's embedding and "
            "that of \"b\"");
  query.fusion = Fusion{.method = Compose::kSlerp, .text_weight = -1, .image_weight = 2};
  EXPECT_EQ(error_of(query).code, ErrorCode::kUsage);
  // A single part is not composed, and the answer reports no composer.
  query.images.clear();
  query.fusion = Fusion{.method = Compose::kSlerp};
  EXPECT_NEAR(answer_to(query).hits[0].score, 1, 1e-6);
  EXPECT_EQ(composed_note(answer_to(query)), "");
  EXPECT_TRUE(answer_json(answer_to(query))["query"]["compose"].is_null());
}

// "No pictures" would be a wrong answer to a query that nothing can be compared with.
SearchQuery typed_query(const std::string& typed) {
  SearchQuery query;
  query.text = read_query_text(typed).value();
  return query;
}

TEST_F(SearchTest, PartsAreAddedByTheirWeightsAndLeftOutByTheirs) {
  add({put("a", axis(0)), put("b", axis(1)), put("ab", {1, 1}), put("c", axis(2)), put("ac", {1, 0, 1})});
  const auto score_of = [](const SearchAnswer& answer, const std::string& name) {
    for (const SearchHit& hit : answer.hits) {
      if (hit.item.path == "/pictures/" + name) return hit.score;
    }
    return std::nanf("");
  };
  // a + 2 b, by hand.
  SearchAnswer answer = answer_to(typed_query("a b:2"));
  EXPECT_NEAR(score_of(answer, "a"), 1 / std::sqrt(5.0), 1e-6);
  EXPECT_NEAR(score_of(answer, "b"), 2 / std::sqrt(5.0), 1e-6);
  EXPECT_EQ(answer.tokens->used, 2);
  EXPECT_EQ(answer.tokens->chunks, 1);
  EXPECT_EQ(understood_note(answer), "searched for \"a\", \"b\" x 2");
  // Unit(a) - a quarter of c: what is not wanted is weighed beside all that is, of length 1.
  answer = answer_to(typed_query("a -c"));
  EXPECT_NEAR(score_of(answer, "a"), 1 / std::sqrt(1.0625), 1e-6);
  EXPECT_NEAR(score_of(answer, "c"), -0.25 / std::sqrt(1.0625), 1e-6);
  EXPECT_EQ(understood_note(answer), "searched for \"a\"; not like \"c\" x 0.25");
  EXPECT_EQ(answer_json(answer)["query"]["parts"].dump(),
            R"([{"text":"a","weight":1.0},{"text":"c","weight":-0.25}])");
  // Wanted weights count beside unwanted ones, on average; among themselves only their ratio does.
  answer = answer_to(typed_query("a:4 b:4 -c:1"));
  EXPECT_NEAR(score_of(answer, "ab"), 4 / std::sqrt(17.0), 1e-6);
  EXPECT_NEAR(score_of(answer, "c"), -1 / std::sqrt(17.0), 1e-6);
  answer = answer_to(typed_query("a:10 -c:4"));
  EXPECT_NEAR(score_of(answer, "a"), 10 / std::sqrt(116.0), 1e-6);
  EXPECT_NEAR(score_of(answer, "c"), -4 / std::sqrt(116.0), 1e-6);
  EXPECT_EQ(understood_note(answer), "searched for \"a\" x 10; not like \"c\" x 4");
  EXPECT_NEAR(score_of(answer_to(typed_query("a:2.5 -c:1")), "c"), score_of(answer, "c"), 1e-6);
  EXPECT_NEAR(score_of(answer_to(typed_query("a -c:4")), "c"), -4 / std::sqrt(17.0), 1e-6);
  answer = answer_to(typed_query("-c"));
  EXPECT_NEAR(score_of(answer, "c"), -1, 1e-6);
  EXPECT_EQ(understood_note(answer), "searched for images unlike \"c\" x 0.25");
  EXPECT_THAT(error_of(typed_query("a -a:1")).message, HasSubstr("cancel out"));
  answer = answer_to(typed_query("ab"));
  EXPECT_EQ(understood_note(answer), "");
  EXPECT_TRUE(answer_json(answer)["query"]["parts"].is_null());
}

TEST_F(SearchTest, SeveralPicturesHaveWeightsToo) {
  add({put("a", axis(0)), put("b", axis(1)), put("c", axis(2))});
  SearchQuery query;
  const std::vector<std::string> named = {picture("red.png", 255, 0, 0).string(),
                                          picture("green.png", 0, 255, 0).string() + ":2"};
  query.images = read_query_images(named).value();
  SearchAnswer answer = answer_to(query);
  EXPECT_EQ(paths(answer), (std::vector<std::string>{"/pictures/b", "/pictures/a", "/pictures/c"}));
  EXPECT_NEAR(answer.hits[0].score, 2 / std::sqrt(5.0), 1e-5);
  // With words beside them, each kind is one row first.
  query.text = "c";
  answer = answer_to(query);
  EXPECT_NEAR(answer.hits[0].score, 1 / std::sqrt(2.0), 1e-5);
  EXPECT_EQ(answer.hits[0].item.path, "/pictures/c");
  // A picture's weight counts beside one that is not wanted, and so does a text's: c x 3 - a.
  SearchQuery weighed;
  const std::vector<std::string> against = {named[0] + ":-1"};
  weighed.images = read_query_images(against).value();
  weighed.text = read_query_text("c:3", weighed.images).value();
  const SearchAnswer beside = answer_to(weighed);
  EXPECT_NEAR(beside.hits[0].score, 3 / std::sqrt(10.0), 1e-5);
  EXPECT_EQ(understood_note(beside), "searched for \"c\" x 3; not like image \"" + named[0] + "\" x 1");
  SearchQuery both;
  const std::vector<std::string> pictures = {named[0] + ":3",
                                             picture("blue.png", 0, 0, 255).string() + ":-1"};
  both.images = read_query_images(pictures).value();
  EXPECT_NEAR(answer_to(both).hits[0].score, 3 / std::sqrt(10.0), 1e-5);
  // Like neither: a picture that is not wanted, and a text that is.
  query.images.resize(1);
  query.images.front().weight = -1;
  answer = answer_to(query);
  EXPECT_NEAR(answer.hits[0].score, 1 / std::sqrt(2.0), 1e-5);
  EXPECT_EQ(answer.hits.back().item.path, "/pictures/a");
  EXPECT_EQ(composed_note(answer), "") << "nothing is composed of what is not wanted";
}

TEST_F(SearchTest, QueriesThatAreNoNumbersAreErrors) {
  add({put("a", axis(0))});
  encoder_.broken_ = true;
  EXPECT_THAT(error_of(text_query("a")).message,
              HasSubstr("the text: the encoder gave: a row of length nan"));
  SearchQuery query;
  query.images = {{picture("green.png", 0, 255, 0)}};
  EXPECT_THAT(error_of(query).message, HasSubstr("the image: the encoder gave: a row of length nan"));
  const CollectionReader collection = open();
  std::vector<float> row = axis(0);
  EXPECT_TRUE(search_row(collection, row, text_query(""), pool_).has_value());
  row[3] = std::nanf("");
  const auto answer = search_row(collection, row, text_query(""), pool_);
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().message, "the query's row is not finite");
}

// A rows file that another program cuts off under an open collection is an error; reading it would be SIGBUS.
TEST_F(SearchTest, RowsThatAreCutOffAreAnErrorNotTheEnd) {
  std::vector<CollectionChange::Put> puts;
  for (int i = 0; i < 1'000; ++i) puts.push_back(put(std::to_string(i), axis(i % kDim)));
  add(std::move(puts));
  const CollectionReader collection = open();
  const auto query = text_query("a", 1);
  EXPECT_TRUE(search(collection, encoder_, query, pool_).has_value());
  std::filesystem::resize_file(folder_ / "collection" / "rows-1.f32", 100);
  const auto answer = search(collection, encoder_, query, pool_);
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, ErrorCode::kBadData);
  EXPECT_THAT(answer.error().message, HasSubstr("rows-1.f32: cut off to 100 bytes"));
}

TEST_F(SearchTest, WrongQueriesAreRefused) {
  add({put("a", axis(0))});
  EXPECT_EQ(error_of(text_query(" \n")).code, ErrorCode::kUsage);
  EXPECT_EQ(error_of(text_query("a", 0)).code, ErrorCode::kUsage);
  EXPECT_EQ(error_of(text_query("a", -5)).code, ErrorCode::kUsage);
  encoder_.info_.fingerprint[0] = '2';
  EXPECT_EQ(error_of(text_query("a")).code, ErrorCode::kMismatch);

  const CollectionReader collection = open();
  LetterEncoder silent(false);
  const auto answer = search(collection, silent, text_query("a"), pool_);
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(search_row(collection, std::vector<float>(3), text_query("a"), pool_).error().code,
            ErrorCode::kMismatch);
}

TEST_F(SearchTest, JsonHasTheDocumentedFields) {
  add({put("a", axis(0)), put("same", axis(0)), put("b\xff", axis(1))});
  const Json json = answer_json(answer_to(text_query("a", 2)));
  EXPECT_EQ(
      dump_json(json["query"]),
      R"({"text":"a","image":null,"k":2,"filter":null,"group_duplicates":true,"min_probability":null,"order":"score","compose":null,"parts":null})");
  EXPECT_EQ(dump_json(json["tokens"]), R"({"used":1,"dropped":0,"chunks":1})");
  EXPECT_TRUE(json["effective_length"].is_null());
  EXPECT_EQ(
      dump_json(json["hits"][0]),
      R"({"rank":1,"id":1,"path":"/pictures/a","second":null,"score":1.0,"match":null,"match_probability":null,"date":0,"dated_by":"file",)"
      R"("caption":"picture a","width":10,"height":10,"format":"png","file_here":true,"metadata":{},"near_duplicates":[{"id":2,"path":"/pictures/same","second":null,"score":1.0,"same_bytes":true}],"vector_rank":null,"keywords":null})");
  EXPECT_EQ(json["searched"], 3);
  EXPECT_THAT(dump_json(json), HasSubstr("/pictures/b\xEF\xBF\xBD"));
}

}  // namespace
}  // namespace saccade
