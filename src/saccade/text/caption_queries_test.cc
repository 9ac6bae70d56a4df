#include "saccade/text/caption_queries.h"

#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace saccade {
namespace {

using Strings = std::vector<std::string>;
using Numbers = std::vector<int64_t>;

TEST(CaptionQueries, WordsAreRunsOfLettersInLowerCase) {
  EXPECT_EQ(caption_words("Two BIRDS, on a t-shirt; №5"),
            (Strings{"two", "birds", "on", "a", "t", "shirt", "5"}));
  EXPECT_EQ(caption_words("Étoile über 東京"), (Strings{"étoile", "über", "東京"}));
  EXPECT_TRUE(caption_words(" .;- ").empty());
  EXPECT_EQ(caption_words("a\xff"
                          "b")
                .size(),
            2U);  // no UTF-8
}

TEST(CaptionQueries, PartsStandBetweenSemicolons) {
  const auto parts = caption_parts(" bell;alarm ; ;bell fill\n");
  EXPECT_EQ(Strings(parts.begin(), parts.end()), (Strings{"bell", "alarm", "bell fill"}));
}

TEST(CaptionQueries, EverydayWordsAreManyAndDifferent) {
  const auto words = everyday_words();
  EXPECT_GT(words.size(), 1000U);
  EXPECT_EQ(std::set<std::string_view>(words.begin(), words.end()).size(), words.size());
  for (const std::string_view word : words) EXPECT_FALSE(caption_words(word).empty()) << word;
}

TEST(CaptionQueries, RightAreThoseWithAllWordsInAnyOrder) {
  const Strings captions = {"bell", "bell fill; alarm", "door bell", "", "doorbell"};
  const CaptionIndex index(captions);
  EXPECT_EQ(index.with_all_words("Bell"), (Numbers{0, 1, 2}));
  EXPECT_EQ(index.with_all_words("fill bell bell"), (Numbers{1}));
  EXPECT_TRUE(index.with_all_words("bell tower").empty());
  EXPECT_TRUE(index.with_all_words("").empty());
}

TEST(CaptionQueries, DrawnQueriesKnowTheirAnswersAndAreNoCommonWords) {
  Strings captions;
  for (int i = 0; i < 100; ++i)
    captions.push_back("icon number" + std::to_string(i) + (i % 2 != 0 ? " filled" : ""));
  const CaptionIndex index(captions);
  const auto drawn = index.draw(60, 128, 7);
  EXPECT_EQ(drawn.size(), 60U);
  std::set<std::string> texts;
  for (const CaptionQuery& query : drawn) {
    EXPECT_EQ(query.right, index.with_all_words(query.text));
    EXPECT_TRUE(std::ranges::binary_search(query.right, query.from)) << query.text;
    EXPECT_LE(query.right.size(), 10U) << query.text;  // "icon" and "filled" are left out
    EXPECT_TRUE(texts.insert(query.text).second) << query.text;
  }
  // The same seed gives the same queries, another seed another order; only the requested captions are used.
  EXPECT_EQ(index.draw(60, 128, 7).front().text, drawn.front().text);
  EXPECT_NE(index.draw(60, 128, 8).front().text, drawn.front().text);
  const Numbers some = {3, 4};
  for (const CaptionQuery& query : index.draw(60, 128, 7, some))
    EXPECT_TRUE(query.from == 3 || query.from == 4);
  EXPECT_TRUE(CaptionIndex(Strings{"", " ; "}).draw(5, 128, 1).empty());
}

}  // namespace
}  // namespace saccade
