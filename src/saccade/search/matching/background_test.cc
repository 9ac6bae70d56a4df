// Tests of score calibration data: measuring, storing, loading, and applying them to hits.
#include "saccade/search/matching/background.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/collection/collection_writer.h"
#include "saccade/collection/weaviate/test_cluster.h"
#include "saccade/core/files/files.h"
#include "saccade/core/random.h"
#include "saccade/core/rows.h"
#include "saccade/core/test_folder.h"
#include "saccade/search/search.h"
#include "saccade/search/test_letters.h"
#include "saccade/text/caption_queries.h"

namespace saccade {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int64_t kDim = 48;
constexpr char kFingerprint[] = "2222222222222222222222222222222222222222222222222222222222222222";

// A word's direction: the same at every call.
void add_word(std::string_view word, std::span<float> row) {
  uint64_t seed = 1469598103934665603U;
  for (const char c : word) seed = (seed ^ static_cast<unsigned char>(c)) * 1099511628211U;
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  for (float& value : row) value += normal(random);
}

// A text is the sum of its words' directions.
class WordEncoder : public EncoderBackend {
 public:
  explicit WordEncoder(bool reads_texts = true) : reads_texts_(reads_texts) {
    info_.fingerprint = kFingerprint;
    info_.dim = kDim;
    info_.context = 1000;
    info_.logit_scale = 20;
  }
  [[nodiscard]] const EncoderInfo& info() const override { return info_; }
  [[nodiscard]] const Preprocessing& preprocessing() const override { return preprocessing_; }
  [[nodiscard]] const Tokenizer* tokenizer() const override { return reads_texts_ ? &tokenizer_ : nullptr; }
  [[nodiscard]] Result<Matrix<float>> encode_images(MatrixView<const float>) override {
    return fail(ErrorCode::kUnsupported, "no pictures here");
  }
  [[nodiscard]] Result<Matrix<float>> encode_texts(std::span<const TokenizedText> texts) override {
    encoded_ += std::ssize(texts);
    Matrix<float> rows(std::ssize(texts), kDim);
    for (int64_t t = 0; t < rows.rows(); ++t) {
      std::string text;
      for (const int32_t id : texts[static_cast<size_t>(t)].ids) text += static_cast<char>(id);
      for (const std::string& word : caption_words(text)) add_word(word, rows.row(t));
      normalize_row(rows.row(t));
    }
    return rows;
  }
  int64_t encoded_ = 0;

 private:
  EncoderInfo info_;
  Preprocessing preprocessing_;
  test::SpellingTokenizer tokenizer_;
  bool reads_texts_;
};

std::string word(int64_t number) {
  return "thing" + std::to_string(number);
}

// A picture of two words, of sixty: its row is the words' and noise of its own.
CollectionChange::Put picture(int64_t number, bool captions, float noise, std::mt19937_64& random,
                              std::normal_distribution<float>& normal) {
  CollectionChange::Put put;
  put.item.path = "/pictures/" + std::to_string(number);
  put.item.hash = std::string(58, '0') + std::to_string(100000 + number);
  put.item.width = put.item.height = 1;
  put.item.format = "png";
  put.item.mtime_ns = (number * 7919 % 1000) * 1'000'000'000;
  const std::string caption = word(random() % 60) + " " + word(random() % 60);
  if (captions) put.item.caption = caption;
  put.values.resize(kDim);
  for (const std::string& each : caption_words(caption)) add_word(each, put.values);
  for (float& value : put.values) value += noise * normal(random);
  normalize_row(put.values);
  return put;
}

class BackgroundTest : public testing::Test {
 protected:
  void SetUp() override {
    auto writer = CollectionWriter::create(collection_folder(), {"words", "", kFingerprint, kDim});
    ASSERT_TRUE(writer.has_value()) << writer.error().message;
    writer_ = std::make_unique<CollectionWriter>(*std::move(writer));
  }
  [[nodiscard]] std::filesystem::path collection_folder() const { return folder_ / "collection"; }
  [[nodiscard]] std::filesystem::path file() const { return collection_folder() / kBackgroundName; }

