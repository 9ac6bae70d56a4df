#include "saccade/data/document/document.h"

#include <algorithm>
#include <array>
#include <utility>

#include "saccade/core/files.h"
#include "saccade/text/normalize.h"

namespace saccade {
namespace {

constexpr std::string_view kSpace = " \t\r\n\f\v";

bool begins_with_word(std::string_view text, std::string_view word) {
  return lowercase_each(text.substr(0, word.size())) == word;
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
      document.paragraphs.push_back({std::move(text), 0, page.number, true});
    }
  }
  return document;
}

}  // namespace

std::span<const EnumWord<DocumentFormat>> enum_words(DocumentFormat) {
  static constexpr std::array<EnumWord<DocumentFormat>, 4> kWords = {{{DocumentFormat::kText, "text"},
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
  beginning.remove_prefix(std::min(beginning.find_first_not_of(kSpace), beginning.size()));
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
  // A PDF may be larger than what is read of a text; its programs read it themselves.
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

// Lines shorter than this on the mean are ended by whoever wrote them: verse, an address. Others are wrapped.
constexpr size_t kShortLine = 45;

std::string_view trimmed(std::string_view line) {
  const size_t first = line.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return line.substr(first, line.find_last_not_of(kSpace) + 1 - first);
}

// Whether a line is set with spaces: far to the right, or with gaps inside.
bool is_set(std::string_view line) {
  const std::string_view words = trimmed(line);
  const std::string_view before = line.substr(0, static_cast<size_t>(words.data() - line.data()));
  return words.find("   ") != std::string_view::npos || words.find('\t') != std::string_view::npos ||
         before.size() >= 20 || before.find("\t\t") != std::string_view::npos;
}

DocumentParagraph paragraph_of(std::span<const std::string_view> lines, size_t end) {
  const auto set = std::ranges::count_if(lines, is_set);
  size_t length = 0;
  for (const std::string_view line : lines.first(lines.size() - 1)) length += trimmed(line).size();
  DocumentParagraph paragraph;
  paragraph.end = end;
  paragraph.prose = 2 * set < std::ssize(lines);
  const bool own_lines = !paragraph.prose || length < kShortLine * (lines.size() - 1);
  for (const std::string_view& line : lines) {
    if (&line != &lines.front()) paragraph.text += own_lines ? '\n' : ' ';
    if (paragraph.prose) {
      paragraph.text += collapse_white_space(trimmed(line));
    } else {
      paragraph.text += line.substr(0, line.find_last_not_of(kSpace) + 1);
    }
  }
  return paragraph;
}

}  // namespace

// Blank lines divide. A paragraph that is set with spaces, as tables and listings are, is no prose.
void find_text_paragraphs(const DecodedText& text, Document& document) {
  const std::string_view all = text.utf8;
  std::vector<std::string_view> lines;
  size_t end = 0;
  for (size_t at = 0; at < all.size();) {
    // LF, CR LF, or CR.
    const size_t stop = std::min(all.find_first_of("\r\n", at), all.size());
    const size_t next = std::min(stop + (all.substr(stop, 2) == "\r\n" ? 2 : 1), all.size());
    const std::string_view line = all.substr(at, stop - at);
    if (!trimmed(line).empty()) {
      lines.push_back(line);
      end = next;
    } else if (!lines.empty()) {
      document.paragraphs.push_back(paragraph_of(lines, end));
      lines.clear();
    }
    at = next;
  }
  if (!lines.empty()) document.paragraphs.push_back(paragraph_of(lines, end));
}

}  // namespace saccade
