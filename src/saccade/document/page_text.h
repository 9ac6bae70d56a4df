// From the lines that stand on pages to paragraphs of running text.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"

namespace saccade::document {

struct PageLine {
  std::string text;
  double top = 0;  // from the page's upper edge, in points
  double bottom = 0;
  double left = 0;  // from the page's left edge
  double right = 0;
};

// Lines that belong together, as pdftotext sees it: a paragraph, or several of one column.
using TextBlock = std::vector<PageLine>;

struct TextPage {
  std::vector<TextBlock> blocks;
};

// What `pdftotext -bbox-layout` writes. Entities are resolved; ill-formed UTF-8 becomes U+FFFD. kBadData
// where an element that it writes on a line of its own is not as expected. Linear.
Result<std::vector<TextPage>> parse_bbox_layout(std::string_view text);

// Removes what stands in the two upper or the two lower rows of a page and is a page number, or stands so on
// three pages or more (of a document of two pages: on both), numbers aside. Says how many lines.
int64_t drop_edge_lines(std::vector<TextPage>& pages);

// Puts each page's blocks into reading order. Where white space runs down between blocks, all that is left
// of it comes first; else what is above the uppermost white space across comes first, and the rest is
// looked at anew (recursive XY-cuts). Where there is neither, pdftotext's order stays: it starts with
// whatever column begins higher.
void order_blocks(std::vector<TextPage>& pages);

// Each page's paragraphs: a block's lines joined by spaces, a block that goes on in the next one (no stop at
// its end, lower case at the other's beginning) joined with it. A bullet goes, and begins a paragraph. A
// hyphen at a line's end goes, and the word is joined, unless the document has the word with a hyphen
// elsewhere, or both its parts as words and not the joined word.
std::vector<std::vector<std::string>> join_paragraphs(const std::vector<TextPage>& pages);

// Words in lower case that stand whole on a line.
using Vocabulary = std::set<std::string, std::less<>>;
Vocabulary vocabulary_of(const std::vector<TextPage>& pages);
// Joins a line to a paragraph, as join_paragraphs does.
void append_line(std::string& paragraph, std::string_view line, const Vocabulary& words);

}  // namespace saccade::document