  void add(int64_t count, bool captions = true) {
    CollectionChange change;
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < count; ++i) {
      change.puts.push_back(picture(added_++, captions, noise_, random_, normal));
    }
    const Status status = writer_->commit(change);
    ASSERT_TRUE(status.has_value()) << status.error().message;
  }
  CollectionReader open() {
    auto collection = CollectionReader::open(collection_folder());
    EXPECT_TRUE(collection.has_value()) << collection.error().message;
    return *std::move(collection);
  }
  // Returns true if the collection was measured again.
  bool refresh() {
    const CollectionReader collection = open();
    const auto refreshed = refresh_background(collection, encoder_, pool_);
    EXPECT_TRUE(refreshed.has_value()) << refreshed.error().message;
    return refreshed.has_value() && refreshed->has_value();
  }
  std::shared_ptr<const Background> read() {
    auto background = read_background(open());
    EXPECT_TRUE(background.has_value()) << background.error().message;
    return std::make_shared<const Background>(*std::move(background));
  }
  Result<SearchAnswer> ask(const std::string& text, std::optional<double> cut = {},
                           Order order = Order::kScore, int64_t k = 10, double words = 0) {
    const CollectionReader collection = open();
    SearchQuery query;
    query.text = text;
    query.background = read();
    query.min_probability = cut;
    query.order = order;
    query.k = k;
    query.keyword_weight = words;
    return search(collection, encoder_, query, pool_);
  }

  test::TestFolder folder_;
  std::mt19937_64 random_{3};
  float noise_ = 1.5F;
  int64_t added_ = 0;
  std::unique_ptr<CollectionWriter> writer_;
  WordEncoder encoder_;
  ThreadPool pool_{2};
};

TEST_F(BackgroundTest, HitsSayHowLikelyTheyAreToBeRight) {
  add(600);
  ASSERT_TRUE(refresh());
  EXPECT_EQ(encoder_.encoded_, kFewestBackgroundTexts);
  const auto background = read();
  ASSERT_TRUE(background->text.model.tells) << background->text.model.reason;
  EXPECT_EQ(background->items, 600);
  EXPECT_EQ(background->captions, 600);

  // As many queries with an answer, words and whole captions, as without.
  const CollectionReader collection = open();
  double right = 0;
  double promised = 0;
  double present = 0;
  double absent = 0;
  for (int64_t i = 0; i < 60; ++i) {
    const std::string caption = collection.item(1 + 10 * i)->caption;
    for (const auto& [text, there] : {std::pair(i % 2 == 0 ? caption : word(i), true),
                                      std::pair("zeppelin" + std::to_string(i), false)}) {
      const auto answer = ask(text);
      ASSERT_TRUE(answer.has_value()) << answer.error().message;
      ASSERT_TRUE(answer->matching && answer->matching->tells);
      const std::vector<std::string> words = caption_words(text);
      for (const SearchHit& hit : answer->hits) {
        ASSERT_TRUE(hit.likelihood);
        promised += hit.likelihood->right;
        const std::vector<std::string> shown = caption_words(hit.item.caption);
        right +=
            std::ranges::all_of(
                words, [&](const std::string& each) { return std::ranges::find(shown, each) != shown.end(); })
                ? 1
                : 0;
      }
      (there ? present : absent) += answer->matching->p_value / 60;
    }
  }
  EXPECT_GT(right, 100);
  EXPECT_NEAR(promised / right, 1, 0.4);
  EXPECT_LT(present, absent - 0.1);
  const auto answer = ask("thing7");
  ASSERT_TRUE(answer.has_value());
  const Json json = answer_json(*answer);
  EXPECT_EQ(json["matching"]["tells"], true);
  EXPECT_DOUBLE_EQ(json["hits"][0]["match_probability"]["right"].get<double>(),
                   answer->hits[0].likelihood->right);
}

