#include "saccade/search/change_text.h"

#include <gtest/gtest.h>

#include "saccade/search/query_language.h"

namespace saccade {
namespace {

std::string text_of(std::string_view typed) {
  SearchQuery query;
  query.text = typed;
  drop_lead_in(query);
  return query.text;
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
  SearchQuery query;
  ASSERT_TRUE(read_query_text("but at night -cars", query));
  drop_lead_in(query);
  ASSERT_EQ(query.parts.size(), 2U);
  EXPECT_EQ(query.parts[0].text, "at night");
  // Each byte still knows where it was typed.
  ASSERT_EQ(query.parts[0].at.size(), query.parts[0].text.size());
  EXPECT_EQ(query.parts[0].at.front(), 4U);
  EXPECT_EQ(query.parts[1].text, "cars");
  SearchQuery weighted;
  ASSERT_TRUE(read_query_text("\"but blue\":2 -cars", weighted));
  drop_lead_in(weighted);
  EXPECT_EQ(weighted.parts[0].text, "but blue");
}

TEST(ChangeText, QuotedTextStays) {
  SearchQuery query;
  ASSERT_TRUE(read_query_text("\"only the brave\" poster", query));
  drop_lead_in(query);
  EXPECT_EQ(query.text, "only the brave poster");
}

}  // namespace
}  // namespace saccade
