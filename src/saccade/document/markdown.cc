// Extraction of running text from Markdown by cmark-gfm, which gives each block's lines.
#include <algorithm>
#include <array>
#include <cmark-gfm-core-extensions.h>
#include <cmark-gfm-extension_api.h>
#include <cmark-gfm.h>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "saccade/document/document.h"
#include "saccade/text/normalize.h"
#include "saccade/text/utf8.h"

namespace saccade {
namespace {

struct FreeParser {
  void operator()(cmark_parser* parser) const { cmark_parser_free(parser); }
};
struct FreeNode {
  void operator()(cmark_node* node) const { cmark_node_free(node); }
};
struct FreeEvents {
  void operator()(cmark_iter* events) const { cmark_iter_free(events); }
};
using Node = std::unique_ptr<cmark_node, FreeNode>;
using Events = std::unique_ptr<cmark_iter, FreeEvents>;

// Raw HTML is kept when a page is made: it is the document's own.
constexpr int kOptions = CMARK_OPT_FOOTNOTES | CMARK_OPT_UNSAFE;
// Maximum number of table columns.
constexpr int64_t kMostColumns = 1000;
// Maximum number of cells missing from the rows of a document's tables: these, and one for every 16 bytes. cmark-gfm
// fills short rows with empty cells, so that a few bytes of a wide table become a large tree.
constexpr int64_t kFreeMissingCells = 16'384;
constexpr int64_t kBytesAMissingCell = 16;
// Maximum number of steps, about 2 ns each, that cmark-gfm takes over paragraphs in search of tables' heads: these, and
// 16 for every byte. From each line of a paragraph above a head it goes back to the last bar, byte by byte. A line of
// "-" that begins no table makes it read the whole paragraph once more, 16 steps a byte.
constexpr int64_t kFreeSteps = int64_t{1} << 22;
constexpr int64_t kStepsAByte = 16;
constexpr int64_t kStepsAByteAgain = 16;
// Maximum sum, over all paragraphs, of bytes times signs of markup: this, and 2,048 for every byte of the document. With some
// signs cmark-gfm goes over a paragraph again for each of them: of 128 KiB of "_[^1]" it reads 18 KiB a second. A
// product of 1 takes 0.1 to 0.5 ns (0.29.0.gfm.6), so that a document stays below a quarter of a second and a
// microsecond a byte.
constexpr int64_t kFreeProduct = int64_t{1} << 29;
constexpr int64_t kProductAByte = 2048;

struct Parsed {
  std::unique_ptr<cmark_parser, FreeParser> parser;  // has the extensions that a renderer needs
  Node root;
};

// Returns the next line without its end, which is "\n", "\r" or both, and removes it from the text.
std::string_view take_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find_first_of("\r\n"));
  text.remove_prefix(line.size());
  text.remove_prefix(text.starts_with("\r\n") ? 2 : std::min<size_t>(text.size(), 1));
  return line;
}

// Returns true for a line that ends any paragraph and table: a blank one, also within a quotation.
bool is_blank(std::string_view line) {
  const size_t begin = line.find_first_not_of(' ');
  return line.find_first_not_of(" \t") == std::string_view::npos ||
         (begin <= 3 && line.find_first_not_of(" >") == std::string_view::npos);
}

// Returns true if both lines have the same number of cells; false if that is not certain.
bool have_equal_cells(std::string_view head, std::string_view line) {
  const auto text = [](std::string_view padded) {
    padded.remove_prefix(std::min(padded.find_first_not_of(" \t>"), padded.size()));
    return padded.substr(0, padded.find_last_not_of(" \t") + 1);
  };
  const std::string_view a = text(head);
  const std::string_view b = text(line);
  return a.starts_with('|') == b.starts_with('|') && a.ends_with('|') == b.ends_with('|') &&
         std::ranges::count(a, '|') == std::ranges::count(b, '|') && a.find('\\') == std::string_view::npos;
}