TEST_F(BackgroundTest, ACutLeavesOutWhatIsNotLikelyEnough) {
  add(600);
  ASSERT_TRUE(refresh());
  const auto all = ask("thing7");
  ASSERT_TRUE(all.has_value());
  const double middle = all->hits[4].likelihood->right;
  const auto everything = ask("thing7", {}, Order::kScore, 600);
  ASSERT_TRUE(everything.has_value());
  std::vector<int64_t> likely;
  for (const SearchHit& hit : everything->hits) {
    if (hit.likelihood->right >= middle) likely.push_back(hit.item.id);
  }
  // All that pass are counted, and the best k of them shown.
  for (const int64_t k : {int64_t{2}, int64_t{600}, std::numeric_limits<int64_t>::max()}) {
    const auto cut = ask("thing7", middle, Order::kScore, k);
    ASSERT_TRUE(cut.has_value()) << cut.error().message;
    const auto shown = std::min<size_t>(static_cast<size_t>(k), likely.size());
    ASSERT_EQ(cut->hits.size(), shown);
    for (size_t i = 0; i < shown; ++i) {
      EXPECT_EQ(cut->hits[i].item.id, likely[i]);
      EXPECT_EQ(cut->hits[i].rank, static_cast<int64_t>(i) + 1);
      EXPECT_GE(cut->hits[i].likelihood->right, middle);
    }
    EXPECT_EQ(cut->matching->passed, std::ssize(likely));
    EXPECT_EQ(cut->matching->cut_hits, 600 - std::ssize(likely));
    EXPECT_FALSE(cut->matching->more);
    EXPECT_DOUBLE_EQ(cut->matching->best, all->matching->best);
    EXPECT_EQ(answer_json(*cut)["matching"]["passed"], std::ssize(likely));
    const std::string note = matching_note(*cut);
    EXPECT_THAT(note, HasSubstr(fmt::format("{} images with a match probability of", likely.size())));
    EXPECT_EQ(note.find("the best 2 are shown") != std::string::npos, k == 2) << note;
  }

  const auto nothing = ask("zeppelin", 0.99);
  ASSERT_TRUE(nothing.has_value());
  EXPECT_TRUE(nothing->hits.empty());
  EXPECT_THAT(matching_note(*nothing),
              HasSubstr("nothing matches: no image has a match probability of 0.99 or more"));
  const auto wrong = ask("thing7", 1.5);
  ASSERT_FALSE(wrong.has_value());
  EXPECT_EQ(wrong.error().code, ErrorCode::kUsage);
}

// With keywords a hit is judged by both sides.
TEST_F(BackgroundTest, KeywordsCountForTheMatchProbability) {
  add(600);
  ASSERT_TRUE(refresh());
  const auto background = read();
  EXPECT_TRUE(background->texts.measured);
  EXPECT_GT(background->texts.separation, 1);
  EXPECT_DOUBLE_EQ(background->texts.described, 1);
  double right = 0;
  double promised = 0;
  for (int64_t i = 0; i < 60; ++i) {
    for (const auto& [text, there] :
         {std::pair(word(i), true), std::pair("zeppelin" + std::to_string(i), false)}) {
      const auto answer = ask(text, {}, Order::kScore, 10, 0.5);
      ASSERT_TRUE(answer.has_value()) << answer.error().message;
      ASSERT_TRUE(answer->matching->tells);
      EXPECT_FALSE(answer->matching->shipped);
      for (const SearchHit& hit : answer->hits) {
        const std::vector<std::string> shown = caption_words(hit.item.caption);
        const bool is_right = std::ranges::find(shown, text) != shown.end();
        EXPECT_EQ(match_of(hit), is_right ? Match::kStrong : match_of(hit));
        promised += hit.likelihood->right;
        right += is_right ? 1 : 0;
      }
      EXPECT_EQ(matching_note(*answer),
                there ? "" : "weak match: unrelated searches often look this good here");
      EXPECT_EQ(answer_json(*answer)["hits"][0]["match"], there ? "strong match" : "weak match");
    }
  }
  EXPECT_GT(right, 300);
  EXPECT_NEAR(promised / right, 1, 0.15);
}

TEST_F(BackgroundTest, ACutNeverHidesAnImageWhoseCaptionIsTheQuery) {
  add(600);
  ASSERT_TRUE(refresh());
  const std::string caption = open().item(7)->caption;
  const auto answer = ask(caption, 1.0, Order::kScore, 10, 0.5);
  ASSERT_TRUE(answer.has_value()) << answer.error().message;
  ASSERT_FALSE(answer->hits.empty());
  for (const SearchHit& hit : answer->hits) EXPECT_EQ(hit.item.caption, caption);
}

TEST_F(BackgroundTest, WithoutCaptionsMatchesAreRatedByTheShippedRule) {
  add(300, false);
  ASSERT_TRUE(refresh());
  EXPECT_FALSE(read()->texts.measured);
  EXPECT_DOUBLE_EQ(read()->texts.described, 0);
  const auto answer = ask("thing7", {}, Order::kScore, 10, 0.5);
  ASSERT_TRUE(answer.has_value());
  EXPECT_TRUE(answer->matching->tells);
  EXPECT_TRUE(answer->matching->shipped);
  EXPECT_TRUE(std::isfinite(answer->hits[0].likelihood->right));
  EXPECT_THAT(matching_note(*answer), HasSubstr("too few images have captions"));
  EXPECT_EQ(answer_json(*answer)["matching"]["shipped"], true);
}

