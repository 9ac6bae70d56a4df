#include "saccade/document/document.h"

#include <algorithm>
#include <array>
#include <utility>

#include "saccade/core/ascii.h"
#include "saccade/core/files/files.h"
#include "saccade/document/page_text.h"
#include "saccade/text/normalize.h"

namespace saccade {
namespace {

bool begins_with_word(std::string_view text, std::string_view word) {
  return lowercase_each(text.substr(0, word.size())) == word;
}

// Detects "2.1", "A.3.", "2.1.2 CPU Support": a section number of two levels or more, alone or before a few
// words.
bool is_heading(std::string_view line, bool& number_alone) {
  constexpr size_t kLongest = 80;
  size_t at = 0;
  int levels = 0;
  while (at < line.size()) {
    const size_t begin = at;
    while (at < line.size() && line[at] >= '0' && line[at] <= '9') ++at;
    if (at == begin && levels == 0 && line[at] >= 'A' && line[at] <= 'Z') ++at;  // letter of an appendix
    if (at == begin || at - begin > 3) break;
    ++levels;
    if (at >= line.size() || line[at] != '.') break;
    ++at;
  }
  number_alone = at == line.size();
  if (levels < 2) return false;
  if (number_alone) return true;
  const bool ends = std::string_view(".,;:!?").find(line.back()) != std::string_view::npos;
  return line[at] == ' ' && line.size() <= kLongest && !ends;
}

// Returns true if a paragraph may be the title that belongs to a preceding number.
bool may_be_title(std::string_view text) {
  constexpr size_t kLongest = 80;
  return !text.empty() && text.size() <= kLongest &&
         std::string_view(".,;:!?").find(text.back()) == std::string_view::npos;
}

// Marks headings, and joins a separate section number with its title.
void find_headings(std::vector<DocumentParagraph>& paragraphs) {
  std::vector<DocumentParagraph> result;
  bool number_before = false;
  for (DocumentParagraph& paragraph : paragraphs) {
    bool number_alone = false;
    const bool one_line =
        paragraph.kind == ParagraphKind::kProse && paragraph.text.find('\n') == std::string::npos;
    if (number_before && one_line && may_be_title(paragraph.text) &&
        !is_heading(paragraph.text, number_alone)) {
      result.back().text += " " + paragraph.text;
      result.back().end = paragraph.end;
      number_before = false;
      continue;
    }
    const bool heading = one_line && is_heading(paragraph.text, number_alone);
    if (heading) paragraph.kind = ParagraphKind::kHeading;
    number_before = heading && number_alone;
    result.push_back(std::move(paragraph));
  }
  paragraphs = std::move(result);
}

Result<Document> from_pdf(const std::filesystem::path& file, const DocumentOptions& options,
                          const std::stop_token& stop) {
  SACCADE_ASSIGN(const PdfPrograms programs, PdfPrograms::find());
  SACCADE_ASSIGN(PdfDocument pdf, read_pdf(programs, file, options.pdf, false, stop));
  Document document;
  document.format = DocumentFormat::kPdf;
  document.pages_left_out = pdf.pages_left_out;
  for (PdfPage& page : pdf.pages) {
    for (std::string& text : page.paragraphs) {
      document.paragraphs.push_back({std::move(text), 0, page.number, ParagraphKind::kProse});
    }
  }
  find_headings(document.paragraphs);
  return document;
}

}  // namespace

std::span<const EnumName<DocumentFormat>> enum_names(DocumentFormat) {
  static constexpr std::array<EnumName<DocumentFormat>, 4> kWords = {{{DocumentFormat::kText, "text"},
                                                                      {DocumentFormat::kMarkdown, "markdown"},
                                                                      {DocumentFormat::kHtml, "html"},
                                                                      {DocumentFormat::kPdf, "pdf"}}};
  return kWords;
}

DocumentFormat document_format(std::string_view beginning, const std::filesystem::path& name) {
  if (beginning.substr(0, 1024).find("%PDF-") != std::string_view::npos) return DocumentFormat::kPdf;
  const std::string ending = lowercase_each(name.extension().string());
  constexpr std::array<std::pair<std::string_view, DocumentFormat>, 9> kEndings = {
      {{".md", DocumentFormat::kMarkdown},
       {".markdown", DocumentFormat::kMarkdown},
       {".mkd", DocumentFormat::kMarkdown},
       {".html", DocumentFormat::kHtml},
       {".htm", DocumentFormat::kHtml},
       {".xhtml", DocumentFormat::kHtml},
       {".pdf", DocumentFormat::kPdf},
       {".txt", DocumentFormat::kText},
       {".text", DocumentFormat::kText}}};
  for (const auto& [word, format] : kEndings) {
    if (ending == word) return format;
  }
  beginning.remove_prefix(std::min(beginning.find_first_not_of(kAsciiSpace), beginning.size()));
  if (begins_with_word(beginning, "<!doctype html") || begins_with_word(beginning, "<html")) {
    return DocumentFormat::kHtml;
  }
  return DocumentFormat::kText;
}

Result<Document> parse_document(std::string bytes, DocumentFormat format) {
  Document document;
  document.format = format;
  const std::string declared =
      format == DocumentFormat::kHtml ? declared_html_encoding(bytes) : std::string();
  SACCADE_ASSIGN(DecodedText text, decode_text(bytes, declared));
  document.encoding = text.encoding;
  document.source = std::move(bytes);
  if (text.encoding == TextEncoding::kUtf16Le || text.encoding == TextEncoding::kUtf16Be) {
    document.source = text.utf8;
    text.mark = 0;
  }
  switch (format) {
    case DocumentFormat::kMarkdown:
      SACCADE_TRY(find_markdown_paragraphs(text, document));
      break;
    case DocumentFormat::kHtml:
      SACCADE_TRY(find_html_paragraphs(text, document));
      break;
    default:
      find_text_paragraphs(text, document);
  }
  for (DocumentParagraph& paragraph : document.paragraphs) {
    paragraph.end = std::min(text.source_offset(paragraph.end), document.source.size());
  }
  return document;
}

Result<Document> read_document(const std::filesystem::path& file, const DocumentOptions& options,
                               const std::stop_token& stop) {
  // A PDF may exceed the size limit of texts; Poppler's programs read it themselves.
  std::string bytes;
  auto whole = read_file(file, options.max_bytes);
  const bool named_pdf = document_format({}, file) == DocumentFormat::kPdf;
  if (whole) {
    bytes = *std::move(whole);
  } else if (whole.error().code != ErrorCode::kLimit || !named_pdf) {
    return fail(std::move(whole).error());
  }
  const DocumentFormat format = options.format.value_or(document_format(bytes, file));
  if (format == DocumentFormat::kPdf) return from_pdf(file, options, stop).in(file.string());
  if (bytes.empty()) return fail(ErrorCode::kBadData, "{} is empty", file.string());
  return parse_document(std::move(bytes), format).in(file.string());
}

namespace {

// Mean line length below which line breaks are intentional (verse, an address). Longer lines are wrapped
// text.
constexpr size_t kShortLine = 45;

// Returns true if a line is laid out with spaces: indented far to the right, or with gaps inside.
bool is_set(std::string_view line) {
  const std::string_view words = trim_ascii(line);
  const std::string_view before = line.substr(0, static_cast<size_t>(words.data() - line.data()));
  return words.find("   ") != std::string_view::npos || words.find('\t') != std::string_view::npos ||
         before.size() >= 20 || before.find("\t\t") != std::string_view::npos;
}

// Lines of a paragraph, and the offset after the last one.
struct ParagraphLines {
  std::vector<std::string_view> lines;
  size_t end = 0;
};

std::vector<ParagraphLines> paragraphs_of(std::string_view all) {
  std::vector<ParagraphLines> paragraphs;
  bool inside = false;
  for (size_t at = 0; at < all.size();) {
    // LF, CR LF, or CR.
    const size_t stop = std::min(all.find_first_of("\r\n", at), all.size());
    const size_t next = std::min(stop + (all.substr(stop, 2) == "\r\n" ? 2 : 1), all.size());
    const std::string_view line = all.substr(at, stop - at);
    const bool words = !trim_ascii(line).empty();
    if (words) {
      if (!inside) paragraphs.emplace_back();
      paragraphs.back().lines.push_back(line);
      paragraphs.back().end = next;
    }
    inside = words;
    at = next;
  }
  return paragraphs;
}

bool is_set(const ParagraphLines& paragraph) {
  const auto set = std::ranges::count_if(paragraph.lines, [](std::string_view line) { return is_set(line); });
  return 2 * set >= std::ssize(paragraph.lines);
}

DocumentParagraph paragraph_of(const ParagraphLines& from, const document::Vocabulary& words) {
  DocumentParagraph paragraph;
  paragraph.end = from.end;
  const auto& lines = from.lines;
  if (is_set(from)) {
    paragraph.kind = ParagraphKind::kSet;
    for (const std::string_view line : lines) {
      if (!paragraph.text.empty()) paragraph.text += '\n';
      paragraph.text += line.substr(0, line.find_last_not_of(kAsciiSpace) + 1);
    }
    return paragraph;
  }
  size_t length = 0;
  for (size_t i = 0; i + 1 < lines.size(); ++i) length += trim_ascii(lines[i]).size();
  const bool own_lines = length < kShortLine * (lines.size() - 1);
  for (const std::string_view line : lines) {
    const std::string text = collapse_white_space(trim_ascii(line));
    if (!own_lines) {
      document::append_line(paragraph.text, text, words);
    } else {
      paragraph.text += (paragraph.text.empty() ? "" : "\n") + text;
    }
  }
  return paragraph;
}

}  // namespace

// Splits a text at blank lines. A paragraph laid out with spaces (a table, a listing) is not running text.
void find_text_paragraphs(const DecodedText& text, Document& document) {
  const std::vector<ParagraphLines> paragraphs = paragraphs_of(text.utf8);
  // Undivided words of the document decide about words divided at line ends.
  std::vector<document::TextPage> page(1);
  for (const ParagraphLines& paragraph : paragraphs) {
    document::TextBlock& block = page[0].blocks.emplace_back();
    for (const std::string_view line : paragraph.lines)
      block.push_back({.text = std::string(trim_ascii(line))});
  }
  const document::Vocabulary words = document::vocabulary_of(page);
  for (const ParagraphLines& paragraph : paragraphs)
    document.paragraphs.push_back(paragraph_of(paragraph, words));
  find_headings(document.paragraphs);
}

}  // namespace saccade
