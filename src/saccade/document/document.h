// A document of running text to be illustrated: its paragraphs, and the byte offset behind each of them where
// an image can be inserted.
//
//   text      paragraphs are separated by blank lines; text laid out with spaces (tables, listings) is kept
//             unchanged and is not running text, nor are numbered headings. Words hyphenated at a line's end
//             are joined (document/page_text.h)
//   Markdown  CommonMark with GitHub's tables and footnotes, parsed by cmark-gfm. Running text is a paragraph
//             of the document itself without an image in it or directly after it. Front matter, headings,
//             lists, quotations, tables, code and HTML are excluded. A document with a table of more than
//             1,000 columns, whose tables' rows lack many cells (16,384 and one for every 16 bytes), or with
//             tables directly below paragraphs of more than about a thousand lines, is read without
//             tables: their lines are text. kLimit for paragraphs of tens of thousands of bytes that are mostly
//             signs of markup, which cmark-gfm takes minutes for
//   HTML      parsed by Gumbo as browsers do. Running text is a <p>, or a <div> with only text, without an
//             image in it or directly after it. Navigation, headers, footers, tables, figures, forms, code
//             and scripts are excluded
//   PDF       running text from document/pdf.h, without numbered headings
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/enum_names.h"
#include "saccade/core/error.h"
#include "saccade/document/decoded_text.h"
#include "saccade/document/pdf.h"

namespace saccade {

enum class DocumentFormat { kText, kMarkdown, kHtml, kPdf };
std::span<const EnumName<DocumentFormat>> enum_names(DocumentFormat);  // "text", "markdown", "html", "pdf"

enum class ParagraphKind {
  kProse,
  kHeading,  // heading of a text or a PDF: a line that begins with a section number
  kSet,      // paragraph of a text, laid out with spaces
};

struct DocumentParagraph {
  // Text of the paragraph in UTF-8. Running text is on one line, without markup and link addresses; short
  // lines of a plain text (verse, addresses) are kept as separate lines. Other paragraphs are unchanged.
  std::string text;
  // Offset in Document::source at which to insert something after the paragraph; 0 in PDFs. In text and
  // Markdown it is after the end of the line, or of the file.
  size_t end = 0;
  int64_t page = 0;  // page of a PDF, from 1
  ParagraphKind kind = ParagraphKind::kProse;
};

struct Document {
  DocumentFormat format = DocumentFormat::kText;
  TextEncoding encoding = TextEncoding::kUtf8;  // encoding of `source`; UTF-16 is converted to UTF-8
  std::string source;                           // the file's bytes; empty for a PDF
  std::string title;                            // the document's own title, UTF-8; may be empty
  std::vector<DocumentParagraph> paragraphs;    // in reading order
  int64_t pages_left_out = 0;                   // pages of a PDF beyond the limit
};

struct DocumentOptions {
  std::optional<DocumentFormat> format = {};  // nothing: by content and name
  int64_t max_bytes = int64_t{256} << 20;     // limit for text, Markdown, HTML
  PdfOptions pdf = {};
};

// Detects the format by the first bytes, then by the file name's extension; kText if neither is known.
DocumentFormat document_format(std::string_view beginning, const std::filesystem::path& name);

// Reads a file. Returns kBadData for binary data and for a broken PDF. Returns kUnsupported for encodings
// other than UTF-8, UTF-16 and Windows-1252, and for PDFs that are encrypted or scanned. Other errors:
// kLimit, kNotFound, kIo, kCancelled. Memory: about ten times the text's size. Thread-safe.
Result<Document> read_document(const std::filesystem::path& file, const DocumentOptions& options = {},
                               const std::stop_token& stop = {});

// Parses bytes in memory, except PDFs.
Result<Document> parse_document(std::string bytes, DocumentFormat format);

// ---- the readers of parse_document

void find_text_paragraphs(const DecodedText& text, Document& document);
Status find_markdown_paragraphs(const DecodedText& text, Document& document);
// Finds the paragraphs of an HTML text. Returns the errors of render_markdown.
Status find_html_paragraphs(const DecodedText& text, Document& document);
// Returns the encoding declared by a <meta> in a page's first bytes, or an empty string.
std::string declared_html_encoding(std::string_view bytes);

// Renders the document's body as HTML. Raw HTML is kept, except for the elements that GitHub filters
// (<script>, <style>, <iframe> and others); front matter is removed. Returns kLimit for paragraphs that take too
// long, kInternal if cmark-gfm lacks its extensions.
Result<std::string> render_markdown(std::string_view markdown);

}  // namespace saccade
