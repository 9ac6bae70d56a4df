// Tests of the extraction of phrases.
#include "saccade/text/phrases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace saccade {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(SentencePhrases, AreRunsBetweenFunctionWordsAndTheirWords) {
  EXPECT_THAT(sentence_phrases("Look for the Penguins standing on the ice."),
              ElementsAre("penguins standing", "penguins", "standing", "ice"));
  EXPECT_THAT(sentence_phrases("A red apple, a red (apple)!"), ElementsAre("red apple", "red", "apple"));
  EXPECT_THAT(sentence_phrases("old grey stone castle gate"),
              ElementsAre("old", "grey stone castle gate", "grey", "stone", "castle", "gate"));
  EXPECT_THAT(sentence_phrases("It is what it was, and there were 3 of 42."), IsEmpty());
  EXPECT_THAT(sentence_phrases("merry-go-round -- s\xC3\xA9"
                               "ance \xFF"),
              ElementsAre("merry-go-round",
                          "s\xC3\xA9"
                          "ance"));
  EXPECT_THAT(sentence_phrases(""), IsEmpty());
}

}  // namespace
}  // namespace saccade
