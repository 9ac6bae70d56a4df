#include "saccade/search/change_text.h"

#include <gtest/gtest.h>

#include "saccade/search/query_language.h"

namespace saccade {
namespace {

std::string text_of(std::string_view typed) {
  QueryText text = std::string(typed);
  drop_lead_in(text);
  return text.str();
}

TEST(ChangeText, WordsThatLeadInAreDropped) {
  EXPECT_EQ(text_of("but at night"), "at night");
  EXPECT_EQ(text_of("but with a hat"), "a hat");
  EXPECT_EQ(text_of("and a dog"), "a dog");
  EXPECT_EQ(text_of("only blue"), "blue");
  EXPECT_EQ(text_of("instead, a horse"), "a horse");
  EXPECT_EQ(text_of("  But,  WITH snow"), "snow");
  EXPECT_EQ(text_of("but only in blue"), "in blue");
  EXPECT_EQ(text_of("but not red"), "not red");
}

TEST(ChangeText, EverythingElseStays) {
  for (const char* text :
       {"at night", "butter and bread", "button", "with a hat", "a dog and a cat", "but", "but with",
        "and, only", "instead of a dog a cat", "onlyfoo", "but-not", "", " ", "\xff but"}) {
    EXPECT_EQ(text_of(text), text);
  }
  EXPECT_EQ(text_of("but instead of a dog a cat"), "instead of a dog a cat");
  // Once is enough.
  EXPECT_EQ(text_of(text_of("but and at night")), "at night");
}

TEST(ChangeText, OfSeveralPartsTheRunningTextIsChanged) {
  QueryText text = read_query_text("but at night -cars").value();
  drop_lead_in(text);
  ASSERT_EQ(text.parts().size(), 2U);
  EXPECT_EQ(text.parts()[0].text, "at night");
  // Each byte still knows where it was typed.
  ASSERT_EQ(text.parts()[0].at.size(), text.parts()[0].text.size());
  EXPECT_EQ(text.parts()[0].at.front(), 4U);
  EXPECT_EQ(text.parts()[1].text, "cars");
  QueryText weighted = read_query_text("\"but blue\":2 -cars").value();
  drop_lead_in(weighted);
  EXPECT_EQ(weighted.parts()[0].text, "but blue");
  // A text that was put together in another way.
  QueryText made = "but at night";
  made.leave_out("cars");
  drop_lead_in(made);
  EXPECT_EQ(made.str(), "but at night -\"cars\"");
  EXPECT_EQ(made.parts()[0].text, "at night");
  EXPECT_EQ(made.parts()[0].at.front(), 4U);
}

TEST(ChangeText, QuotedTextStays) {
  QueryText text = read_query_text("\"only the brave\" poster").value();
  drop_lead_in(text);
  EXPECT_EQ(text.str(), "only the brave poster");
}

}  // namespace
}  // namespace saccade