// Returns true if no table can exceed the limits above. A table begins with a line of "-" below its head and ends
// with a blank line at the latest. A line in between counts as a row of the widest table that has begun, whatever
// block it belongs to. The sums are thus upper bounds, except for two cells a row, as bars at a row's ends are
// optional.
bool has_bounded_tables(std::string_view markdown) {
  const int64_t size = std::ssize(markdown);
  int64_t missing = 0;
  int64_t steps = 0;
  int64_t widest = 0;         // number of bars in the widest table's second line since the last blank line
  int64_t bytes = 0;          // since the last blank line
  int64_t behind_bar = 0;     // bytes since the last bar or blank line
  int64_t steps_to_bars = 0;  // steps if a table begins here
  std::string_view before;    // the line above
  while (!markdown.empty()) {
    const std::string_view line = take_line(markdown);
    const int64_t bars = std::ranges::count(line, '|');
    if (bars > kMostColumns) return false;
    if (is_blank(line)) {
      widest = bytes = behind_bar = steps_to_bars = 0;
      continue;
    }
    missing += std::max<int64_t>(0, widest - bars);
    if (line.find_first_not_of("|:-> \t\v\f") == std::string_view::npos) {
      widest = std::max(widest, bars);
      steps += std::exchange(steps_to_bars, 0);
      if (bytes > 0 && !have_equal_cells(before, line)) steps += bytes * kStepsAByteAgain;
    }
    const int64_t length = std::ssize(line) + 1;
    bytes += length;
    behind_bar = bars > 0 ? length - static_cast<int64_t>(line.rfind('|')) : behind_bar + length;
    steps_to_bars += behind_bar;
    before = line;
    if (missing > kFreeMissingCells + size / kBytesAMissingCell) return false;
    if (steps > kFreeSteps + size * kStepsAByte) return false;
  }
  return true;
}

// Finds the beginnings of list items, at each of which a paragraph ends. Items that are indented by more than three spaces
// are left out, as are those that continue a paragraph.
class ListItems {
 public:
  // Returns true if the next line begins an item.
  bool begins(std::string_view line) {
    const size_t indent = std::min(line.find_first_not_of(' '), line.size());
    line.remove_prefix(indent);
    const size_t digits = std::min(line.find_first_not_of("0123456789"), line.size());
    const size_t marker = digits == 0 ? line.find_first_of("-+*") : line.find_first_of(".)", digits);
    if (indent > 3 || digits > 9 || marker != digits) return false;
    const std::string_view text = line.substr(marker + 1);
    // An empty item continues a paragraph.
    if (!text.starts_with(' ') || text.find_first_not_of(" \t") == std::string_view::npos) return false;
    // A number other than 1 continues a paragraph within an item, and one without a list above.
    if (digits > 0 && line.substr(0, digits) != "1" && static_cast<int64_t>(indent) > indent_) return false;
    indent_ = static_cast<int64_t>(indent);
    return true;
  }
  // A blank line may end the list.
  void end() { indent_ = -1; }

 private:
  int64_t indent_ = -1;  // of the last item
};

// Finds the rows of tables, each of which counts as a paragraph. Only tables whose lines begin with a bar are found, and
// none behind code or HTML, within which lines that look like rows are none.
class TableRows {
 public:
  // Returns true if the next line is a row below a table's second line.
  bool contains(std::string_view line) {
    const size_t indent = std::min(line.find_first_not_of(' '), line.size());
    const bool bar = indent <= 3 && line.substr(indent).starts_with('|');
    hidden_ |= line.substr(indent).starts_with('<') || line.find("```") != std::string_view::npos ||
               line.find("~~~") != std::string_view::npos;
    const bool row = in_table_ && bar && !hidden_;
    in_table_ = row || (bar && !hidden_ && before_ && have_equal_cells(*before_, line) &&
                        line.find('-') != std::string_view::npos &&
                        line.find_first_not_of("|:- ") == std::string_view::npos);
    before_.reset();
    if (bar) before_ = line;
    return row;
  }
  // A blank line ends a table.
  void end() {
    in_table_ = false;
    before_.reset();
  }

