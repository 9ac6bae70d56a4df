// Tests of the conversion of page lines to paragraphs: edges, columns and divided words.
#include "saccade/document/page_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/document/prose.h"

namespace saccade::document {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A page of one block of lines, the first at `top`, 12 points each.
TextPage page_of(const std::vector<std::string>& lines, double top = 100) {
  TextPage page;
  page.blocks.emplace_back();
  for (const std::string& line : lines) {
    page.blocks.back().push_back({line, top, top + 10});
    top += 12;
  }
  return page;
}

std::string joined(const std::vector<std::string>& lines, const std::vector<std::string>& elsewhere = {}) {
  return join_paragraphs({page_of(lines), page_of(elsewhere)}).front().front();
}

TEST(PageText, JoinsWhatALineEndHasDivided) {
  EXPECT_EQ(joined({"the keeper's cot-", "tage stands"}), "the keeper's cottage stands");
  EXPECT_EQ(joined({"the keeper's cot\u00ad", "tage"}), "the keeper's cottage");
  EXPECT_EQ(joined({"the keeper's cot\u2010", "tage"}), "the keeper's cottage");
  // The document has the word with its hyphen elsewhere.
  EXPECT_EQ(joined({"a well-", "known one"}, {"so well-known a thing"}), "a well-known one");
  // ... or without.
  EXPECT_EQ(joined({"a data-", "base"}, {"the database, the base, the data"}), "a database");
  // Both parts are words of the document, and the joined one is not.
  EXPECT_EQ(joined({"a three-", "masted ship"}, {"three ships, one masted"}), "a three-masted ship");
  // The next line begins with a name, a number, or nothing that continues a word.
  EXPECT_EQ(joined({"the Anglo-", "Saxon one"}), "the Anglo-Saxon one");
  EXPECT_EQ(joined({"from 10-", "20 of them -", "or more"}), "from 10- 20 of them - or more");
}

TEST(PageText, ABlockThatGoesOnIsOneParagraph) {
  TextPage page = page_of({"The foghorn sounded"});
  page.blocks.push_back(page_of({"continuously in the night."}).blocks.front());
  page.blocks.push_back(page_of({"a heading in lower case"}).blocks.front());
  page.blocks.push_back(page_of({"The end"}).blocks.front());
  EXPECT_THAT(join_paragraphs({page}).front(), ElementsAre("The foghorn sounded continuously in the night.",
                                                           "a heading in lower case", "The end"));
}

TEST(PageText, EachItemOfAListIsAParagraph) {
  TextPage page = page_of({"What you need", "\u2022 a white boat", "with a red sail", "\u2022", "a lamp"});
  page.blocks.push_back(page_of({"\u25e6 a rope"}).blocks.front());
  // A quote has no case, so the paragraph does not continue with it.
  page.blocks.push_back(page_of({"\u201cAhoy\u201d is the call"}).blocks.front());
  EXPECT_THAT(join_paragraphs({page}).front(),
              ElementsAre("What you need", "a white boat with a red sail", "a lamp", "a rope",
                          "\u201cAhoy\u201d is the call"));
}

TEST(PageText, DropsWhatStandsAtTheEdgeOfPageAfterPage) {
  std::vector<TextPage> pages;
  for (int i = 1; i <= 3; ++i) {
    const std::string number = std::to_string(i);
    pages.push_back(
        page_of({"Chapter " + number + " of the report",
                 "Title " + std::string(1, static_cast<char>('a' + i)), "Body one", "Body", "Body two",
                 "A last line " + std::string(1, static_cast<char>('a' + i)), "- " + number + " -"}));
  }
  EXPECT_EQ(drop_edge_lines(pages), 6);
  EXPECT_THAT(join_paragraphs(pages)[0], ElementsAre("Title b Body one Body Body two A last line b"));
  // "Body" repeats as well, but not at the page's edge.
}

TEST(PageText, ColumnsComeOneAfterTheOtherWhereverTheyBegin) {
  const auto block = [](const std::string& text, double left, double top, double right, double bottom) {
    return TextBlock{{text, top, bottom, left, right}};
  };
  TextPage page;
  page.blocks = {block("title", 10, 10, 200, 20), block("right", 110, 30, 200, 80),
                 block("left", 10, 34, 100, 60), block("left below", 10, 70, 100, 90),
                 block("foot", 10, 100, 200, 110)};
  std::vector<TextPage> pages = {page};
  order_blocks(pages);
  std::vector<std::string> texts;
  for (const TextBlock& each : pages[0].blocks) texts.push_back(each[0].text);
  EXPECT_THAT(texts, ElementsAre("title", "left", "left below", "right", "foot"));
  // Blocks that overlap keep their order.
  pages[0].blocks = {block("b", 10, 10, 100, 50), block("a", 5, 5, 90, 45)};
  order_blocks(pages);
  EXPECT_EQ(pages[0].blocks[0][0].text, "b");
}

TEST(PageText, OneOfTwoPagesDoesNotRepeat) {
  std::vector<TextPage> pages = {page_of({"Same", "a", "b", "e", "f"}),
                                 page_of({"Other", "g", "h", "k", "12"})};
  EXPECT_EQ(drop_edge_lines(pages), 1);  // the number
  EXPECT_THAT(join_paragraphs(pages)[1], ElementsAre("Other g h k"));
  // Roman numerals among other words are kept.
  pages = {page_of({"I mix it", "a", "b", "e", "f"})};
  EXPECT_EQ(drop_edge_lines(pages), 0);
  // Alone they are page numbers, if they are in standard form.
  pages = {page_of({"Civil", "Ill", "a", "b", "LXXXIV", "- xiv -"})};
  EXPECT_EQ(drop_edge_lines(pages), 2);
  EXPECT_THAT(join_paragraphs(pages)[0], ElementsAre("Civil Ill a b"));
}

constexpr const char* kLayout = R"(<doc>
  <page width="595.000000" height="842.000000">
    <flow>
      <block xMin="72.0" yMin="92.7" xMax="273.6" yMax="233.7">
        <line xMin="97.0" yMin="92.7" xMax="273.6" yMax="101.7">
          <word xMin="97.0" yMin="92.7" xMax="112.5" yMax="101.7">R&amp;D</word>
          <word xMin="97.0" yMin="92.7" xMax="112.5" yMax="101.7">&lt;oLIGATUREce&gt;</word>
        </line>
      </block>
    </flow>
  </page>
  <page width="595.000000" height="842.000000">
  </page>
</doc>
)";