// A cut looks at the best thousand, and says where more may pass.
TEST_F(BackgroundTest, ACutSaysWhereMoreMayPass) {
  add(1500);
  ASSERT_TRUE(refresh());
  const auto lax = ask("thing7", 0.0, Order::kScore, 5);
  ASSERT_TRUE(lax.has_value()) << lax.error().message;
  EXPECT_EQ(lax->hits.size(), 5U);
  EXPECT_EQ(lax->matching->passed, kCutDepth);
  EXPECT_TRUE(lax->matching->more);
  EXPECT_THAT(matching_note(*lax),
              HasSubstr("more than 1,000 images with a match probability of 0 or more, the best 5"));
  const auto deep = ask("thing7", 0.0, Order::kScore, 1500);
  ASSERT_TRUE(deep.has_value());
  EXPECT_EQ(deep->matching->passed, 1500);
  EXPECT_FALSE(deep->matching->more);
}

// Images with the query's words are looked at whatever they score, so that the last of these says nothing about images
// that were not looked at.
TEST_F(BackgroundTest, WordsOfImagesThatScoreLowDoNotMakeACutIncomplete) {
  add(1500);
  std::vector<float> zebra(kDim);
  add_word("zebra", zebra);
  normalize_row(zebra);
  CollectionChange change;
  std::normal_distribution<float> normal;
  for (int i = 0; i < 5; ++i) {
    CollectionChange::Put put = picture(added_++, false, noise_, random_, normal);
    put.item.caption = "zebra";
    float dot = 0;
    for (size_t j = 0; j < zebra.size(); ++j) dot += put.values[j] * zebra[j];
    // About one standard deviation below the mean: not among the best thousand.
    for (size_t j = 0; j < zebra.size(); ++j) put.values[j] += (-0.15F - dot) * zebra[j];
    normalize_row(put.values);
    change.puts.push_back(std::move(put));
  }
  ASSERT_TRUE(writer_->commit(change).has_value());
  ASSERT_TRUE(refresh());
  const auto found = ask("zebra", 0.5, Order::kScore, 10, 0.5);
  ASSERT_TRUE(found.has_value()) << found.error().message;
  EXPECT_EQ(found->matching->passed, 5);
  EXPECT_EQ(found->matching->cut_hits, kCutDepth);
  EXPECT_FALSE(found->matching->more);
}

TEST_F(BackgroundTest, WithinWhatMatchedTheNewestFileCanComeFirst) {
  add(600);
  ASSERT_TRUE(refresh());
  const auto best = ask("thing7", 0.02);
  const auto newest = ask("thing7", 0.02, Order::kDate);
  ASSERT_TRUE(best.has_value() && newest.has_value());
  ASSERT_EQ(best->hits.size(), newest->hits.size());
  ASSERT_GT(newest->hits.size(), 2U);
  for (size_t i = 1; i < newest->hits.size(); ++i) {
    EXPECT_GE(newest->hits[i - 1].item.mtime_ns, newest->hits[i].item.mtime_ns);
  }
  int64_t ranks = 0;
  for (const SearchHit& hit : newest->hits) ranks += hit.rank;
  EXPECT_EQ(ranks, std::ssize(newest->hits) * (std::ssize(newest->hits) + 1) / 2);
}

