#include "saccade/document/page_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "saccade/core/ascii.h"
#include "saccade/text/normalize.h"
#include "saccade/text/utf8.h"

namespace saccade::document {
namespace {

// Decodes the five entities that pdftotext writes.
std::string without_entities(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, char>, 5> kEntities = {
      {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}}};
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const auto* const entity = std::ranges::find_if(
        kEntities, [&](const auto& each) { return text.substr(at).starts_with(each.first); });
    result += entity == kEntities.end() ? text[at] : entity->second;
    at += entity == kEntities.end() ? 1 : entity->first.size();
  }
  return result;
}

Result<double> attribute(std::string_view element, std::string_view name) {
  const std::string key = fmt::format(" {}=\"", name);
  const size_t at = element.find(key);
  if (at != std::string_view::npos) {
    const std::string_view rest = element.substr(at + key.size());
    double value = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (error == std::errc() && std::isfinite(value)) return value;
  }
  return fail(ErrorCode::kBadData, "pdftotext wrote {} without a number {}", element.substr(0, 80), name);
}

// Replaces ligatures by their letters and removes soft hyphens inside words.
std::string plain_letters(std::string_view text) {
  constexpr std::array<std::string_view, 7> kLigatures = {"ff", "fi", "fl", "ffi", "ffl", "st", "st"};
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t code = next_code_point(text, at);
    if (code >= 0xfb00 && code <= 0xfb06) {
      result += kLigatures[code - 0xfb00];
    } else if (code >= 0x20 && code != 0x7f && (code != 0xad || at == text.size())) {
      result += text.substr(begin, at - begin);
    }
  }
  return result;
}

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (static_cast<unsigned char>(c) & 0x80) != 0;
}

bool begins_in_lower_case(std::string_view text) {
  if (text.empty() || !is_letter(text.front())) return false;
  size_t end = 0;
  const char32_t code = next_code_point(text, end);
  // Quotes, dashes and bullets have no case.
  if ((code >= 0x80 && code < 0xc0) || (code >= 0x2000 && code < 0x2e80)) return false;
  const std::string_view first = text.substr(0, end);
  return lowercase_each(first) == first;
}

// Returns the word in lower case, without punctuation around it.
std::string plain_word(std::string_view word) {
  while (!word.empty() && !is_letter(word.front())) word.remove_prefix(1);
  while (!word.empty() && !is_letter(word.back())) word.remove_suffix(1);
  // Curly quotes and dashes are not ASCII, and are stripped at both ends of a word.
  for (const std::string_view sign : {"\u2018", "\u2019", "\u201c", "\u201d", "\u2013", "\u2014"}) {
    if (word.starts_with(sign)) word.remove_prefix(sign.size());
    if (word.ends_with(sign)) word.remove_suffix(sign.size());
  }
  return lowercase_each(word);
}

// Returns the length in bytes of a final hyphen ("-", U+2010 or U+00AD); 0 if none follows a letter.
size_t hyphen_at_end(std::string_view text) {
  for (const std::string_view hyphen : {"-", "\u2010", "\u00ad"}) {
    if (text.size() > hyphen.size() && text.ends_with(hyphen) &&
        is_letter(text[text.size() - hyphen.size() - 1])) {
      return hyphen.size();
    }
  }
  return 0;
}

}  // namespace

Vocabulary vocabulary_of(const std::vector<TextPage>& pages) {
  Vocabulary words;
  for (const TextPage& page : pages) {
    for (const TextBlock& block : page.blocks) {
      bool divided = false;
      for (const PageLine& line : block) {
        std::vector<std::string_view> on_line = split_ascii(line.text);
        const bool divides = hyphen_at_end(line.text) > 0;
        if (divides && !on_line.empty()) on_line.pop_back();
        for (size_t i = divided ? 1 : 0; i < on_line.size(); ++i) words.insert(plain_word(on_line[i]));
        divided = divides;
      }
    }
  }
  return words;
}

