// Extraction of running text from HTML by Gumbo, which parses like browsers and gives each element's byte
// offsets.
#include <algorithm>
#include <array>
#include <gumbo.h>
#include <memory>

#include "saccade/document/document.h"
#include "saccade/text/normalize.h"

namespace saccade {
namespace {

// Maximum nesting depth. Gumbo's time grows with the square of the depth: 20,000 elements take it seconds.
constexpr int64_t kDeepest = 2000;

bool is_one_of(GumboTag tag, std::span<const GumboTag> tags) {
  return std::ranges::find(tags, tag) != tags.end();
}

// Elements excluded from running text, with all their contents.
constexpr std::array<GumboTag, 34> kNoProse = {
    GUMBO_TAG_HEAD,   GUMBO_TAG_SCRIPT, GUMBO_TAG_STYLE,  GUMBO_TAG_TEMPLATE, GUMBO_TAG_NOSCRIPT,
    GUMBO_TAG_NAV,    GUMBO_TAG_HEADER, GUMBO_TAG_FOOTER, GUMBO_TAG_FIGURE,   GUMBO_TAG_FORM,
    GUMBO_TAG_BUTTON, GUMBO_TAG_SELECT, GUMBO_TAG_TABLE,  GUMBO_TAG_TEXTAREA, GUMBO_TAG_PRE,
    GUMBO_TAG_CODE,   GUMBO_TAG_SAMP,   GUMBO_TAG_SVG,    GUMBO_TAG_MATH,     GUMBO_TAG_IFRAME,
    GUMBO_TAG_OBJECT, GUMBO_TAG_VIDEO,  GUMBO_TAG_AUDIO,  GUMBO_TAG_CANVAS,   GUMBO_TAG_H1,
    GUMBO_TAG_H2,     GUMBO_TAG_H3,     GUMBO_TAG_H4,     GUMBO_TAG_H5,       GUMBO_TAG_H6,
    GUMBO_TAG_TITLE,  GUMBO_TAG_MENU,   GUMBO_TAG_XMP,    GUMBO_TAG_PLAINTEXT};
constexpr std::array<GumboTag, 6> kPictures = {GUMBO_TAG_IMG,    GUMBO_TAG_SVG,   GUMBO_TAG_OBJECT,
                                               GUMBO_TAG_CANVAS, GUMBO_TAG_VIDEO, GUMBO_TAG_IFRAME};
// Inline elements.
constexpr std::array<GumboTag, 27> kInline = {
    GUMBO_TAG_A,     GUMBO_TAG_ABBR, GUMBO_TAG_ACRONYM, GUMBO_TAG_B,   GUMBO_TAG_BIG,  GUMBO_TAG_BR,
    GUMBO_TAG_CITE,  GUMBO_TAG_CODE, GUMBO_TAG_DFN,     GUMBO_TAG_EM,  GUMBO_TAG_FONT, GUMBO_TAG_I,
    GUMBO_TAG_INS,   GUMBO_TAG_KBD,  GUMBO_TAG_MARK,    GUMBO_TAG_Q,   GUMBO_TAG_S,    GUMBO_TAG_SAMP,
    GUMBO_TAG_SMALL, GUMBO_TAG_SPAN, GUMBO_TAG_STRONG,  GUMBO_TAG_SUB, GUMBO_TAG_SUP,  GUMBO_TAG_TIME,
    GUMBO_TAG_TT,    GUMBO_TAG_U,    GUMBO_TAG_VAR};
// Void elements and elements that close implicitly: repeating them does not nest them.
constexpr std::array<std::string_view, 26> kNotNesting = {
    "p",     "li",     "dt",       "dd",  "tr",     "td",    "th",    "tbody", "thead",
    "tfoot", "option", "optgroup", "br",  "hr",     "img",   "input", "meta",  "link",
    "col",   "area",   "base",     "wbr", "source", "track", "param", "embed"};

struct FreeOutput {
  void operator()(GumboOutput* output) const { gumbo_destroy_output(&kGumboDefaultOptions, output); }
};

// Returns an upper bound of the nesting depth, from the tags alone. Skips scripts, styles and comments.
int64_t deepest(std::string_view html) {
  int64_t depth = 0;
  int64_t most = 0;
  for (size_t at = html.find('<'); at != std::string_view::npos; at = html.find('<', at)) {
    if (html.substr(at, 4) == "<!--") {
      at = html.find("-->", at);
      continue;
    }
    const bool closes = at + 1 < html.size() && html[at + 1] == '/';
    const size_t begin = at + (closes ? 2 : 1);
    size_t end = begin;
    while (end < html.size() && end < begin + 12 && (isalnum(static_cast<unsigned char>(html[end])) != 0))
      ++end;
    at = std::max(end, at + 1);
    if (end == begin) continue;
    const std::string name = lowercase_each(html.substr(begin, end - begin));
    if (std::ranges::find(kNotNesting, name) != kNotNesting.end()) continue;
    if (closes) {
      depth = std::max<int64_t>(depth - 1, 0);
    } else {
      most = std::max(most, ++depth);
      if (name == "script" || name == "style" || name == "textarea" || name == "title") {
        for (at = html.find("</", at); at != std::string_view::npos; at = html.find("</", at + 2)) {
          if (lowercase_each(html.substr(at + 2, name.size())) == name) break;
        }
      }
    }
  }
  return most;
}

class PageReader {
 public:
  PageReader(std::string_view html, Document& document) : html_(html), document_(document) {}

