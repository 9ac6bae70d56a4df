#include "lab/eval/visualness/word_lexicons.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/data/ratings.h"
#include "lab/eval/visualness/word_attention.h"
#include "saccade/core/test_folder.h"

namespace saccade::lab {
namespace {

using testing::HasSubstr;

class WordLexicons : public testing::Test {
 protected:
  WordLexicons() {
    lexicon_.format = "mrc";
    lexicon_.words = {{"dog", 0.9}, {"cat", 0.8}, {"idea", 0.1}, {"rule", 0.2}, {"way", 0.4}};
    // Each new word is near one word of the lexicon, by a cosine of 1, 0.8 or 0.6.
    vectors_ = folder_.write("glove.txt",
                             "dog 1 0 0\nidea 0 1 0\n"
                             "puppy 2 0 0\nhound 0.8 0 0.6\ncalf 0.6 0 0.8\nthought 0 3 0\nother 1 1 1\n");
  }
  test::TestFolder folder_;
  Lexicon lexicon_;
  std::filesystem::path vectors_;
};

TEST_F(WordLexicons, AreTheGivenOneAndTheExpandedOnes) {
  const std::vector<std::filesystem::path> vectors = {vectors_};
  const auto lexicons = expand_lexicons(lexicon_, vectors, {"puppy", "hound", "thought", "absent"});
  ASSERT_TRUE(lexicons) << lexicons.error().message;
  ASSERT_EQ(lexicons->size(), 2U);
  EXPECT_EQ((*lexicons)[0].name, "mrc");
  EXPECT_FALSE((*lexicons)[0].vectors);
  EXPECT_EQ((*lexicons)[0].lexicon.words.size(), 5U);
  EXPECT_EQ((*lexicons)[1].name, "mrc + glove");
  ASSERT_TRUE((*lexicons)[1].vectors);
  EXPECT_EQ((*lexicons)[1].vectors->added, 3);
  EXPECT_NEAR((*lexicons)[1].lexicon.words.at("hound"), 0.8 * 0.9, 1e-6);
}

TEST_F(WordLexicons, ListTheAddedWordsByTheirRatings) {
  const std::vector<std::filesystem::path> vectors = {vectors_};
  const auto lexicons = expand_lexicons(lexicon_, vectors, {"puppy", "hound", "calf", "thought", "dog"});
  ASSERT_TRUE(lexicons) << lexicons.error().message;
  const auto lists = rated_word_lists(*lexicons, 1);
  ASSERT_EQ(lists.size(), 1U);
  EXPECT_EQ(lists[0].lexicon, "mrc + glove");
  ASSERT_EQ(lists[0].ranges.size(), 3U);
  EXPECT_EQ(lists[0].ranges[0].name, "high");
  EXPECT_EQ(lists[0].ranges[0].words, 2);
  EXPECT_EQ(lists[0].ranges[0].examples, (std::vector<std::string>{"hound", "puppy"}));
  EXPECT_EQ(lists[0].ranges[1].examples, std::vector<std::string>{"calf"});  // 0.54
  EXPECT_EQ(lists[0].ranges[2].examples, std::vector<std::string>{"thought"});

  // Some of many words are drawn: the same again by one seed, others by another.
  std::vector<NamedLexicon> many = *lexicons;
  for (int i = 0; i < 100; ++i) many[1].lexicon.words["word" + std::to_string(i)] = 0.5;
  const auto drawn = rated_word_lists(many, 1);
  EXPECT_EQ(drawn[0].ranges[1].words, 101);
  EXPECT_EQ(drawn[0].ranges[1].examples.size(), 20U);
  EXPECT_EQ(rated_word_lists(many, 1)[0].ranges[1].examples, drawn[0].ranges[1].examples);
  EXPECT_NE(rated_word_lists(many, 2)[0].ranges[1].examples, drawn[0].ranges[1].examples);
}

TEST_F(WordLexicons, AreComparedWithPeople) {
  const auto people = read_word_ratings(folder_.write("people.csv",
                                                      "text,anna,ben\nDog,7,7\ncat,6,7\nidea,1,2\nrule,2,2\n"
                                                      "puppy,7,6\nhound,5,7\ncalf,4,5\nthought,1,1\n"));
  ASSERT_TRUE(people) << people.error().message;
  EXPECT_NEAR(people->means.at("dog"), 1, 1e-12);
  EXPECT_NEAR(people->means.at("idea"), 0.5 / 6, 1e-12);
  EXPECT_EQ(people->by_people.at("cat"), (std::vector<double>{6, 7}));
  const std::vector<std::filesystem::path> vectors = {vectors_};
  const auto lexicons =
      expand_lexicons(lexicon_, vectors, {"puppy", "hound", "calf", "thought", "dog", "other"});
  ASSERT_TRUE(lexicons) << lexicons.error().message;
  const auto agreements = word_rating_agreements(*people, *lexicons, 0.95);
  ASSERT_EQ(agreements.size(), 2U);
  // In the order of the words: cat, dog, idea, rule; then calf, hound, puppy, thought.
  EXPECT_EQ(agreements[0].lexicon, "mrc");
  EXPECT_EQ(agreements[0].words, 4);
  EXPECT_NEAR(agreements[0].r,
              pearson(std::vector{0.8, 0.9, 0.1, 0.2}, std::vector{6.5, 7.0, 1.5, 2.0}, 0.95).r, 1e-9);
  ASSERT_TRUE(agreements[0].alpha);
  const std::vector<std::vector<double>> units = {{6, 7}, {7, 7}, {1, 2}, {2, 2}};
  EXPECT_NEAR(*agreements[0].alpha, *krippendorff_alpha(units, AlphaMetric::kOrdinal), 1e-12);
  EXPECT_EQ(agreements[1].lexicon, "mrc + glove");
  EXPECT_EQ(agreements[1].words, 4);
  EXPECT_NEAR(agreements[1].r,
              pearson(std::vector{0.54, 0.72, 0.9, 0.1}, std::vector{4.5, 6.0, 6.5, 1.0}, 0.95).r, 1e-6);
}

TEST_F(WordLexicons, PeoplesRatingsMayBeALexicon) {
  const auto means = read_word_ratings(folder_.write("b.txt", "Word\tConc.M\ndog\t5\nidea\t2\n"));
  ASSERT_TRUE(means) << means.error().message;
  EXPECT_NEAR(means->means.at("dog"), 1, 1e-12);
  EXPECT_NEAR(means->means.at("idea"), 0.25, 1e-12);
  EXPECT_TRUE(means->by_people.empty());
  const NamedLexicon given{"mrc", lexicon_, {}};
  const auto agreements = word_rating_agreements(*means, std::span(&given, 1), 0.95);
  ASSERT_EQ(agreements.size(), 1U);
  EXPECT_EQ(agreements[0].words, 2);
  EXPECT_FALSE(agreements[0].alpha);

  const auto other = read_word_ratings(folder_.write("o.csv", "word,score\ndog,3\n"));
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, HasSubstr("no column \"text\""));
  EXPECT_THAT(other.error().message, HasSubstr("which is no lexicon"));
  const auto broken = read_word_ratings(folder_.write("c.txt", "Word\tConc.M\ndog\t9\n"));
  ASSERT_FALSE(broken);
  EXPECT_THAT(broken.error().message, HasSubstr("a rating of 9"));
}

}  // namespace
}  // namespace saccade::lab
