// Conversion of text lines on pages into paragraphs of running text.
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

// Block of lines as detected by pdftotext: a paragraph, or several of one column.
using TextBlock = std::vector<PageLine>;

struct TextPage {
  std::vector<TextBlock> blocks;
};

// Parses the output of `pdftotext -bbox-layout`. Resolves entities; ill-formed UTF-8 becomes U+FFFD. Returns
// kBadData if an element on a line of its own is not as expected. Cost: linear.
Result<std::vector<TextPage>> parse_bbox_layout(std::string_view text);

// Removes page numbers and repeated lines from the two top and two bottom rows of each page. A line is
// repeated if it occurs on three pages or more (or on both of two pages), with numbers ignored. Returns the
// number of removed lines.
int64_t drop_edge_lines(std::vector<TextPage>& pages);

// Sorts each page's blocks into reading order by recursive XY-cuts. At a vertical gap between blocks,
// everything left of it comes first. Otherwise everything above the uppermost horizontal gap comes first, and
// the rest is cut again. Without any gap, pdftotext's order is kept: it starts with the column that begins
// higher.
void order_blocks(std::vector<TextPage>& pages);

// Returns each page's paragraphs. A block's lines are joined by spaces. Two blocks are joined if the first
// has no stop at its end and the second begins in lower case. A bullet is removed and begins a paragraph. A
// hyphen at a line's end is removed, and the word is joined. The hyphen is kept if the document has the word
// with a hyphen elsewhere, or has both parts as words but not the joined word.
std::vector<std::vector<std::string>> join_paragraphs(const std::vector<TextPage>& pages);

// Words in lower case that occur undivided on a line.
using Vocabulary = std::set<std::string, std::less<>>;
Vocabulary vocabulary_of(const std::vector<TextPage>& pages);
// Appends a line to a paragraph by the rules of join_paragraphs.
void append_line(std::string& paragraph, std::string_view line, const Vocabulary& words);

}  // namespace saccade::document