  void read(const GumboNode* root) {
    // Pages nest no deeper than kDeepest, and each level takes little of the stack.
    visit(root);
  }

 private:
  struct Words {
    std::string text;
    bool picture = false;
    bool inline_only = true;
  };

  void visit(const GumboNode* node) {
    if (node->type != GUMBO_NODE_ELEMENT) return;
    const GumboElement& element = node->v.element;
    if (element.tag == GUMBO_TAG_HEAD) read_title(element);
    if (is_one_of(element.tag, kNoProse)) return;
    // An element with direct block children is descended into, so that text is not collected at every level.
    const bool lines = std::ranges::all_of(children(element), [](const GumboNode* child) {
      return child->type != GUMBO_NODE_ELEMENT || is_one_of(child->v.element.tag, kInline);
    });
    if (element.tag == GUMBO_TAG_P || (element.tag == GUMBO_TAG_DIV && lines)) {
      Words words;
      collect(element, words);
      if (element.tag == GUMBO_TAG_P || words.inline_only) {
        take(element, std::move(words));
        return;
      }
    }
    const auto inside = children(element);
    for (size_t i = 0; i < inside.size(); ++i) {
      const size_t found = document_.paragraphs.size();
      visit(inside[i]);
      // A paragraph followed by an image already has one.
      if (document_.paragraphs.size() == found + 1 && is_paragraph(inside[i]) &&
          is_picture(inside.subspan(i + 1))) {
        document_.paragraphs.pop_back();
      }
    }
  }

  static bool is_paragraph(const GumboNode* node) {
    return node->type == GUMBO_NODE_ELEMENT &&
           (node->v.element.tag == GUMBO_TAG_P || node->v.element.tag == GUMBO_TAG_DIV);
  }

  // Returns true if the first element is an image, a figure, or a paragraph with only images.
  static bool is_picture(std::span<GumboNode* const> nodes) {
    for (const GumboNode* node : nodes) {
      if (node->type == GUMBO_NODE_WHITESPACE || node->type == GUMBO_NODE_COMMENT) continue;
      if (node->type != GUMBO_NODE_ELEMENT) return false;
      if (node->v.element.tag == GUMBO_TAG_FIGURE || is_one_of(node->v.element.tag, kPictures)) return true;
      if (!is_paragraph(node)) return false;
      Words words;
      collect(node->v.element, words);
      return words.picture && collapse_white_space(words.text).find_first_not_of(' ') == std::string::npos;
    }
    return false;
  }

  static std::span<GumboNode* const> children(const GumboElement& element) {
    // NOLINTNEXTLINE(*-reinterpret-cast): the library's list of untyped pointers
    return {reinterpret_cast<GumboNode* const*>(element.children.data), element.children.length};
  }

  void read_title(const GumboElement& head) {
    for (const GumboNode* child : children(head)) {
      if (child->type != GUMBO_NODE_ELEMENT || child->v.element.tag != GUMBO_TAG_TITLE) continue;
      Words words;
      collect(child->v.element, words);
      if (document_.title.empty()) document_.title = collapse_white_space(words.text);
    }
  }

