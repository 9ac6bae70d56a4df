// A document of running text, for what looks for pictures to it: its paragraphs, and the place in its bytes
// where something can be put behind each of them.
//
//   text      paragraphs stand between blank lines; what is set with spaces (tables, listings) is kept as
//             it is and is no prose, nor are headings with a number. A word that a line's end divides is
//             joined (document/page_text.h)
//   Markdown  CommonMark with GitHub's tables and footnotes, read by cmark-gfm. Prose is a paragraph of the
//             document itself that holds no picture, and is not followed by one: not front matter, headings,
//             lists, quotations, tables, code, HTML
//   HTML      read by Gumbo as browsers do. Prose is a <p>, or a <div> of nothing but text, that holds no
//             picture and is not followed by one, and lies outside navigation, headers, footers, tables,
//             figures, forms, code and scripts
//   PDF       running text as document/pdf.h gives it, without numbered headings
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

#include "saccade/core/error.h"
#include "saccade/core/enum_names.h"
#include "saccade/document/decoded_text.h"
#include "saccade/document/pdf.h"

namespace saccade {

enum class DocumentFormat { kText, kMarkdown, kHtml, kPdf };
std::span<const EnumName<DocumentFormat>> enum_names(DocumentFormat);  // "text", "markdown", "html", "pdf"

enum class ParagraphKind {
  kProse,
  kHeading,  // of a text or a PDF: a line that begins with a section's number
  kSet,      // of a text: set with spaces
};

struct DocumentParagraph {
  // Of prose: its words on one line, without marks and links' addresses; of a text's short lines (verse,
  // addresses) each on its own. Else as it stands. UTF-8.
  std::string text;
  // The byte of Document::source that something behind the paragraph is put at; 0 in PDFs. In text and
  // Markdown it is behind the line's end, or the file's.
  size_t end = 0;
  int64_t page = 0;  // of a PDF, from 1
  ParagraphKind kind = ParagraphKind::kProse;
};

struct Document {
  DocumentFormat format = DocumentFormat::kText;
  TextEncoding encoding =
      TextEncoding::kUtf8;  // that `source` is in; of UTF-16 it was before: `source` is UTF-8 then
  std::string source;       // the file's bytes; empty for a PDF
  std::string title;        // its own, UTF-8; empty where it has none
  std::vector<DocumentParagraph> paragraphs;  // in reading order
  int64_t pages_left_out = 0;                 // of a PDF, behind the limit
};

struct DocumentOptions {
  std::optional<DocumentFormat> format = {};  // nothing: by content and name
  int64_t max_bytes = int64_t{256} << 20;     // of text, Markdown, HTML
  PdfOptions pdf = {};
};

// By what it begins with, then by its name's ending; kText where neither tells.
DocumentFormat document_format(std::string_view beginning, const std::filesystem::path& name);

// Reads a file. kBadData for what is no text, and for a broken PDF; kUnsupported for encodings other than
// UTF-8, UTF-16 and Windows-1252, and for PDFs that are encrypted or scanned; kLimit; kNotFound; kIo;
// kCancelled. Memory: about ten times a text's size. Thread-safe.
Result<Document> read_document(const std::filesystem::path& file, const DocumentOptions& options = {},
                               const std::stop_token& stop = {});

// The same for bytes in memory, of no PDF.
Result<Document> parse_document(std::string bytes, DocumentFormat format);

// ---- the readers of parse_document

void find_text_paragraphs(const DecodedText& text, Document& document);
Status find_markdown_paragraphs(const DecodedText& text, Document& document);
// Errors as render_markdown.
Status find_html_paragraphs(const DecodedText& text, Document& document);
// What a page's <meta> in its first bytes says its encoding is; empty where there is none.
std::string declared_html_encoding(std::string_view bytes);

// The document's body as HTML: raw HTML stays, but for the elements that GitHub filters (<script>, <style>,
// <iframe> and others), front matter goes. kInternal where cmark-gfm lacks its extensions.
Result<std::string> render_markdown(std::string_view markdown);

}  // namespace saccade
