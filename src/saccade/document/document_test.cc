// Tests of paragraph detection and of input that is not a document.
#include "saccade/document/document.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/test_folder.h"

namespace saccade {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Document parsed(std::string bytes, DocumentFormat format) {
  auto document = parse_document(std::move(bytes), format);
  EXPECT_TRUE(document.has_value()) << document.error().message;
  return document.value_or(Document());
}

std::vector<std::string> texts(const Document& document) {
  std::vector<std::string> result;
  for (const DocumentParagraph& paragraph : document.paragraphs) result.push_back(paragraph.text);
  return result;
}

// Returns the source with "@" at each paragraph's insertion point.
std::string marked(const Document& document) {
  std::string result = document.source;
  for (size_t p = document.paragraphs.size(); p-- > 0;) result.insert(document.paragraphs[p].end, "@");
  return result;
}

TEST(MarkdownDocument, ProseIsTheDocumentsOwnParagraphs) {
  const Document document = parsed(
      "---\ntitle: x\n---\n\n# A *title*\n\nOne **bold** line\nand [a link](http://a.b \"t\") with `code`.\n\n"
      "- a list item\n\n  with a paragraph\n\n> a quotation\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n"
      "```\ncode block\n```\n\n    indented code\n\nBefore a picture.\n\n![cat](cat.png)\n\n"
      "With ![one](in.png) inside.\n\n<div>\nraw\n</div>\n\n[ref]: http://c.d\nAfter a reference.[^1]\n"
      "Last line\n\n[^1]: A footnote.\n",
      DocumentFormat::kMarkdown);
  EXPECT_EQ(document.title, "A title");
  EXPECT_THAT(texts(document),
              ElementsAre("One bold line and a link with code.", "After a reference. Last line"));
  EXPECT_THAT(marked(document), HasSubstr("with `code`.\n@\n- a list"));
  EXPECT_THAT(marked(document), HasSubstr("Last line\n@\n[^1]"));
}

TEST(MarkdownDocument, APlaceIsBehindTheParagraphsLastLine) {
  struct Case {
    const char* source;
    const char* marked;
  };
  for (const auto& [source, expected] :
       std::vector<Case>{{"No line end", "No line end@"},
                         {"a\r\nb\r\n\r\nc", "a\r\nb\r\n@\r\nc@"},
                         {"a\rb\r\rc\r", "a\rb\r@\rc\r@"},
                         {"a\n# heading\nb\n***\nc\n", "a\n@# heading\nb\n@***\nc\n@"},
                         {"a\n- list\nlazy\n\nb\n", "a\n@- list\nlazy\n\nb\n@"},
                         {"a [l](u\n\"title\")\n\nb\n", "a [l](u\n\"title\")\n@\nb\n@"},
                         {"a\n```\ncode\n```\nb\n", "a\n@```\ncode\n```\nb\n@"},
                         {"title\n===\na\n", "title\n===\na\n@"},
                         {"above a table\n| a | b |\n|---|---|\n| 1 | 2 |\n\nb\n",
                          "above a table\n| a | b |\n|---|---|\n| 1 | 2 |\n\nb\n@"},
                         {"\xEF\xBB\xBF"
                          "a\n\nb\n",
                          "\xEF\xBB\xBF"
                          "a\n@\nb\n@"},
                         {"---\na rule above\n", "---\na rule above\n@"},
                         {"---\n\na\n\n---\nb\n", "---\n\na\n@\n---\nb\n@"},
                         {"+++\nx = 1\n+++\na\n", "+++\nx = 1\n+++\na\n@"},
                         {"   a\n   b   \n\n\n\nc", "   a\n   b   \n@\n\n\nc@"},
                         {"caf\xE9 one\n\ntwo \x93q\x94\n", "caf\xE9 one\n@\ntwo \x93q\x94\n@"}}) {
    EXPECT_EQ(marked(parsed(source, DocumentFormat::kMarkdown)), expected);
  }
}

TEST(HtmlDocument, ProseIsParagraphsOutsideOfWhatIsAroundThem) {
  const Document document = parsed(
      "<!doctype html><html><head><title>A &amp; B</title><script>var a = '<p>no</p>';</script></head><body>"
      "<nav><p>menu</p></nav><h1>Title</h1><p class=\"x\">One &lt;<b>two</b>\n three<sup>1</sup>.</p>"
      "<pre><p>code</p></pre><table><tr><td><p>cell</p></table><p>Unclosed one<p>Unclosed two<ul><li>item<li><p>in a list"
      "</ul><div>text <i>alone</i></div><div>text<p>inner</p></div><p>with <img src=a> in it</p>"
      "<p>before a figure</p> <!-- c --> <figure><img src=b></figure><p>before a picture</p><p><img src=c></p>"
      "<form><p>form</p></form><!-- <p>comment</p> --></p></body></html>",
      DocumentFormat::kHtml);
  EXPECT_EQ(document.title, "A & B");
  EXPECT_THAT(texts(document), ElementsAre("One <two three.", "Unclosed one", "Unclosed two", "in a list",
                                           "text alone", "inner"));
  const std::string all = marked(document);
  EXPECT_THAT(all, HasSubstr("</sup>.</p>@<pre>"));
  EXPECT_THAT(all, HasSubstr("Unclosed one@<p>Unclosed two@<ul>"));
  EXPECT_THAT(all, HasSubstr("in a list@</ul><div>text <i>alone</i></div>@"));
  EXPECT_EQ(marked(parsed("<body><P>One <b>bold</b></P>\n<p>Two<br>\n</body>\n", DocumentFormat::kHtml)),
            "<body><P>One <b>bold</b></P>@\n<p>Two<br>@\n</body>\n");
}

TEST(HtmlDocument, IsReadInItsOwnEncoding) {
  const Document latin =
      parsed("<meta charset=\"iso-8859-1\"><p>caf\xE9 \x80</p><p>b</p>", DocumentFormat::kHtml);
  EXPECT_EQ(latin.encoding, TextEncoding::kLatin1);
  EXPECT_THAT(texts(latin), ElementsAre("caf\xC3\xA9 \xE2\x82\xAC", "b"));
  EXPECT_EQ(marked(latin), "<meta charset=\"iso-8859-1\"><p>caf\xE9 \x80</p>@<p>b</p>@");
  const auto other =
      parse_document("<meta http-equiv=content-type content=\"text/html; charset=Shift_JIS\"><p>a</p>",
                     DocumentFormat::kHtml);
  ASSERT_FALSE(other.has_value());
  EXPECT_EQ(other.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(other.error().message, HasSubstr("iconv -f shift_jis"));
}

TEST(HtmlDocument, NestingIsLimited) {
  std::string deep;
  for (int i = 0; i < 3000; ++i) deep += "<div>";
  const auto document = parse_document(deep, DocumentFormat::kHtml);
  ASSERT_FALSE(document.has_value());
  EXPECT_EQ(document.error().code, ErrorCode::kLimit);
  // Input that only looks deeply nested.
  std::string flat = "<script>";
  for (int i = 0; i < 3000; ++i) flat += "a<b;";
  flat += "</script>";
  for (int i = 0; i < 3000; ++i) flat += "<p>one<br><li>";
  EXPECT_EQ(parsed(flat, DocumentFormat::kHtml).paragraphs.size(), 3000U);
}

TEST(TextDocument, ParagraphsStandBetweenBlankLines) {
  const Document document = parsed(
      "A line that is wrapped because it is longer than a page is\nwide, and goes on.\n\n"
      "Tiger, tiger, burning bright\nIn the forests of the night\n\n"
      "name      size     colour\ncat       4        black\n\t\t\tend\n \t \r\nLast",
      DocumentFormat::kText);
  EXPECT_THAT(texts(document),
              ElementsAre("A line that is wrapped because it is longer than a page is wide, and goes on.",
                          "Tiger, tiger, burning bright\nIn the forests of the night",
                          "name      size     colour\ncat       4        black\n\t\t\tend", "Last"));
  EXPECT_EQ(document.paragraphs[2].kind, ParagraphKind::kSet);
  EXPECT_THAT(marked(document), HasSubstr("goes on.\n@\nTiger"));
  EXPECT_THAT(marked(document), testing::EndsWith("Last@"));
  EXPECT_THAT(texts(parsed(" \n\t\n", DocumentFormat::kText)), IsEmpty());
}

TEST(TextDocument, DividedWordsAreJoinedAndNumbersAreHeadings) {
  const Document document = parsed(
      "2.1\n\nSupported Hardware\n\nThe installation of this program is described here, as is its con-\nfiguration; a well-known "
      "thing is the word well-\nknown, and it is a program of programs.\n\n3.2. The message line (top)\n\n3 cats sat there.\n\n"
      "2.5 of these were seen.\n",
      DocumentFormat::kText);
  ASSERT_EQ(document.paragraphs.size(), 5U);
  EXPECT_EQ(document.paragraphs[0].text, "2.1 Supported Hardware");
  EXPECT_EQ(document.paragraphs[0].kind, ParagraphKind::kHeading);
  EXPECT_EQ(
      document.paragraphs[1].text,
      "The installation of this program is described here, as is its configuration; a well-known thing is the word "
      "well-known, and it is a program of programs.");
  EXPECT_EQ(document.paragraphs[2].kind, ParagraphKind::kHeading);
  EXPECT_EQ(document.paragraphs[3].kind, ParagraphKind::kProse);
  EXPECT_EQ(document.paragraphs[4].kind, ParagraphKind::kProse);
}

TEST(DecodedText, EncodingsAreToldAndOffsetsLeadBack) {
  const auto utf16 = decode_text(std::string_view("\xFE\xFF\0a\0\n\xD8\x3D\xDE\x00", 10));
  ASSERT_TRUE(utf16.has_value()) << utf16.error().message;
  EXPECT_EQ(utf16->utf8, "a\n\xF0\x9F\x98\x80");
  const std::string_view latin = "a\xE9\x80z";
  const auto decoded = decode_text(latin);
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(decoded->utf8, "a\xC3\xA9\xE2\x82\xACz");
  EXPECT_EQ(decoded->source_offset(0), 0U);
  EXPECT_EQ(decoded->source_offset(3), 2U);
  EXPECT_EQ(decoded->source_offset(6), 3U);
  EXPECT_EQ(decoded->source_offset(7), 4U);
  struct Case {
    std::string bytes;
    const char* reason;
  };
  for (const auto& [bytes, reason] : std::vector<Case>{{std::string("a\0b", 3), "byte 1 is NUL"},
                                                       {std::string("\xFF\xFE"
                                                                    "a",
                                                                    3),
                                                        "odd number of bytes"},
                                                       {std::string("\xFF\xFE\0\xD8"
                                                                    "a\0",
                                                                    6),
                                                        "half a surrogate pair"},
                                                       {"\x01\x02\x03 binary", "control characters"},
                                                       {"\xEF\xBB\xBF a \xE9", "begins as UTF-8"}}) {
    const auto failed = decode_text(bytes);
    ASSERT_FALSE(failed.has_value()) << reason;
    EXPECT_EQ(failed.error().code, ErrorCode::kBadData);
    EXPECT_THAT(failed.error().message, HasSubstr(reason));
  }
}

TEST(ReadDocument, WhatAFileIsFollowsFromContentAndName) {
  EXPECT_EQ(document_format("%PDF-1.4", "a.txt"), DocumentFormat::kPdf);
  EXPECT_EQ(document_format("# a", "A.MD"), DocumentFormat::kMarkdown);
  EXPECT_EQ(document_format("\n<!DOCTYPE HTML PUBLIC", "page"), DocumentFormat::kHtml);
  EXPECT_EQ(document_format("plain", "notes"), DocumentFormat::kText);
  const test::TestFolder folder;
  const auto empty = read_document(folder.write("empty.md", ""));
  ASSERT_FALSE(empty.has_value());
  EXPECT_THAT(empty.error().message, HasSubstr("is empty"));
  DocumentOptions options;
  options.max_bytes = 3;
  const auto large = read_document(folder.write("large.txt", "abcd"), options);
  ASSERT_FALSE(large.has_value());
  EXPECT_EQ(large.error().code, ErrorCode::kLimit);
  const auto gone = read_document(folder / "gone.txt");
  ASSERT_FALSE(gone.has_value());
  EXPECT_EQ(gone.error().code, ErrorCode::kNotFound);
  const auto broken = read_document(folder.write("a.pdf", "%PDF-1.4 broken"));
  ASSERT_FALSE(broken.has_value());
  EXPECT_EQ(broken.error().code, ErrorCode::kBadData);
}

TEST(RenderMarkdown, KeepsTablesAndFiltersScripts) {
  const auto html = render_markdown(
      "---\na: b\n---\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n<script>x</script>\n\n<b>kept</b>\n");
  ASSERT_TRUE(html.has_value());
  EXPECT_THAT(*html, HasSubstr("<td>1</td>"));
  EXPECT_THAT(*html, HasSubstr("&lt;script>"));
  EXPECT_THAT(*html, HasSubstr("<b>kept</b>"));
  EXPECT_THAT(*html, testing::Not(HasSubstr("a: b")));
}

bool is_table(const std::string& text) {
  const auto html = render_markdown(text);
  return html && html->find("<table>") != std::string::npos;
}

std::string repeated(std::string_view piece, int64_t times) {
  std::string text;
  for (int64_t i = 0; i < times; ++i) text += piece;
  return text;
}

// cmark-gfm fills short rows with empty cells. Whatever a table's lines look like, the work stays in proportion to
// the bytes; where it would not, tables are text.
TEST(RenderMarkdown, RowsThatLackManyCellsAreText) {
  const auto table = [](int64_t columns, int64_t rows, std::string_view before, std::string_view row,
                        std::string_view end = "\n") {
    std::string text(before);
    for (int64_t i = 0; i < columns; ++i) text += "|a";
    text += std::string(end) + std::string(before);
    for (int64_t i = 0; i < columns; ++i) text += "|-";
    text += end;
    for (int64_t i = 0; i < rows; ++i) text += std::string(before) + std::string(row) + std::string(end);
    return text;
  };
  // 500 columns: 16,384 missing cells are some 33 rows of one cell.
  for (const char* before : {"", "> ", "    > "}) {
    EXPECT_EQ(is_table(table(500, 20, before, "|a|")), *before != ' ') << before;
    EXPECT_FALSE(is_table(table(500, 50, before, "|a|"))) << before;
  }
  EXPECT_FALSE(is_table(table(500, 50, "", "|a|", "\r")));
  EXPECT_FALSE(is_table(table(500, 50, "", "|a|", "\r\n")));
  EXPECT_TRUE(is_table("- " + table(2, 20, "  ", "|a|").substr(2)));
  EXPECT_FALSE(is_table("- " + table(500, 50, "  ", "|a|").substr(2)));
  // Each of many tables counts, and a blank line ends one.
  std::string many;
  for (int i = 0; i < 40; ++i) many += table(900, 20, "", "|a|") + "\n";
  EXPECT_FALSE(is_table(many));
  EXPECT_TRUE(is_table(table(900, 10, "", "|a|") + "\n" + std::string(100'000, '\n')));
  // Rows that have their cells may be as many as there are.
  EXPECT_TRUE(is_table(table(3, 50'000, "", "|1|2|3")));
  EXPECT_TRUE(is_table(table(3, 50'000, "", "|1|2|3|")));
}

// cmark-gfm reads what stands above a possible table again and again. Unbounded, each of these takes seconds.
TEST(RenderMarkdown, TablesBelowLongParagraphsAreText) {
  const std::string head = "| a | b |\n|---|---|\n";
  EXPECT_TRUE(is_table(repeated("above\n", 100) + head));
  EXPECT_FALSE(is_table(repeated("above\n", 20'000) + head));
  EXPECT_TRUE(is_table(repeated("above\n", 20'000) + "\n" + head));
  EXPECT_TRUE(is_table(repeated("> quoted\n>\n", 20'000) + "> | a | b |\n> |---|---|\n"));
  EXPECT_FALSE(is_table(repeated("a| a |\n|---|\n", 20'000) + "\n" + head));
  EXPECT_FALSE(is_table(repeated("a \\| a |\n|---|---|\n", 20'000) + "\n" + head));
  // Rows of "-" in a table are like others.
  EXPECT_TRUE(is_table(head + repeated("| - | 2 |\n| - | - |\n", 20'000)));
}

// cmark-gfm goes over a paragraph once more for each of some signs. These texts would take it a second and more.
TEST(RenderMarkdown, ParagraphsOfManySignsAreRefused) {
  for (const char* signs : {"_[^1]", "~[^1]", "~~[a](b)", "_[a](b)", "http://a.b<", "a.b@c.d<", "[^"}) {
    const auto html = render_markdown(repeated(signs, 40'000));
    ASSERT_FALSE(html.has_value()) << signs;
    EXPECT_EQ(html.error().code, ErrorCode::kLimit);
    EXPECT_TRUE(render_markdown(repeated(signs, 1'000)).has_value()) << signs;
  }
  // Blank lines and items of lists divide paragraphs.
  const std::string piece = repeated("_[^1]", 100);
  const auto divided = [&](std::string_view begin, std::string_view first = "a") {
    return render_markdown(std::string(first) + repeated(std::string(begin) + piece, 250)).has_value();
  };
  for (const char* begin : {"\n\n", "\n- ", "\n* ", "\n1. ", "\n> \n> "})
    EXPECT_TRUE(divided(begin)) << begin;
  EXPECT_TRUE(divided("\n12. ", "1. a"));
  // These continue a paragraph.
  for (const char* begin : {"\n", "\n-", "\n2. ", "\n    - ", "\n1.", "\n1- "})
    EXPECT_FALSE(divided(begin)) << begin;
  EXPECT_FALSE(divided("\n  2. ", "- a"));
  EXPECT_FALSE(render_markdown("www.a" + repeated(")", 40'000)).has_value());
  const auto told = render_markdown("a\n\nb\n" + repeated("_[^1]", 40'000) + "\n\nc");
  ASSERT_FALSE(told.has_value());
  EXPECT_THAT(told.error().message,
              HasSubstr("line 3: a paragraph of 200003 bytes with 80000 signs of markup"));
  // Each row of a table is read by itself, other lines that begin with a bar are not.
  const std::string head = "| a | b |\n|---|:--|\n";
  const std::string row = "| " + repeated("_[^1]", 100) + "|\n";
  EXPECT_TRUE(render_markdown(head + repeated(row, 400)).has_value());
  for (const char* before :
       {"", "| a | b |\n", "    | a | b |\n    |---|---|\n", "| a | b |\n| c |\n", "<!--\n\n", "```\n\n",
        "| a | b |\n|---|---|\n- a\n", "| a | b |\n|---|---|\n\n"}) {
    const bool hides = std::string_view(before).ends_with("\n\n") && before[0] != '|';
    EXPECT_FALSE(render_markdown(before + (hides ? head : "") + repeated(row, 400)).has_value()) << before;
  }
  // Running text may be long.
  EXPECT_TRUE(
      render_markdown(repeated("Some words, *a few* of them [linked](to) others.\n", 1'000)).has_value());
}

}  // namespace
}  // namespace saccade
