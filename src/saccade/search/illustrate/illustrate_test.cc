// Tests of the assignment of images to sentences.
#include "saccade/search/illustrate/illustrate.h"

#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <sys/stat.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/collection/collection_writer.h"
#include "saccade/core/random.h"
#include "saccade/core/test_folder.h"
#include "saccade/search/matching/background.h"
#include "saccade/search/test_letters.h"

namespace saccade {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kDim = 26;
constexpr char kFingerprint[] = "3333333333333333333333333333333333333333333333333333333333333333";

// A text is the sum of its letters' directions.
class LetterEncoder : public EncoderBackend {
 public:
  LetterEncoder() {
    info_.fingerprint = kFingerprint;
    info_.dim = kDim;
    info_.context = 12;
    info_.logit_scale = 20;
  }
  [[nodiscard]] const EncoderInfo& info() const override { return info_; }
  [[nodiscard]] const Preprocessing& preprocessing() const override { return preprocessing_; }
  [[nodiscard]] const Tokenizer* tokenizer() const override { return &tokenizer_; }
  [[nodiscard]] Result<Matrix<float>> encode_images(MatrixView<const float>) override {
    return fail(ErrorCode::kUnsupported, "no pictures here");
  }
  [[nodiscard]] Result<Matrix<float>> encode_texts(std::span<const TokenizedText> texts) override {
    Matrix<float> rows(std::ssize(texts), kDim);
    for (int64_t t = 0; t < rows.rows(); ++t) {
      for (const int32_t id : texts[static_cast<size_t>(t)].ids) {
        if (id < kDim) rows(t, id) += 1;
      }
      test::normalize(rows.row(t));
    }
    return rows;
  }

 private:
  EncoderInfo info_;
  Preprocessing preprocessing_;
  test::LetterTokenizer tokenizer_;
};

class Illustrate : public testing::Test {
 protected:
  // A picture that shows the letters, in a file of its own.
  void add(const std::vector<std::string>& letters) {
    auto writer = CollectionWriter::open_or_create(folder_ / "c", {"letters", "", kFingerprint, kDim});
    ASSERT_TRUE(writer.has_value()) << writer.error().message;
    CollectionChange change;
    for (const std::string& shown : letters) {
      CollectionChange::Put put;
      put.item.path = folder_.write(shown + std::to_string(added_++) + ".png", shown).string();
      struct stat state = {};
      ASSERT_EQ(::stat(put.item.path.c_str(), &state), 0);
      put.item.size = state.st_size;
      put.item.mtime_ns = int64_t{state.st_mtim.tv_sec} * 1'000'000'000 + state.st_mtim.tv_nsec;
      put.item.hash = std::string(58, '0') + std::to_string(100000 + added_);
      put.item.width = put.item.height = 1;
      put.item.format = "png";
      put.item.caption = shown;
      put.values.resize(kDim);
      for (const char c : shown) put.values[static_cast<size_t>(c - 'a')] += 1;
      test::normalize(put.values);
      change.puts.push_back(std::move(put));
    }
    const Status status = writer->commit(change);
    ASSERT_TRUE(status.has_value()) << status.error().message;
  }
  Result<IllustratePlan> choose(const std::vector<DocumentSentence>& sentences,
                                IllustrateOptions options = {}) {
    auto collection = CollectionReader::open(folder_ / "c");
    if (!collection) return fail(collection.error());
    return choose_pictures(*collection, encoder_, sentences, options, pool_);
  }
  // The first letters of each placed picture's file, by sentence.
  static std::map<int64_t, std::string> placed(const IllustratePlan& plan) {
    std::map<int64_t, std::string> result;
    for (const PlacedPicture& picture : plan.pictures) result[picture.sentence] = picture.item.caption;
    return result;
  }