  static void collect(const GumboElement& element, Words& words) {
    for (const GumboNode* child : children(element)) {
      if (child->type == GUMBO_NODE_ELEMENT) {
        const GumboTag tag = child->v.element.tag;
        if (is_one_of(tag, kPictures)) words.picture = true;
        if (!is_one_of(tag, kInline)) words.inline_only = false;
        if (tag == GUMBO_TAG_BR) words.text += ' ';
        if (tag == GUMBO_TAG_SCRIPT || tag == GUMBO_TAG_STYLE || tag == GUMBO_TAG_SUP) continue;
        collect(child->v.element, words);
      } else if (child->type == GUMBO_NODE_TEXT || child->type == GUMBO_NODE_WHITESPACE) {
        words.text += child->v.text.text;
      }
    }
  }

  void take(const GumboElement& element, Words words) {
    if (words.picture || element.original_tag.length == 0) return;  // a <p> that only its end tag implies
    std::string text = collapse_white_space(words.text);
    text.erase(0, text.find_first_not_of(' '));
    if (text.empty()) return;
    document_.paragraphs.push_back(
        {std::move(text), std::min(end_of(element), html_.size()), 0, ParagraphKind::kProse});
  }

  // Returns the offset after the element's own end tag or, without one, after its contents. The tag that
  // ended it may belong to another element.
  static size_t end_of(const GumboElement& element) {
    const GumboStringPiece& close = element.original_end_tag;
    const std::string_view tag(close.data == nullptr ? "" : close.data, close.length);
    const std::string_view open(element.original_tag.data == nullptr ? "" : element.original_tag.data,
                                element.original_tag.length);
    const size_t name = open.find_first_of(" \t\r\n\f/>", 1);
    if (tag.size() > 2 && name != std::string_view::npos &&
        lowercase_each(tag.substr(2, name - 1)) == lowercase_each(open.substr(1, name - 1))) {
      return element.end_pos.offset + tag.size();
    }
    const auto inside = children(element);
    for (size_t i = inside.size(); i-- > 0;) {
      const GumboNode* last = inside[i];
      if (last->type == GUMBO_NODE_ELEMENT) return end_of(last->v.element);
      if (last->type != GUMBO_NODE_TEXT) continue;
      // The parser's text node may extend over tags that it ignores, such as </body>.
      const GumboText& words = last->v.text;
      const std::string_view piece(words.original_text.data, words.original_text.length);
      return words.start_pos.offset + std::min(piece.find("</"), piece.size());
    }
    return element.start_pos.offset + open.size();
  }

  std::string_view html_;
  Document& document_;
};

}  // namespace

Status find_html_paragraphs(const DecodedText& text, Document& document) {
  if (const int64_t depth = deepest(text.utf8); depth > kDeepest) {
    return fail(ErrorCode::kLimit, "elements within elements, {} deep, limit {}", depth, kDeepest);
  }
  const std::unique_ptr<GumboOutput, FreeOutput> output(
      gumbo_parse_with_options(&kGumboDefaultOptions, text.utf8.data(), text.utf8.size()));
  if (output == nullptr) return fail(ErrorCode::kBadData, "no HTML");
  PageReader(text.utf8, document).read(output->root);
  return {};
}

std::string declared_html_encoding(std::string_view bytes) {
  const std::string head = lowercase_each(bytes.substr(0, 1024));
  const size_t at = head.find("charset");
  const size_t meta = head.rfind("<meta", at);
  if (at == std::string::npos || meta == std::string::npos || head.find('>', meta) < at) return {};
  size_t begin = head.find_first_not_of(" \t\r\n", at + 7);
  if (begin == std::string::npos || head[begin] != '=') return {};
  begin = head.find_first_not_of(" \t\r\n\"'", begin + 1);
  if (begin == std::string::npos) return {};
  const size_t end = std::min(head.find_first_of(" \t\r\n\"'/;>", begin), head.size());
  const std::string name = head.substr(begin, end - begin);
  // UTF-16 is detected from the bytes themselves.
  return name.starts_with("utf-16") ? std::string() : name;
}

}  // namespace saccade