 private:
  std::optional<std::string_view> before_;  // the line above, if it begins with a bar
  bool in_table_ = false;
  bool hidden_ = false;
};

// Returns kLimit, with the largest paragraph's line, if the bound above is exceeded.
Status check_paragraphs(std::string_view markdown, bool tables) {
  struct Paragraph {
    int64_t line = 0;
    int64_t bytes = 0;
    int64_t signs = 0;
    [[nodiscard]] int64_t product() const { return bytes * signs; }
  };
  const int64_t most = kFreeProduct + std::ssize(markdown) * kProductAByte;
  int64_t sum = 0;
  Paragraph largest;
  Paragraph current;
  const auto end = [&] {
    sum += current.product();
    if (current.product() > largest.product()) largest = current;
    current = {};
  };
  ListItems items;
  TableRows rows;
  for (int64_t number = 1; !markdown.empty(); ++number) {
    const std::string_view line = take_line(markdown);
    if (is_blank(line)) {
      end();
      items.end();
      rows.end();
      continue;
    }
    const bool row = rows.contains(line) && tables;
    if (items.begins(line) || row) end();
    if (current.bytes == 0) current.line = number;
    current.bytes += std::ssize(line) + 1;
    current.signs += std::ranges::count_if(
        line, [](char c) { return std::string_view("_*~[<@:)").find(c) != std::string_view::npos; });
  }
  end();
  if (sum <= most) return {};
  return fail(
      ErrorCode::kLimit,
      "line {}: a paragraph of {} bytes with {} signs of markup takes too long to read; divide it by blank "
      "lines",
      largest.line, largest.bytes, largest.signs);
}

Result<Parsed> parse(std::string_view markdown) {
  static std::once_flag once;  // cmark-gfm's table of extensions is the process's
  std::call_once(once, [] { cmark_gfm_core_extensions_ensure_registered(); });
  Parsed parsed;
  parsed.parser.reset(cmark_parser_new(kOptions));
  const bool tables = has_bounded_tables(markdown);
  SACCADE_TRY(check_paragraphs(markdown, tables));
  for (const char* name : {"table", "strikethrough", "autolink", "tagfilter"}) {
    if (!tables && std::string_view(name) == "table") continue;
    cmark_syntax_extension* extension = cmark_find_syntax_extension(name);
    if (extension == nullptr) return fail(ErrorCode::kInternal, "cmark-gfm has no extension {}", name);
    cmark_parser_attach_syntax_extension(parsed.parser.get(), extension);
  }
  cmark_parser_feed(parsed.parser.get(), markdown.data(), markdown.size());
  parsed.root.reset(cmark_parser_finish(parsed.parser.get()));
  return parsed;
}

// Returns the length in bytes of the front matter: "---" or "+++" up to the same again ("..." ends the first
// too).
size_t front_matter(std::string_view text) {
  const std::string_view fence = text.substr(0, 3);
  if (fence != "---" && fence != "+++") return 0;
  bool first = true;
  for (size_t at = 0; at < text.size();) {
    const size_t stop = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, stop - at);
    while (!line.empty() && (line.back() == ' ' || line.back() == '\r')) line.remove_suffix(1);
    at = std::min(stop + 1, text.size());
    if (first && line != fence) return 0;
    // This is a horizontal rule followed by a paragraph.
    if (!first && line.empty() && fence == "---") return 0;
    if (!first && (line == fence || (fence == "---" && line == "..."))) return at;
    first = false;
  }
  return 0;
}

struct Words {
  std::string text;
  bool picture = false;
};