TEST(PageText, ReadsWhatPdftotextWrites) {
  std::string layout = kLayout;
  layout.replace(layout.find("LIGATURE"), 8, "\xef\xac\x83\xff");  // a ligature, and a byte that is no UTF-8
  const auto pages = parse_bbox_layout(layout);
  ASSERT_TRUE(pages) << pages.error().message;
  ASSERT_EQ(pages->size(), 2U);
  EXPECT_EQ((*pages)[0].blocks[0][0].text, "R&D <offi\ufffdce>");
  EXPECT_DOUBLE_EQ((*pages)[0].blocks[0][0].bottom, 101.7);
  EXPECT_TRUE((*pages)[1].blocks.empty());
}

TEST(PageText, CutAnywhereItIsRefusedOrShorter) {
  const std::string layout = kLayout;
  for (size_t length = 0; length < layout.size(); ++length) {
    const auto pages = parse_bbox_layout(layout.substr(0, length));
    if (!pages) {
      EXPECT_EQ(pages.error().code, ErrorCode::kBadData);
    }
  }
  const auto orphan = parse_bbox_layout("<word xMin=\"1\">a</word>");
  ASSERT_FALSE(orphan);
  EXPECT_THAT(orphan.error().message, HasSubstr("<word"));
  const auto no_number =
      parse_bbox_layout("<page>\n<page a>\n<block a>\n<line xMin=\"1\" yMin=\"nan\" xMax=\"1\" yMax=\"2\">");
  ASSERT_FALSE(no_number);
  EXPECT_THAT(no_number.error().message, HasSubstr("yMin"));
}

TEST(Prose, TakesSentencesAndCountsTheRest) {
  int64_t left_out = 0;
  const auto sentences = prose_sentences(
      "A white boat  lies in the harbour. Too short. Total 1.20 3.40 5.60 and 7.80 or 9.10. "
      "Introduction . . . . . . . . . . . . . . . . . . . . . . . to the book. Zwei weiße Möwen über Dächern.",
      {}, left_out);
  ASSERT_TRUE(sentences);
  EXPECT_THAT(*sentences, ElementsAre("A white boat lies in the harbour.", "Zwei weiße Möwen über Dächern."));
  EXPECT_EQ(left_out, 3);
}

TEST(Prose, ATitleBelongsToItsName) {
  int64_t left_out = 0;
  const auto sentences = prose_sentences(
      "Yesterday Mrs. Hale met Dr. Almqvist near St. Mary. Any server (e.g. Apache) can show the page. "
      "The left part, cf. Figure two, is the lens. The end comes with no title, Prof.",
      {}, left_out);
  ASSERT_TRUE(sentences);
  EXPECT_THAT(*sentences, ElementsAre("Yesterday Mrs. Hale met Dr. Almqvist near St. Mary.",
                                      "Any server (e.g. Apache) can show the page.",
                                      "The left part, cf. Figure two, is the lens.",
                                      "The end comes with no title, Prof."));
  EXPECT_EQ(left_out, 0);
}

}  // namespace
}  // namespace saccade::document