namespace {

// Returns true if a word divided at a line's end is spelled with that hyphen.
bool keeps_hyphen(std::string_view before, std::string_view behind, const Vocabulary& words) {
  const std::string first = plain_word(before);
  const std::string second = plain_word(behind);
  if (words.contains(first + "-" + second)) return true;
  if (words.contains(first + second)) return false;
  constexpr size_t kShortest = 3;  // "in-" and "re-" are words too
  return first.size() >= kShortest && second.size() >= kShortest && words.contains(first) &&
         words.contains(second);
}

}  // namespace

void append_line(std::string& paragraph, std::string_view line, const Vocabulary& words) {
  if (line.empty()) return;
  const size_t hyphen = hyphen_at_end(paragraph);
  if (hyphen == 0 || !is_letter(line.front())) {
    if (!paragraph.empty()) paragraph += ' ';
  } else if (begins_in_lower_case(line)) {
    const std::string_view so_far = std::string_view(paragraph).substr(0, paragraph.size() - hyphen);
    const bool soft = paragraph.ends_with("\u00ad");
    const bool keeps = !soft && keeps_hyphen(split_ascii(so_far).back(), split_ascii(line).front(), words);
    paragraph.resize(paragraph.size() - hyphen);
    if (keeps) paragraph += '-';
  }
  paragraph += line;
}

namespace {

// Removes a list item's bullet; returns true if there was one.
bool take_bullet(std::string_view& line) {
  for (const std::string_view bullet :
       {"\u2022", "\u2023", "\u25e6", "\u25aa", "\u25cf", "\u25cb", "\u25a0"}) {
    if (!line.starts_with(bullet)) continue;
    line = trim_ascii(line.substr(bullet.size()));
    return true;
  }
  return false;
}

bool goes_on(std::string_view paragraph, const TextBlock& next) {
  if (paragraph.empty() || next.empty()) return false;
  constexpr std::string_view kEnds = ".!?:;";
  return kEnds.find(paragraph.back()) == std::string_view::npos && begins_in_lower_case(next.front().text);
}

// Checks for a Roman numeral up to 399 in standard form: "xiv", but not "civil".
bool is_roman(std::string_view word) {
  // Signs of one decimal place, with longer ones before their prefixes. Empty entries stand for zero.
  using Signs = std::array<std::string_view, 10>;
  constexpr std::array<Signs, 3> kPlaces = {{{"ccc", "cc", "c"},
                                             {"lxxx", "lxx", "lx", "l", "xl", "xc", "xxx", "xx", "x"},
                                             {"viii", "vii", "vi", "v", "iv", "ix", "iii", "ii", "i"}}};
  if (word.empty()) return false;
  for (const Signs& signs : kPlaces) {
    word.remove_prefix(
        std::ranges::find_if(signs, [&](std::string_view sign) { return word.starts_with(sign); })->size());
  }
  return word.empty();
}

// Returns a key that is equal for lines repeated on every page; numbers become "#".
std::string edge_key(std::string_view text) {
  const std::string lower = lowercase_each(text);
  std::string key;
  for (const std::string_view word : split_ascii(lower)) {
    if (!key.empty()) key += ' ';
    if (is_roman(word)) {
      key += '#';
      continue;
    }
    for (const char c : word) {
      const bool digit = c >= '0' && c <= '9';
      if (!digit) key += c;
      if (digit && !key.ends_with('#')) key += '#';
    }
  }
  return key;
}

// Checks for a page number with only punctuation and its usual words: "12", "- 12 -", "Page 3 of 10".
bool is_page_number(std::string_view key) {
  bool number = false;
  for (const std::string_view word : split_ascii(key)) {
    if (word == "page" || word == "of" || word == "p." || word == "p") continue;
    if (std::ranges::any_of(word, is_letter)) return false;
    number = number || word.find('#') != std::string_view::npos;
  }
  return number;
}

struct Place {
  size_t block = 0;
  size_t line = 0;
};

// Returns the lines of the outermost `rows` rows; lines at one height are one row.
std::vector<Place> edge_of(const TextPage& page, bool upper, int rows) {
  std::vector<std::pair<double, Place>> lines;  // by distance from the edge
  for (size_t b = 0; b < page.blocks.size(); ++b) {
    for (size_t l = 0; l < page.blocks[b].size(); ++l) {
      const PageLine& line = page.blocks[b][l];
      lines.push_back({upper ? line.top : -line.bottom, {b, l}});
    }
  }
  std::ranges::stable_sort(lines, {}, &std::pair<double, Place>::first);
  constexpr double kSameRow = 4;  // points
  std::vector<Place> edge;
  std::optional<double> row;
  for (const auto& [distance, place] : lines) {
    if (!row || distance > *row + kSameRow) {
      if (rows-- == 0) break;
      row = distance;
    }
    edge.push_back(place);
  }
  return edge;
}

struct Box {
  size_t block = 0;
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;
};

// Moves the boxes before the first gap along one axis to the front, in their order. Returns their number; 0
// if there is no gap.
size_t cut(std::span<Box> boxes, double Box::*begin, double Box::*end) {
  constexpr double kOverlap = 1;  // points: letters reach out of their lines
  std::vector<Box> sorted(boxes.begin(), boxes.end());
  std::ranges::stable_sort(sorted, {}, begin);
  double reached = sorted.front().*end;
  for (size_t i = 1; i < sorted.size(); ++i) {
    const double border = sorted[i].*begin;
    if (border > reached - kOverlap) {
      std::stable_partition(boxes.begin(), boxes.end(), [&](const Box& box) { return box.*begin < border; });
      return i;
    }
    reached = std::max(reached, sorted[i].*end);
  }
  return 0;
}

void order(std::span<Box> boxes) {
  while (boxes.size() > 1) {
    size_t first = cut(boxes, &Box::left, &Box::right);
    if (first == 0) first = cut(boxes, &Box::top, &Box::bottom);
    if (first == 0) return;
    order(boxes.first(first));
    boxes = boxes.subspan(first);
  }
}

}  // namespace

