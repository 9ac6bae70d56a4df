// Tests of illustrated documents: their exact bytes, and the escaping of values from a collection.
#include "saccade/pages/illustrated_document.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "saccade/core/files/files.h"
#include "saccade/core/hash.h"
#include "saccade/core/random.h"
#include "saccade/core/test_folder.h"
#include "saccade/pages/thumbnail.h"

namespace saccade {
namespace {

using testing::HasSubstr;
using testing::Not;

Document parsed(std::string bytes, DocumentFormat format) {
  auto document = parse_document(std::move(bytes), format);
  EXPECT_TRUE(document.has_value()) << document.error().message;
  return document.value_or(Document());
}

DocumentPicture picture(size_t paragraph, std::string alternative = "a cat", std::string url = "cat.png") {
  return {paragraph, std::move(url), std::move(alternative), "", 80, 40, false};
}

std::string written(const Document& document, std::span<const DocumentPicture> pictures, PageFormat format) {
  auto text = illustrated_document(document, pictures, format, "name");
  EXPECT_TRUE(text.has_value()) << text.error().message;
  return text.value_or("");
}

TEST(IllustratedDocument, MarkdownGetsLinesOfItsOwn) {
  struct Case {
    const char* source;
    const char* expected;
  };
  for (const auto& [source, expected] :
       std::vector<Case>{{"One.\n\nTwo.\n", "One.\n\n![a cat](cat.png)\n\nTwo.\n"},
                         {"One.", "One.\n\n![a cat](cat.png)\n"},
                         {"One.\n# H\n", "One.\n\n![a cat](cat.png)\n\n# H\n"},
                         {"One.\r\n\r\nTwo.\r\n", "One.\r\n\r\n![a cat](cat.png)\r\n\r\nTwo.\r\n"},
                         {"One.\r\rTwo.\r", "One.\r\r![a cat](cat.png)\r\rTwo.\r"}}) {
    const DocumentPicture one = picture(0);
    EXPECT_EQ(written(parsed(source, DocumentFormat::kMarkdown), {&one, 1}, PageFormat::kMarkdown), expected);
  }
  const std::vector<DocumentPicture> two = {picture(0), picture(0, "a dog", "dog.png")};
  EXPECT_EQ(written(parsed("One.\n# H\n", DocumentFormat::kMarkdown), two, PageFormat::kMarkdown),
            "One.\n\n![a cat](cat.png)\n\n![a dog](dog.png)\n\n# H\n");
}

// Random documents: removing the insertions restores the source, and no paragraph changes.
TEST(IllustratedDocument, MarkdownIsOtherwiseKeptByteForByte) {
  const std::vector<std::string> lines = {"Words of a paragraph.",
                                          "",
                                          "",
                                          "# heading",
                                          "- item",
                                          "  more",
                                          "> quote",
                                          "```",
                                          "",
                                          "===",
                                          "---",
                                          "| a | b |",
                                          "|---|---|",
                                          "    code",
                                          "1. one",
                                          "",
                                          "<div>",
                                          "[r]: /u",
                                          "a [x](u",
                                          "\"t\")",
                                          "![p](q)",
                                          "tab\tin",
                                          "",
                                          "</div>",
                                          "\xC3\xA9t\xC3\xA9",
                                          "two  ",
                                          "+++"};
  SplitMix random(5);
  int with_pictures = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string source;
    const char* const end = round % 3 == 0 ? "\r\n" : "\n";
    for (uint32_t left = 1 + random.below(12); left > 0; --left) {
      source += lines[random.below(static_cast<uint32_t>(lines.size()))];
      if (left > 1 || random.below(2) == 0) source += end;
    }
    const Document document = parsed(source, DocumentFormat::kMarkdown);
    std::vector<DocumentPicture> pictures;
    for (size_t p = 0; p < document.paragraphs.size(); ++p) pictures.push_back(picture(p, "@", "@.png"));
    with_pictures += pictures.empty() ? 0 : 1;
    const std::string result = written(document, pictures, PageFormat::kMarkdown);
    // Without the inserted lines and their blank lines, the remaining non-blank lines are the same.
    std::string rest = result;
    for (size_t at; (at = rest.find("![@](@.png)")) != std::string::npos;) rest.erase(at, 11);
    const auto squeezed = [](const std::string& text) {
      std::string words;
      for (const char c : text) {
        if (c != '\n' && c != '\r') words += c;
      }
      return words;
    };
    ASSERT_EQ(squeezed(rest), squeezed(source)) << source;
    // Each image is now a paragraph of its own, behind the one it belongs to, so no paragraph lacks one.
    const Document again = parsed(result, DocumentFormat::kMarkdown);
    ASSERT_TRUE(again.paragraphs.empty()) << source << "\n----\n"
                                          << result << "\n----\n"
                                          << again.paragraphs[0].text;
  }
  EXPECT_GT(with_pictures, 1500);
}

TEST(IllustratedDocument, HtmlIsInsertedBehindTheElement) {
  const std::string source = "<body><p>One\n</p><p>Two</body>";
  const DocumentPicture one = picture(1, "it's \"<b>\"");
  const std::string result = written(parsed(source, DocumentFormat::kHtml), {&one, 1}, PageFormat::kHtml);
  EXPECT_THAT(result, testing::StartsWith("<body><p>One\n</p><p>Two<figure class=\"saccade\""));
  EXPECT_THAT(result, testing::EndsWith("</figure></body>"));
  EXPECT_THAT(result, HasSubstr("alt=\"it&#39;s &quot;&lt;b&gt;&quot;\""));
  EXPECT_THAT(result, HasSubstr("width=\"80\" height=\"40\""));
  const auto markdown =
      illustrated_document(parsed(source, DocumentFormat::kHtml), {}, PageFormat::kMarkdown, "");
  ASSERT_FALSE(markdown.has_value());
  EXPECT_EQ(markdown.error().code, ErrorCode::kUsage);
}

TEST(IllustratedDocument, NothingGetsOutOfItsPlace) {
  const std::string hostile = "x\"><script>alert(1)</script>\n](javascript:a) ![b](c) `d` &lt;\\";
  DocumentPicture one = picture(0, hostile);
  one.title = hostile;
  for (const DocumentFormat from :
       {DocumentFormat::kText, DocumentFormat::kMarkdown, DocumentFormat::kHtml}) {
    const std::string source = from == DocumentFormat::kHtml ? "<p>One two.</p>" : "One two.\n";
    const std::string html = written(parsed(source, from), {&one, 1}, PageFormat::kHtml);
    EXPECT_THAT(html, Not(HasSubstr("<script")));
    EXPECT_THAT(
        html, HasSubstr("alt=\"x&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt; ](javascript:a) ![b](c) `d` "
                        "&amp;lt;\\\" title=\"x&quot;&gt;&lt;script&gt;"));
  }
  const std::string markdown =
      written(parsed("One two.\n", DocumentFormat::kMarkdown), {&one, 1}, PageFormat::kMarkdown);
  const auto shown = render_markdown(markdown);
  ASSERT_TRUE(shown.has_value());
  EXPECT_THAT(*shown, Not(HasSubstr("<script")));
  EXPECT_THAT(*shown, Not(HasSubstr("javascript:a\"")));
  EXPECT_THAT(*shown,
              HasSubstr("<img src=\"cat.png\" alt=\"x&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt; ]"
                        "(javascript:a) ![b](c) `d` &amp;lt;\\\" />"))
      << *shown;
  // A text with Markdown's special characters.
  const std::string text =
      written(parsed("# no heading\n\n- no *list*\n\n<script>\n\n1. no list", DocumentFormat::kText), {},
              PageFormat::kMarkdown);
  const auto plain = render_markdown(text);
  ASSERT_TRUE(plain.has_value());
  EXPECT_EQ(*plain, "<p># no heading</p>\n<p>- no *list*</p>\n<p>&lt;script&gt;</p>\n<p>1. no list</p>\n");
}

TEST(IllustratedDocument, OtherEncodingsGetAsciiAlone) {
  const DocumentPicture one = picture(0, "caf\xC3\xA9 \xE2\x82\xAC");
  for (const auto& [from, source] : {std::pair(DocumentFormat::kMarkdown, std::string("\xE9t\xE9\n")),
                                     std::pair(DocumentFormat::kHtml, std::string("<p>\xE9t\xE9</p>"))}) {
    const Document document = parsed(source, from);
    const PageFormat to = from == DocumentFormat::kHtml ? PageFormat::kHtml : PageFormat::kMarkdown;
    std::string result = written(document, {&one, 1}, to);
    EXPECT_THAT(result, HasSubstr("caf&#233; &#8364;"));
    EXPECT_THAT(result, HasSubstr("\xE9t\xE9"));
  }
  EXPECT_THAT(written(parsed("\xE9t\xE9\n", DocumentFormat::kMarkdown), {&one, 1}, PageFormat::kHtml),
              HasSubstr("<p>\xC3\xA9t\xC3\xA9</p>"));
}

TEST(IllustratedDocument, APageOfATextKeepsVerseAndTables) {
  const std::string source =
      "Tiger, tiger, burning bright\nIn the forests of the night\n\na      b     c\nd      e     f\n";
  const DocumentPicture one = picture(0);
  const std::string html = written(parsed(source, DocumentFormat::kText), {&one, 1}, PageFormat::kHtml);
  EXPECT_THAT(html, HasSubstr("bright<br>\nIn the"));
  EXPECT_THAT(html, HasSubstr("<pre>a      b     c\nd      e     f</pre>"));
  EXPECT_THAT(html, HasSubstr("<h1>name</h1>"));
  const std::string markdown =
      written(parsed(source, DocumentFormat::kText), {&one, 1}, PageFormat::kMarkdown);
  EXPECT_EQ(markdown,
            "Tiger, tiger, burning bright\\\nIn the forests of the night\n\n![a cat](cat.png)\n\n"
            "    a      b     c\n    d      e     f\n");
}

TEST(IllustratedDocument, LinksAreRelativeAndPlain) {
  EXPECT_EQ(relative_url("/a/b/c d(1).png", "/a/b"), "c%20d%281%29.png");
  EXPECT_EQ(relative_url("/a/x/\xE9.png", "/a/b/d"), "../../x/%E9.png");
  EXPECT_EQ(relative_url("/a/javascript:x.png", "/a"), "javascript%3Ax.png");
}

TEST(IllustratedDocument, CopiesChangeNothingThatIsThere) {
  const test::TestFolder folder;
  Item item;
  item.path = folder.write("from/cat.png", "bytes");
  item.hash = sha256_hex(std::string_view("bytes"));
  const auto first = copy_picture(item, folder / "to");
  ASSERT_TRUE(first.has_value()) << first.error().message;
  EXPECT_EQ(*first, folder / "to/cat.png");
  EXPECT_EQ(copy_picture(item, folder / "to").value(), *first);
  folder.write("to/cat.png", "somebody's");
  const auto second = copy_picture(item, folder / "to");
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(*second, folder / "to/cat-2.png");
  EXPECT_EQ(read_file(folder / "to/cat.png").value(), "somebody's");
  folder.write("from/cat.png", "other bytes");
  const auto changed = copy_picture(item, folder / "to");
  ASSERT_FALSE(changed.has_value());
  EXPECT_EQ(changed.error().code, ErrorCode::kMismatch);
}

TEST(Thumbnails, OfAnImageWithoutAFileSayThatItIsNotHere) {
  Item item;
  item.path = "/elsewhere/a.png";
  item.file.elsewhere = true;
  const Thumbnail thumbnail = item_thumbnail(item, 64, {});
  EXPECT_EQ(thumbnail.url, "");
  EXPECT_THAT(thumbnail.problem, testing::HasSubstr("not on this host"));
  EXPECT_THAT(picture_html(thumbnail, "a.png"), testing::HasSubstr("<span>Cannot be shown: "));
}

}  // namespace
}  // namespace saccade