TEST_F(BackgroundTest, WithoutCaptionsOnlyTheNullIsKnown) {
  add(300, false);
  ASSERT_TRUE(refresh());
  const auto answer = ask("thing7");
  ASSERT_TRUE(answer.has_value());
  EXPECT_FALSE(answer->matching->tells);
  EXPECT_THAT(answer->matching->reason, HasSubstr("0 queries have known answers"));
  EXPECT_EQ(answer->matching->queries, kFewestBackgroundTexts);
  EXPECT_LT(answer->matching->p_value, 0.1);  // no everyday word stands out so
  EXPECT_TRUE(std::isnan(answer->hits[0].likelihood->right));
  EXPECT_LT(answer->hits[0].likelihood->expected_false, 0.5);
  EXPECT_TRUE(answer_json(*answer)["hits"][0]["match_probability"]["right"].is_null());
  const auto cut = ask("thing7", 0.5);
  ASSERT_FALSE(cut.has_value());
  EXPECT_EQ(cut.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(cut.error().message, HasSubstr("0 queries have known answers"));
}

TEST_F(BackgroundTest, AHandfulOfPicturesIsTooFewToTell) {
  for (const int64_t count : {1, 9}) {
    add(count);
    static_cast<void>(refresh());
    const auto answer = ask("thing7");
    ASSERT_TRUE(answer.has_value()) << answer.error().message;
    EXPECT_FALSE(answer->hits.empty());
    EXPECT_FALSE(answer->matching->tells);
    EXPECT_THAT(answer->matching->reason, HasSubstr("too few"));
    EXPECT_TRUE(std::isnan(answer->matching->p_value));
    EXPECT_THAT(matching_note(*answer), HasSubstr("match probabilities are unknown"));
  }
}

TEST_F(BackgroundTest, AnEncoderWithoutTextsIsMeasuredByPicturesAlone) {
  add(300);
  WordEncoder mute(false);
  const CollectionReader collection = open();
  const auto background = measure_background(collection, mute, pool_);
  ASSERT_TRUE(background.has_value()) << background.error().message;
  EXPECT_FALSE(background->text.model.tells);
  EXPECT_EQ(background->text.model.reason, "the checkpoint reads no texts");
  EXPECT_GT(background->picture.model.queries, 0);
  ASSERT_TRUE(write_background(collection_folder(), *background).has_value());
  EXPECT_EQ(read()->text.model.reason, "the checkpoint reads no texts");
}

TEST_F(BackgroundTest, IsMeasuredAgainOnlyWhenTheCollectionHasOutgrownIt) {
  add(300);
  EXPECT_TRUE(refresh());
  EXPECT_FALSE(refresh());
  add(149);
  EXPECT_FALSE(refresh());
  add(1);
  EXPECT_TRUE(refresh());
  EXPECT_EQ(read()->items, 450);
  EXPECT_FALSE(refresh());
}

TEST_F(BackgroundTest, ACollectionThatWasTooSmallIsMeasuredAgainAsSoonAsItGrows) {
  add(60);
  EXPECT_TRUE(refresh());
  EXPECT_THAT(read()->text.model.reason, HasSubstr("60 images are too few"));
  add(1);
  EXPECT_TRUE(refresh());
  EXPECT_THAT(read()->text.model.reason, HasSubstr("61 images are too few"));
  EXPECT_FALSE(refresh());
  add(4);
  EXPECT_TRUE(refresh());
  EXPECT_THAT(read()->text.model.reason, Not(HasSubstr("too few")));
  add(1);
  EXPECT_FALSE(refresh());
}

TEST_F(BackgroundTest, PicturesAddedSinceAreJudgedToo) {
  add(400);
  EXPECT_TRUE(refresh());
  add(100);
  const auto answer = ask("thing7");
  ASSERT_TRUE(answer.has_value()) << answer.error().message;
  for (const SearchHit& hit : answer->hits) EXPECT_TRUE(std::isfinite(hit.likelihood->right));
}

TEST_F(BackgroundTest, WhatIsReadIsWhatWasWritten) {
  add(300);
  ASSERT_TRUE(refresh());
  const auto measured = measure_background(open(), encoder_, pool_);
  ASSERT_TRUE(measured.has_value());
  const auto read_again = read();
  EXPECT_EQ(measured->text.model.hit.weight, read_again->text.model.hit.weight);
  EXPECT_EQ(measured->texts.separation, read_again->texts.separation);
  EXPECT_EQ(measured->texts.labelled, read_again->texts.labelled);
  EXPECT_EQ(measured->text.model.best, read_again->text.model.best);
  EXPECT_EQ(measured->picture.model.false_score, read_again->picture.model.false_score);
  EXPECT_EQ(measured->text.surroundings.mean_query, read_again->text.surroundings.mean_query);
}

TEST_F(BackgroundTest, ASampleOfOtherColumnsIsAnErrorWithoutAMeanToo) {
  add(300);
  ASSERT_TRUE(refresh());
  Result<Background> background = read_background(open());
  ASSERT_TRUE(background.has_value()) << background.error().message;
  background->text.surroundings.mean_query.clear();
  background->text.model.tells = false;
  background->text.model.best.clear();
  ASSERT_TRUE(write_background(open().files(), *background).has_value());
  EXPECT_TRUE(read_background(open()).has_value());
  background->text.surroundings.sample = Matrix<float>(1, 100'000);
  ASSERT_TRUE(write_background(open().files(), *background).has_value());
  const auto read_again = read_background(open());
  ASSERT_FALSE(read_again.has_value());
  EXPECT_EQ(read_again.error().code, ErrorCode::kBadData);
  EXPECT_THAT(read_again.error().message, HasSubstr("text: 100000 columns, the collection has"));
}

TEST_F(BackgroundTest, ADamagedFileIsAnErrorAndMeasuredAnew) {
  add(300);
  ASSERT_TRUE(refresh());
  const auto whole = read_file(file());
  ASSERT_TRUE(whole.has_value());
  const auto put = [&](std::string_view content) { std::ofstream(file(), std::ios::binary) << content; };
  for (size_t length = 0; length < whole->size(); length += 1 + length / 5) {
    put(std::string_view(*whole).substr(0, length));
    const auto background = read_background(open());
    ASSERT_FALSE(background.has_value()) << length;
    const std::string& message = background.error().message;
    EXPECT_THAT(message, HasSubstr(std::string(kBackgroundName)));
    EXPECT_EQ(message.find(kBackgroundName), message.rfind(kBackgroundName)) << message;
  }
  EXPECT_TRUE(refresh());
  // Any byte: an error, or another number; never more than that.
  SplitMix random(1);
  for (int i = 0; i < 300; ++i) {
    std::string damaged = *whole;
    damaged[random.below(static_cast<uint32_t>(i % 2 == 0 ? 3000 : damaged.size()))] =
        static_cast<char>(random.next());
    put(damaged);
    const auto background = read_background(open());
    if (!background) continue;
    SearchQuery query;
    query.text = "thing7";
    query.background = std::make_shared<const Background>(*read_background(open()));
    const CollectionReader collection = open();
    EXPECT_TRUE(search(collection, encoder_, query, pool_).has_value());
  }
  put("");
  EXPECT_TRUE(refresh());
  EXPECT_EQ(read()->items, 300);
}

TEST_F(BackgroundTest, LiesInTheFolderThatALinkLedTo) {
  add(300);
  const std::filesystem::path link = folder_ / "link";
  const std::filesystem::path other = folder_ / "other";
  std::filesystem::create_directories(other);
  std::filesystem::create_directory_symlink(std::filesystem::absolute(collection_folder()), link);
  const auto collection = CollectionReader::open(link);
  ASSERT_TRUE(collection.has_value()) << collection.error().message;
  std::filesystem::remove(link);
  std::filesystem::create_directory_symlink(std::filesystem::absolute(other), link);
  const auto refreshed = refresh_background(*collection, encoder_, pool_);
  ASSERT_TRUE(refreshed.has_value()) << refreshed.error().message;
  EXPECT_TRUE(std::filesystem::exists(file()));
  EXPECT_TRUE(std::filesystem::is_empty(other));
  EXPECT_TRUE(read_background(*collection).has_value());
}

TEST_F(BackgroundTest, OneOfAnotherCheckpointIsNotUsed) {
  add(300);
  ASSERT_TRUE(refresh());
  auto background = read_background(open());
  ASSERT_TRUE(background.has_value());
  background->fingerprint = std::string(64, '3');
  ASSERT_TRUE(write_background(collection_folder(), *background).has_value());
  const auto read = read_background(open());
  ASSERT_FALSE(read.has_value());
  EXPECT_THAT(read.error().message, HasSubstr("another checkpoint"));
  EXPECT_TRUE(refresh());
}

// A class of a vector database, which a server stands for: it lists objects by UUID, finds the exact nearest, and keeps one
// note.
class BackgroundOfAClass : public weaviate::ClusterTest {
 protected:
  static constexpr int64_t kItems = 5000;

  void SetUp() override {
    std::mt19937_64 random(3);
    std::normal_distribution<float> normal;
    for (int64_t number = 0; number < kItems; ++number) {
      CollectionChange::Put put = picture(number, true, 1.5F, random, normal);
      weaviate::StoredItem stored;
      stored.uuid = weaviate::uuid_of("Photos", put.item.path);
      stored.whole = {std::move(put.item), ItemFacts{}, std::move(put.values)};
      const Json properties = weaviate::properties_of(photos(), stored.whole, "");
      stored.in_graphql = {
          {"item", properties["item"]}, {"row", properties["row"]}, {"_additional", {{"id", stored.uuid}}}};
      stored.in_listing = {{"class", "Photos"}, {"id", stored.uuid}, {"properties", properties}};
      items_.emplace(stored.uuid, std::move(stored));
    }
    answers_ = [this](const test::ServerRequest& request) { return reply(request); };
  }
  // A collection in a folder with the first items by UUID.
  [[nodiscard]] CollectionReader in_folder(const std::string& name, int64_t count) {
    auto writer = CollectionWriter::create(folder_ / name, {"words", "", kFingerprint, kDim});
    EXPECT_TRUE(writer.has_value()) << writer.error().message;
    CollectionChange change;
    for (const auto& [uuid, stored] : items_) {
      if (std::ssize(change.puts) == count) break;
      CollectionChange::Put put;
      put.item = stored.whole.item;
      put.values = stored.whole.values;
      change.puts.push_back(std::move(put));
    }
    const Status status = writer->commit(change);
    EXPECT_TRUE(status.has_value()) << status.error().message;
    auto collection = CollectionReader::open(folder_ / name);
    EXPECT_TRUE(collection.has_value()) << collection.error().message;
    return *std::move(collection);
  }

  test::TestFolder folder_;
  std::map<std::string, weaviate::StoredItem> items_;  // by UUID
  Json kept_;                                          // the note
  WordEncoder encoder_;
  ThreadPool pool_{2};

 private:
  static weaviate::Address photos() {
    weaviate::Address address;
    address.name = "Photos";
    return address;
  }
  [[nodiscard]] std::optional<test::ServerReply> reply(const test::ServerRequest& request) {
    if (request.path == "/v1/schema/Photos") {
      CollectionInfo info;
      info.product_version = "1";
      info.created = "2026-01-31T12:00:00Z";
      info.checkpoint = {"words", "", kFingerprint, kDim};
      return test::ServerReply{.body = dump_json(weaviate::class_json(photos(), info))};
    }
    if (request.path.starts_with("/v1/objects/PhotosNotes/") && !kept_.is_null()) {
      EXPECT_TRUE(request.path.ends_with(kept_["id"].get<std::string>())) << request.path;
      return test::ServerReply{.body = dump_json(kept_)};
    }
    if (request.path.starts_with("/v1/objects?class=Photos&")) return listing(request.path);
    if (request.path.starts_with("/v1/batch/objects")) {
      kept_ = Json::parse(request.body)["objects"][0];
      return {};
    }
    if (request.path == "/v1/graphql") {
      return found_near(Json::parse(request.body)["query"].get<std::string>());
    }
    return {};
  }
  [[nodiscard]] test::ServerReply listing(const std::string& path) const {
    const auto argument = [&](const std::string& name) {
      const size_t at = path.find("&" + name + "=");
      if (at == std::string::npos) return std::string();
      const size_t begin = at + name.size() + 2;
      return path.substr(begin, path.find('&', begin) - begin);
    };
    const size_t limit = std::stoul(argument("limit"));
    Json page = Json::array();
    for (auto at = items_.upper_bound(argument("after")); at != items_.end() && page.size() < limit; ++at) {
      page.push_back(at->second.in_listing);
    }
    return {.body = dump_json({{"objects", std::move(page)}})};
  }
  [[nodiscard]] test::ServerReply found_near(const std::string& query) const {
    Json near = Json::array();
    const std::string vector = "vector:[";
    if (const size_t begin = query.find(vector); begin != std::string::npos) {
      std::vector<float> row;
      for (const char* at = query.c_str() + begin + vector.size(); *at != ']';) {
        char* end = nullptr;
        row.push_back(std::strtof(at, &end));
        at = *end == ',' ? end + 1 : end;
      }
      std::vector<std::pair<double, const Json*>> order;
      for (const auto& [uuid, stored] : items_) {
        double score = 0;
        for (size_t c = 0; c < row.size(); ++c) score += double{row[c]} * double{stored.whole.values[c]};
        order.emplace_back(-score, &stored.in_graphql);
      }
      std::ranges::sort(order);
      const size_t limit = std::stoul(query.substr(query.find("limit:", begin) + 6));
      for (size_t i = 0; i < std::min(limit, order.size()); ++i) near.push_back(*order[i].second);
    }
    Json counted = counts();
    for (Json& groups : counted) groups[0]["meta"]["count"] = std::ssize(items_);
    return data(
        {{"Get", {{"x", Json::array()}, {"near", near}, {"words", Json::array()}}}, {"Aggregate", counted}});
  }
};

TEST_F(BackgroundOfAClass, IsMeasuredOnASampleThatTheClassKeeps) {
  const auto collection = CollectionReader::open(address());
  ASSERT_TRUE(collection.has_value()) << collection.error().message;
  const auto before = read_background(*collection);
  ASSERT_FALSE(before.has_value());
  EXPECT_EQ(before.error().code, ErrorCode::kNotFound);
  SearchQuery query;
  query.text = "thing7";
  query.k = 5;
  query.keyword_weight = 0;
  query.min_probability = 0.5;
  const auto unmeasured = search(*collection, encoder_, query, pool_);
  ASSERT_FALSE(unmeasured.has_value());
  EXPECT_EQ(unmeasured.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(unmeasured.error().message, HasSubstr("has not been measured"));

  const auto refreshed = refresh_background(*collection, encoder_, pool_);
  ASSERT_TRUE(refreshed.has_value()) << refreshed.error().message;
  ASSERT_TRUE(refreshed->has_value());
  const auto again = refresh_background(*collection, encoder_, pool_);
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_FALSE(again->has_value());
  auto kept = read_background(*collection);
  ASSERT_TRUE(kept.has_value()) << kept.error().message;
  EXPECT_EQ(kept->items, kItems);
  EXPECT_EQ(kept->captions, kItems);
  EXPECT_EQ(kept->sample, kBackgroundSample);
  ASSERT_TRUE(kept->text.model.tells) << kept->text.model.reason;

  // A folder with the images of the sample has the same figures.
  const CollectionReader sample = in_folder("sample", kBackgroundSample);
  const auto measured = measure_background(sample, encoder_, pool_);
  ASSERT_TRUE(measured.has_value()) << measured.error().message;
  EXPECT_EQ(measured->sample, 0);
  EXPECT_EQ(kept->text.model.hit.weight, measured->text.model.hit.weight);
  EXPECT_EQ(kept->text.model.best, measured->text.model.best);
  EXPECT_EQ(kept->text.surroundings.mean_query, measured->text.surroundings.mean_query);
  EXPECT_EQ(kept->picture.model.queries, measured->picture.model.queries);
  EXPECT_EQ(kept->texts.separation, measured->texts.separation);

  // With these figures a class answers like a folder with all images, and says what they are from.
  const CollectionReader all = in_folder("all", kItems);
  query.background = std::make_shared<const Background>(*std::move(kept));
  for (const std::optional<double> cut : {std::optional<double>(), std::optional(0.0), std::optional(0.5)}) {
    query.min_probability = cut;
    const auto theirs = search(*collection, encoder_, query, pool_);
    const auto ours = search(all, encoder_, query, pool_);
    ASSERT_TRUE(theirs.has_value()) << theirs.error().message;
    ASSERT_TRUE(ours.has_value()) << ours.error().message;
    ASSERT_TRUE(theirs->matching && ours->matching);
    EXPECT_TRUE(theirs->matching->tells);
    ASSERT_EQ(theirs->hits.size(), ours->hits.size());
    for (size_t i = 0; i < ours->hits.size(); ++i) {
      EXPECT_EQ(theirs->hits[i].item.path, ours->hits[i].item.path);
      ASSERT_TRUE(theirs->hits[i].likelihood && ours->hits[i].likelihood);
      EXPECT_NEAR(theirs->hits[i].likelihood->right, ours->hits[i].likelihood->right, 1e-6);
    }
    EXPECT_EQ(theirs->searched, kItems);
    EXPECT_EQ(theirs->matching->passed, ours->matching->passed);
    EXPECT_EQ(theirs->matching->cut_hits, ours->matching->cut_hits);
    EXPECT_EQ(theirs->matching->more, ours->matching->more);
    EXPECT_EQ(theirs->matching->more, cut == 0.0) << "there are more than were looked at";
    EXPECT_THAT(matching_note(*theirs),
                HasSubstr("match probabilities from a sample of 4,096 of 5,000 images"));
    EXPECT_EQ(answer_json(*theirs)["matching"]["sample"], (Json{{"images", 4096}, {"of", 5000}}));
  }
}

TEST_F(BackgroundOfAClass, ASmallClassIsMeasuredWhole) {
  while (std::ssize(items_) > 300) items_.erase(items_.begin());
  const auto collection = CollectionReader::open(address());
  ASSERT_TRUE(collection.has_value()) << collection.error().message;
  const auto measured = measure_background(*collection, encoder_, pool_);
  ASSERT_TRUE(measured.has_value()) << measured.error().message;
  EXPECT_EQ(measured->items, 300);
  EXPECT_EQ(measured->sample, 0);
  EXPECT_EQ(encoder_.encoded_, kFewestBackgroundTexts);
}

// Data that cannot be read now are not measured again, and damaged ones are.
TEST_F(BackgroundOfAClass, IsDueIfItIsDamagedButNotIfTheClassDoesNotAnswer) {
  const auto collection = CollectionReader::open(address());
  ASSERT_TRUE(collection.has_value()) << collection.error().message;
  ASSERT_TRUE(collection->index()->keep(kBackgroundName, "no tensors").has_value());
  const auto damaged = read_background(*collection);
  ASSERT_FALSE(damaged.has_value());
  EXPECT_EQ(damaged.error().code, ErrorCode::kBadData);
  EXPECT_TRUE(background_is_due(*collection).value());
  answer_to("GET", "/v1/objects/PhotosNotes/", R"({"error": [{"message": "no leader"}]})", 503);
  const auto due = background_is_due(*collection);
  ASSERT_FALSE(due.has_value());
  EXPECT_EQ(due.error().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace saccade