Result<std::vector<TextPage>> parse_bbox_layout(std::string_view text) {
  std::vector<TextPage> pages;
  const auto wrong = [](std::string_view line) {
    return fail(ErrorCode::kBadData, "pdftotext wrote {} where it does not belong", line.substr(0, 80));
  };
  for (const std::string_view whole : Lines(text)) {
    const std::string_view line = trim_ascii(whole);
    if (line.starts_with("<page ")) {
      pages.emplace_back();
    } else if (line.starts_with("<block ")) {
      if (pages.empty()) return wrong(line);
      pages.back().blocks.emplace_back();
    } else if (line.starts_with("<line ")) {
      if (pages.empty() || pages.back().blocks.empty()) return wrong(line);
      SACCADE_ASSIGN(const double top, attribute(line, "yMin"));
      SACCADE_ASSIGN(const double bottom, attribute(line, "yMax"));
      SACCADE_ASSIGN(const double left, attribute(line, "xMin"));
      SACCADE_ASSIGN(const double right, attribute(line, "xMax"));
      pages.back().blocks.back().push_back({"", top, bottom, left, right});
    } else if (line.starts_with("<word ")) {
      if (pages.empty() || pages.back().blocks.empty() || pages.back().blocks.back().empty())
        return wrong(line);
      const size_t begin = line.find('>');
      const size_t close = line.rfind("</word>");
      if (begin == std::string_view::npos || close == std::string_view::npos || close <= begin)
        return wrong(line);
      const std::string word =
          plain_letters(to_valid_utf8(without_entities(line.substr(begin + 1, close - begin - 1))));
      std::string& so_far = pages.back().blocks.back().back().text;
      if (!so_far.empty() && !word.empty()) so_far += ' ';
      so_far += word;
    }
  }
  for (TextPage& page : pages) {
    for (TextBlock& block : page.blocks) {
      for (PageLine& line : block) line.text = trim_ascii(collapse_white_space(to_nfc(std::move(line.text))));
      std::erase_if(block, [](const PageLine& line) { return line.text.empty(); });
    }
    std::erase_if(page.blocks, [](const TextBlock& block) { return block.empty(); });
  }
  return pages;
}