// Returns the readable text of a block, without addresses and footnote numbers. It is UTF-8: cmark-gfm cuts the label of
// a footnote that is not defined within a character.
Words words_of(cmark_node* block) {
  Words words;
  const Events events(cmark_iter_new(block));
  int skipped = 0;  // nesting depth inside images
  for (cmark_event_type event; (event = cmark_iter_next(events.get())) != CMARK_EVENT_DONE;) {
    cmark_node* node = cmark_iter_get_node(events.get());
    const cmark_node_type type = cmark_node_get_type(node);
    if (type == CMARK_NODE_IMAGE) {
      words.picture = true;
      skipped += event == CMARK_EVENT_ENTER ? 1 : -1;
    } else if (skipped > 0) {
      continue;
    } else if (type == CMARK_NODE_TEXT || type == CMARK_NODE_CODE) {
      words.text += cmark_node_get_literal(node);
    } else if (type == CMARK_NODE_SOFTBREAK || type == CMARK_NODE_LINEBREAK) {
      words.text += ' ';
    } else if (type == CMARK_NODE_HTML_INLINE) {
      const std::string tag = lowercase_each(std::string_view(cmark_node_get_literal(node)).substr(0, 8));
      if (tag.starts_with("<img") || tag.starts_with("<svg") || tag.starts_with("<picture"))
        words.picture = true;
      if (tag.starts_with("<br")) words.text += ' ';
    }
  }
  words.text = to_valid_utf8(words.text);
  return words;
}

// Returns true for a paragraph with only images: it illustrates the paragraph before it.
bool is_picture(cmark_node* node) {
  if (node == nullptr || cmark_node_get_type(node) != CMARK_NODE_PARAGRAPH) return false;
  const Words words = words_of(node);
  return words.picture && words.text.find_first_not_of(" \t") == std::string::npos;
}

// Returns the offset of each line, and the end of the text.
std::vector<size_t> line_begins(std::string_view text) {
  std::vector<size_t> begins = {0};
  for (size_t at = 0; at < text.size(); ++at) {
    const bool ends =
        text[at] == '\n' || (text[at] == '\r' && (at + 1 == text.size() || text[at + 1] != '\n'));
    if (ends) begins.push_back(at + 1);
  }
  if (begins.back() != text.size()) begins.push_back(text.size());
  return begins;
}

}  // namespace

Status find_markdown_paragraphs(const DecodedText& text, Document& document) {
  const size_t skipped = front_matter(text.utf8);
  const std::string_view markdown = std::string_view(text.utf8).substr(skipped);
  SACCADE_ASSIGN(const Parsed parsed, parse(markdown));
  const std::vector<size_t> begins = line_begins(markdown);
  for (cmark_node* node = cmark_node_first_child(parsed.root.get()); node != nullptr;
       node = cmark_node_next(node)) {
    const cmark_node_type type = cmark_node_get_type(node);
    if (type == CMARK_NODE_HEADING && document.title.empty()) document.title = words_of(node).text;
    if (type != CMARK_NODE_PARAGRAPH) continue;
    // Text directly above a table, which the parser separates from the table's head, has no lines of its own.
    // Nothing can be inserted between the two.
    const auto first = static_cast<size_t>(cmark_node_get_start_line(node));
    const auto last = static_cast<size_t>(cmark_node_get_end_line(node));
    if (first < 1 || last < first || last >= begins.size()) continue;
    cmark_node* next = cmark_node_next(node);
    const int behind = next == nullptr ? 0 : cmark_node_get_start_line(next);
    if (behind > 0 && static_cast<size_t>(behind) <= last &&
        cmark_node_get_type(next) != CMARK_NODE_FOOTNOTE_DEFINITION)
      continue;
    Words words = words_of(node);
    if (words.picture || is_picture(next)) continue;
    document.paragraphs.push_back({std::move(words.text), skipped + begins[last], 0, ParagraphKind::kProse});
  }
  return {};
}

Result<std::string> render_markdown(std::string_view markdown) {
  markdown.remove_prefix(front_matter(markdown));
  SACCADE_ASSIGN(const Parsed parsed, parse(markdown));
  const std::unique_ptr<char, void (*)(void*)> html(
      cmark_render_html(parsed.root.get(), kOptions, cmark_parser_get_syntax_extensions(parsed.parser.get())),
      &free);
  return to_valid_utf8(html.get());
}

}  // namespace saccade