  test::TestFolder folder_;
  int added_ = 0;
  LetterEncoder encoder_;
  ThreadPool pool_{2};
};

TEST_F(Illustrate, EachSentenceGetsItsOwnAndNoPictureStandsTwice) {
  add({"ab", "ac", "x"});
  // The first two both want "ab", and the second more.
  const auto plan = choose({{"abb", 0}, {"ab", 1}, {"x", 2, false}, {"acab", 3}});
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  EXPECT_THAT(placed(*plan),
              ElementsAre(testing::Pair(0, "x"), testing::Pair(1, "ab"), testing::Pair(3, "ac")));
  EXPECT_THAT(plan->outcomes, ElementsAre(SentenceOutcome::kPlaced, SentenceOutcome::kPlaced,
                                          SentenceOutcome::kNotVisual, SentenceOutcome::kPlaced));
  EXPECT_FALSE(plan->tells);
  EXPECT_THAT(plan->reason, HasSubstr("has not been measured"));
}

TEST_F(Illustrate, WhatLooksTheSameStandsOnce) {
  add({"ab", "ab", "cd"});
  const auto plan = choose({{"ab", 0}, {"ab", 1}, {"ba", 2}});
  ASSERT_TRUE(plan.has_value());
  EXPECT_THAT(placed(*plan), ElementsAre(testing::Pair(0, "ab"), testing::Pair(1, "cd")));
  EXPECT_EQ(plan->count(SentenceOutcome::kTaken), 1);
}

TEST_F(Illustrate, HowAlikeIsTheOptions) {
  add({"aaaaaaab", "aaaaaaaab", "cd"});  // a cosine of 0.99985
  const std::vector<DocumentSentence> sentences = {{"aaaaaaab", 0}, {"aaaaaaaab", 1}};
  EXPECT_EQ(placed(*choose(sentences)), (std::map<int64_t, std::string>{{0, "aaaaaaab"}, {1, "cd"}}));
  IllustrateOptions options;
  options.duplicate_cosine = 1;
  EXPECT_EQ(placed(*choose(sentences, options)),
            (std::map<int64_t, std::string>{{0, "aaaaaaab"}, {1, "aaaaaaaab"}}));
}

TEST_F(Illustrate, ParagraphsAndTheDocumentHaveTheirLimits) {
  add({"ab", "cd", "ef", "gh"});
  const std::vector<DocumentSentence> sentences = {{"ab", 0}, {"cd", 0}, {"ef", 0}, {"gh", 1}};
  IllustrateOptions options;
  const auto one = choose(sentences, options);
  ASSERT_TRUE(one.has_value());
  EXPECT_EQ(one->pictures.size(), 2U);
  EXPECT_EQ(one->count(SentenceOutcome::kFull), 2);
  options.per_paragraph = 2;
  EXPECT_EQ(choose(sentences, options)->pictures.size(), 3U);
  options.at_most = 1;
  EXPECT_EQ(choose(sentences, options)->pictures.size(), 1U);
  options.at_most = 0;
  EXPECT_EQ(choose(sentences, options)->pictures.size(), 0U);
  options.per_paragraph = 0;
  EXPECT_EQ(choose(sentences, options).error().code, ErrorCode::kUsage);
}

TEST_F(Illustrate, OnlyWhatIsLikelyIsPlaced) {
  // Pairs of letters; those with z are in no sentence's answer.
  std::vector<std::string> letters;
  for (char a = 'a'; a <= 'm'; ++a) {
    for (char b = 'a'; b <= 'm'; ++b) {
      if (a != b) letters.push_back({a, b, b});
    }
  }
  add(letters);
  const CollectionReader collection = CollectionReader::open(folder_ / "c").value();
  auto background = measure_background(collection, encoder_, pool_);
  ASSERT_TRUE(background.has_value()) << background.error().message;
  ASSERT_TRUE(background->text.model.tells) << background->text.model.reason;
  IllustrateOptions options;
  options.background = std::make_shared<const Background>(*std::move(background));
  // "abb" is well ahead of all others for the last one too, but no caption is anything like that.
  const std::vector<DocumentSentence> sentences = {{"abb", 0}, {"zzzy", 1}, {"abbzzz", 2}};
  options.least = 0.3;
  const auto plan = choose(sentences, options);
  ASSERT_TRUE(plan.has_value());
  EXPECT_TRUE(plan->tells);
  EXPECT_THAT(placed(*plan), ElementsAre(testing::Pair(0, "abb")));
  EXPECT_EQ(plan->outcomes[1], SentenceOutcome::kNothingLikely);
  EXPECT_EQ(plan->outcomes[2], SentenceOutcome::kNothingLikely);
  EXPECT_TRUE(std::isnan(plan->best[1]));
  EXPECT_TRUE(std::isnan(plan->best[2]));
  options.least = 1;
  EXPECT_TRUE(choose(sentences, options)->pictures.empty());
}

TEST_F(Illustrate, PicturesThatAreGoneOrChangedArePassedOver) {
  add({"ab", "abc", "abcd"});
  std::filesystem::remove(folder_ / "ab0.png");
  folder_.write("abc1.png", "other bytes");
  const auto plan = choose({{"ab", 0}});
  ASSERT_TRUE(plan.has_value());
  EXPECT_THAT(placed(*plan), ElementsAre(testing::Pair(0, "abcd")));
  EXPECT_EQ(plan->gone, 1);
  EXPECT_EQ(plan->changed, 1);
}

TEST_F(Illustrate, AnEmptyCollectionHasNothingAndCutTextsAreCounted) {
  ASSERT_TRUE(CollectionWriter::create(folder_ / "c", {"letters", "", kFingerprint, kDim}).has_value());
  const auto plan = choose({{"abcdefghijklmnop", 0}});
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  EXPECT_TRUE(plan->pictures.empty());
  EXPECT_EQ(plan->cut, 1);
  std::stop_source stop;
  stop.request_stop();
  IllustrateOptions options;
  options.stop = stop.get_token();
  const auto stopped = choose({{"ab", 0}}, options);
  ASSERT_FALSE(stopped.has_value());
  EXPECT_EQ(stopped.error().code, ErrorCode::kCancelled);
}

TEST_F(Illustrate, JudgingMarksWhatIsVisualAndKeepsItsVisualPhrases) {
  std::vector<DocumentSentence> sentences = {
      {"a red cat sits on the old table", 0}, {"nobody is liable", 0}, {"the cat", 1}};
  const TextScores cats = [](std::span<const std::string> texts) -> Result<std::vector<double>> {
    std::vector<double> scores;
    for (const std::string& text : texts) scores.push_back(text.find("cat") == std::string::npos ? 0 : 1);
    return scores;
  };
  const auto scores = judge_sentences(sentences, cats, 0.5, true);
  ASSERT_TRUE(scores) << scores.error().message;
  EXPECT_THAT(*scores, ElementsAre(1, 0, 1));
  EXPECT_TRUE(sentences[0].visual);
  EXPECT_FALSE(sentences[1].visual);
  ASSERT_FALSE(sentences[0].phrases.empty());
  for (const std::string& phrase : sentences[0].phrases) EXPECT_THAT(phrase, HasSubstr("cat"));
  EXPECT_TRUE(sentences[1].phrases.empty());
  std::vector<DocumentSentence> whole = {{"a red cat sits on the old table", 0}};
  ASSERT_TRUE(judge_sentences(whole, cats, 0.5, false));
  EXPECT_TRUE(whole[0].phrases.empty());
}

TEST_F(Illustrate, WhatHasNoFitIsGivenRoomByTheSameLimits) {
  const std::vector<DocumentSentence> sentences = {{"a", 0}, {"b", 0}, {"c", 1},
                                                   {"d", 1}, {"e", 2}, {"f", 3}};
  IllustratePlan plan;
  using enum SentenceOutcome;
  plan.outcomes = {kPlaced, kNothingLikely, kNothingLikely, kNothingLikely, kNotVisual, kNothingLikely};
  plan.pictures.push_back({.sentence = 0, .item = {}, .query = {}, .score = 0, .likelihood = {}});
  IllustrateOptions options;
  EXPECT_THAT(sentences_without_fit(sentences, plan, options), ElementsAre(2, 5));
  options.per_paragraph = 2;
  EXPECT_THAT(sentences_without_fit(sentences, plan, options), ElementsAre(1, 2, 3, 5));
  options.at_most = 3;
  EXPECT_THAT(sentences_without_fit(sentences, plan, options), ElementsAre(1, 2));
  options.at_most = 1;
  EXPECT_THAT(sentences_without_fit(sentences, plan, options), testing::IsEmpty());
}

// ---- the assignment

// The largest sum of weights that the rules allow, by trying all.
double largest_sum(std::span<const PictureCandidate> candidates, std::span<const int64_t> paragraph,
                   int64_t per_paragraph, size_t from, std::vector<int64_t>& sentences,
                   std::vector<int64_t>& pictures) {
  if (from == candidates.size()) return 0;
  double best = largest_sum(candidates, paragraph, per_paragraph, from + 1, sentences, pictures);
  const PictureCandidate& one = candidates[from];
  const auto there = std::ranges::count_if(sentences, [&](int64_t s) {
    return paragraph[static_cast<size_t>(s)] == paragraph[static_cast<size_t>(one.sentence)];
  });
  if (std::ranges::count(sentences, one.sentence) == 0 && std::ranges::count(pictures, one.picture) == 0 &&
      there < per_paragraph) {
    sentences.push_back(one.sentence);
    pictures.push_back(one.picture);
    best = std::max(
        best, one.weight + largest_sum(candidates, paragraph, per_paragraph, from + 1, sentences, pictures));
    sentences.pop_back();
    pictures.pop_back();
  }
  return best;
}

TEST(AssignPictures, GreedyKeepsTheRulesAndIsNearTheLargestSum) {
  SplitMix random(7);
  double greedy_sum = 0;
  double best_sum = 0;
  for (int round = 0; round < 300; ++round) {
    const auto per_paragraph = static_cast<int64_t>(1 + random.below(2));
    std::vector<int64_t> paragraph;
    for (int64_t s = 0; s < 6; ++s) paragraph.push_back(s / 2);
    std::vector<PictureCandidate> candidates;
    for (int64_t s = 0; s < 6; ++s) {
      for (int64_t p = 0; p < 4; ++p) {
        if (random.below(2) == 0)
          candidates.push_back({s, p, 0.3 + 0.0007 * static_cast<double>(random.below(1000))});
      }
    }
    AssignmentRules rules;
    rules.per_paragraph = per_paragraph;
    double sum = 0;
    std::map<int64_t, int> sentences;
    std::map<int64_t, int> pictures;
    std::map<int64_t, int64_t> paragraphs;
    double last = 2;
    for (const size_t taken : assign_pictures(candidates, paragraph, rules)) {
      const PictureCandidate& one = candidates[taken];
      EXPECT_LE(one.weight, last);
      last = one.weight;
      EXPECT_EQ(++sentences[one.sentence], 1);
      EXPECT_EQ(++pictures[one.picture], 1);
      EXPECT_LE(++paragraphs[paragraph[static_cast<size_t>(one.sentence)]], per_paragraph);
      sum += one.weight;
    }
    std::vector<int64_t> s;
    std::vector<int64_t> p;
    const double best = largest_sum(candidates, paragraph, per_paragraph, 0, s, p);
    EXPECT_GE(sum, best / 2 - 1e-9);
    greedy_sum += sum;
    best_sum += best;
  }
  EXPECT_GT(greedy_sum / best_sum, 0.93);
  RecordProperty("greedy_share", std::to_string(greedy_sum / best_sum));
}

TEST(AssignPictures, AMillionCandidatesTakeSeconds) {
  SplitMix random(1);
  std::vector<PictureCandidate> candidates;
  std::vector<int64_t> paragraph(100'000);
  for (size_t s = 0; s < paragraph.size(); ++s) {
    paragraph[s] = static_cast<int64_t>(s / 3);
    for (int i = 0; i < 10; ++i) {
      candidates.push_back({static_cast<int64_t>(s), static_cast<int64_t>(random.below(50'000)),
                            static_cast<double>(random.below(1'000'000)) / 1e6});
    }
  }
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<size_t> taken = assign_pictures(candidates, paragraph, {});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  EXPECT_GT(taken.size(), 30'000U);
}

}  // namespace
}  // namespace saccade