int64_t drop_edge_lines(std::vector<TextPage>& pages) {
  constexpr int kRows = 2;
  constexpr size_t kPages = 3;
  const size_t enough = pages.size() == 2 ? 2 : kPages;
  std::map<std::pair<bool, std::string>, std::set<size_t>> where;  // (upper, key) -> pages
  const auto for_each_edge_line = [&](auto visit) {
    for (size_t p = 0; p < pages.size(); ++p) {
      for (const bool upper : {true, false}) {
        for (const Place& place : edge_of(pages[p], upper, kRows)) {
          PageLine& line = pages[p].blocks[place.block][place.line];
          visit(p, upper, line, edge_key(line.text));
        }
      }
    }
  };
  for_each_edge_line([&](size_t p, bool upper, const PageLine&, const std::string& key) {
    where[{upper, key}].insert(p);
  });
  // Lines are marked first, so that removals on one side do not shift the rows of the other.
  std::set<const PageLine*> dropped;
  for_each_edge_line([&](size_t, bool upper, const PageLine& line, const std::string& key) {
    if (is_page_number(key) || where[{upper, key}].size() >= enough) dropped.insert(&line);
  });
  for (TextPage& page : pages) {
    for (TextBlock& block : page.blocks) {
      TextBlock kept;
      for (PageLine& line : block) {
        if (!dropped.contains(&line)) kept.push_back(std::move(line));
      }
      block = std::move(kept);
    }
    std::erase_if(page.blocks, [](const TextBlock& block) { return block.empty(); });
  }
  return static_cast<int64_t>(dropped.size());
}

void order_blocks(std::vector<TextPage>& pages) {
  constexpr size_t kMost = 500;  // blocks: a page of more is a table or a drawing, and cutting is quadratic
  for (TextPage& page : pages) {
    if (page.blocks.size() > kMost) continue;
    std::vector<Box> boxes;
    for (size_t b = 0; b < page.blocks.size(); ++b) {
      const PageLine& first = page.blocks[b].front();
      Box box{b, first.left, first.top, first.right, first.bottom};
      for (const PageLine& line : page.blocks[b]) {
        box.left = std::min(box.left, line.left);
        box.top = std::min(box.top, line.top);
        box.right = std::max(box.right, line.right);
        box.bottom = std::max(box.bottom, line.bottom);
      }
      boxes.push_back(box);
    }
    order(boxes);
    std::vector<TextBlock> ordered;
    for (const Box& box : boxes) ordered.push_back(std::move(page.blocks[box.block]));
    page.blocks = std::move(ordered);
  }
}

std::vector<std::vector<std::string>> join_paragraphs(const std::vector<TextPage>& pages) {
  const Vocabulary words = vocabulary_of(pages);
  std::vector<std::vector<std::string>> result;
  for (const TextPage& page : pages) {
    std::vector<std::string>& paragraphs = result.emplace_back();
    for (const TextBlock& block : page.blocks) {
      if (paragraphs.empty() || !goes_on(paragraphs.back(), block)) paragraphs.emplace_back();
      for (const PageLine& line : block) {
        std::string_view text = line.text;
        if (take_bullet(text)) paragraphs.emplace_back();
        append_line(paragraphs.back(), text, words);
      }
    }
    std::erase(paragraphs, "");
  }
  return result;
}

}  // namespace saccade::document
