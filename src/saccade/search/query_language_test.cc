#include "saccade/search/query_language.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <limits>

#include <gmock/gmock.h>

#include "saccade/core/test_folder.h"

namespace saccade {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// "red apple; beach * 2; dogs * -0.25" of what was understood, "text" alone where it is one text.
std::string understood(std::string_view typed) {
  const auto read = read_query_text(typed);
  if (!read) return "error: " + read.error().message;
  if (read->is_plain()) return read->str();
  std::string text;
  for (const QueryPart& part : read->parts()) {
    text += (text.empty() ? "" : "; ") + part.text + fmt::format(" * {}", part.weight);
    EXPECT_EQ(part.text.size(), part.at.size());
    for (size_t i = 0; i < part.text.size(); ++i) {
      const bool space = part.text[i] == ' ';
      EXPECT_TRUE(space || read->str()[part.at[i]] == part.text[i]) << typed << " at " << i;
    }
  }
  return text;
}

TEST(QueryLanguage, WhatHasNoSignsIsOneTextAsItStands) {
  for (const char* text :
       {"a red apple", "t-shirt on a hanger", "sunset - the beach", "at 12:30", "16:9", "--no", "a--b",
        "don't", "5\" pipe", "f:x", "half \"open", "http://x", "rock'n'roll", "日本 の 橋", "-", "- -"}) {
    EXPECT_EQ(understood(text), text);
  }
  EXPECT_EQ(understood("  two   words "), "two words");
  EXPECT_EQ(understood(""), "");
  EXPECT_EQ(understood(" \t\n"), "");
  EXPECT_EQ(understood("bad \xff bytes"), "bad \xff bytes");
}

TEST(QueryLanguage, ReadsWhatIsNotWanted) {
  EXPECT_EQ(understood("cats -dogs"), "cats * 1; dogs * -0.25");
  EXPECT_EQ(understood("-dogs cats on a sofa"), "cats on a sofa * 1; dogs * -0.25");
  EXPECT_EQ(understood("red -dogs apple"), "red apple * 1; dogs * -0.25");
  EXPECT_EQ(understood("cats -\"stop sign\" -t-shirt"), "cats * 1; stop sign * -0.25; t-shirt * -0.25");
  EXPECT_EQ(understood("cats -dogs:2"), "cats * 1; dogs * -2");
  EXPECT_EQ(understood("cats dogs:-0.25"), "cats * 1; dogs * -0.25");
  EXPECT_EQ(understood("-dogs"), "dogs * -0.25");
  EXPECT_EQ(understood("cats -5"), "cats * 1; 5 * -0.25");
}

TEST(QueryLanguage, ReadsWeights) {
  EXPECT_EQ(understood("beach:2 sunset"), "sunset * 1; beach * 2");
  EXPECT_EQ(understood("\"golden retriever\":1.5 park bench"), "park bench * 1; golden retriever * 1.5");
  EXPECT_EQ(understood("\u201Cgolden retriever\u201D:2 park"), "park * 1; golden retriever * 2");
  EXPECT_EQ(understood("beach:2"), "beach") << "alone, a weight is nothing to anything";
  EXPECT_EQ(understood("été:3 mer"), "mer * 1; été * 3");
  EXPECT_THAT(understood("beach:0 sea"),
              HasSubstr("error: \"beach\" weighs 0, expected a number above 0 and up to 10"));
  EXPECT_THAT(understood("mario:64"), HasSubstr("error: \"mario\" weighs 64"));
  EXPECT_THAT(understood("a:-11"), HasSubstr("error"));
  EXPECT_THAT(understood("a:1e5"), "a:1e5") << "no such numbers are typed";
  EXPECT_THAT(understood("a:nan"), "a:nan");
  EXPECT_THAT(understood("\"?\":2 a"), HasSubstr("error: \"?\" has a weight and no words"));
}

TEST(QueryLanguage, QuotesAndTwoHyphensMakeWordsLiteral) {
  EXPECT_EQ(understood("\"cats -dogs\""), "cats -dogs");
  EXPECT_EQ(understood("cats -- -dogs a:2 \"x\""), "cats -dogs a:2 \"x\"");
  EXPECT_EQ(understood("-- -5 degrees"), "-5 degrees");
  EXPECT_EQ(understood("cats --"), "cats");
  EXPECT_EQ(understood("-dogs -- -cats "), "-cats * 1; dogs * -0.25");
  EXPECT_EQ(understood("\"mario:64\" game"), "mario:64 game");
  EXPECT_THAT(read_query_text("\"red apple\" tree \"x -y\" -\"stop sign\" \"\" \"!\"")->phrases(),
              ElementsAre("red apple", "x -y"));
  EXPECT_THAT(read_query_text("red apple")->phrases(), IsEmpty());
}

std::string repeated(std::string_view text, size_t bytes) {
  std::string all;
  while (all.size() + text.size() <= bytes) all += text;
  return all;
}

TEST(QueryLanguage, AQueryHasBounds) {
  const auto characters = static_cast<size_t>(kMostQueryCharacters);
  EXPECT_EQ(understood(std::string(characters, 'a')), std::string(characters, 'a'));
  EXPECT_EQ(understood(repeated("é", 2 * characters)), repeated("é", 2 * characters)) << "not bytes";
  EXPECT_EQ(understood(std::string(characters + 1, 'a')),
            "error: the query has 8193 characters, at most 8192 are taken");
  EXPECT_THAT(understood(repeated("a:2 ", 4 * 64)), Not(HasSubstr("error")));
  EXPECT_EQ(understood(repeated("a:2 ", 4 * 65)), "error: the query has more than 64 parts");
  EXPECT_EQ(understood(repeated("-a ", 3 * 64) + "cats"), "error: the query has more than 64 parts");
  EXPECT_THAT(understood(repeated("\"a\" ", 4 * 64)), Not(HasSubstr("error")));
  EXPECT_EQ(understood(repeated("\"a\" ", 4 * 65)), "error: the query has more than 64 phrases in quotes");
  SearchQuery query;
  query.text = std::string(characters + 1, 'a');
  EXPECT_EQ(check_query_size(query).error().code, ErrorCode::kUsage);
  query.text = "a";
  EXPECT_TRUE(check_query_size(query));
  query.text = QueryText("a", std::vector<QueryPart>(65), {});
  EXPECT_THAT(check_query_size(query).error().message, HasSubstr("more than 64 parts"));
  query.text = "a";
  query.images.resize(63);
  EXPECT_TRUE(check_query_size(query));
  query.images.resize(64);
  EXPECT_THAT(check_query_size(query).error().message, HasSubstr("more than 64 parts"));
}

// Least time of several runs: other programs make a run slower, none makes it faster.
double reading_seconds(const std::string& typed) {
  double least = std::numeric_limits<double>::infinity();
  for (int run = 0; run < 25; ++run) {
    const auto start = std::chrono::steady_clock::now();
    (void)read_query_text(typed);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    least = std::min(least, seconds.count());
  }
  return least;
}

// A quadratic reader takes 16 times as long for four times the text.
TEST(QueryLanguage, TimeIsLinearInTheLength) {
  for (const char* part : {"\"a ", "\"", "\" ", "a\" ", "\"a\"b ", "\"a\":", "\"a:1", "-\"a ", "\u201Ca ",
                           "\u201Ea ", "\u00ABa\u00BBa ", "\u201E\u201C", "a:1:", "- ", "--", "a:", "-a-"}) {
    const auto most = static_cast<size_t>(kMostQueryCharacters);
    const double quarter = reading_seconds(repeated(part, most / 4));
    const double whole = reading_seconds(repeated(part, most));
    EXPECT_LT(whole, 9 * quarter + 20e-6) << part;
  }
}

TEST(QueryLanguage, PicturesHaveWeightsBehindTheirNames) {
  const test::TestFolder folder;
  const std::string plain = (folder.path() / "a.png").string();
  const std::string odd = (folder.path() / "b:2").string();
  std::ofstream(plain) << "x";
  std::ofstream(odd) << "x";
  EXPECT_EQ(read_query_image(plain)->weight, 1);
  EXPECT_EQ(read_query_image(plain + ":2")->name(), plain);
  EXPECT_EQ(read_query_image(plain + ":2")->weight, 2);
  EXPECT_EQ(read_query_image(plain + ":-0.5")->weight, -0.5F);
  EXPECT_EQ(read_query_image(odd)->name(), odd) << "a file of that very name";
  EXPECT_EQ(read_query_image(odd + ":3")->weight, 3);
  EXPECT_EQ(read_query_image("missing.png:2")->name(), "missing.png:2")
      << "is said to be missing under its whole name";
  EXPECT_EQ(read_query_image(plain + ":0").error().code, ErrorCode::kUsage);
}

// Alone, a weight is nothing to anything, except to an image that is not wanted.
TEST(QueryLanguage, AWeightCountsAgainstUnwantedImages) {
  const std::vector<QueryImage> wanted = {{"a.png", 2}};
  const std::vector<QueryImage> unwanted = {{"a.png", 2}, {"b.png", -1}};
  EXPECT_TRUE(read_query_text("beach:2", wanted)->is_plain());
  const QueryText text = read_query_text("beach:2", unwanted).value();
  EXPECT_FALSE(text.is_plain());
  EXPECT_EQ(text.str(), "beach:2");
  EXPECT_EQ(text.parts().front().text, "beach");
  EXPECT_EQ(text.parts().front().weight, 2);
  EXPECT_TRUE(read_query_text("beach", unwanted)->is_plain());
}

TEST(QueryLanguage, AnUnwantedPartIsAddedWithItsPlaces) {
  QueryText text = "a beach";
  text.leave_out("many people");
  EXPECT_EQ(text.str(), "a beach -\"many people\"");
  ASSERT_EQ(text.parts().size(), 2U);
  EXPECT_EQ(text.parts()[0].text, "a beach");
  const QueryPart& unwanted = text.parts()[1];
  EXPECT_EQ(unwanted.weight, kUnwantedWeight);
  for (size_t i = 0; i < unwanted.text.size(); ++i) EXPECT_EQ(text.str()[unwanted.at[i]], unwanted.text[i]);
  const QueryText typed = read_query_text(text.str()).value();
  EXPECT_EQ(typed.parts()[1].text, "many people");
  QueryText alone;
  alone.leave_out("cars");
  EXPECT_TRUE(alone.has_words() && !alone.is_plain());
}

}  // namespace
}  // namespace saccade
