// A document with pictures put behind its paragraphs: what it was, and the pictures.
//
// Markdown and HTML stay byte for byte what they were, but for what is inserted. Of a text and of a PDF, and
// of Markdown that becomes HTML, a page is made that needs nothing else. Whatever comes from a collection
// (captions, paths) is escaped: it can neither end nor begin an element.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "saccade/collection/catalog/catalog.h"
#include "saccade/core/error.h"
#include "saccade/core/enum_names.h"
#include "saccade/document/document.h"

namespace saccade {

enum class PageFormat { kMarkdown, kHtml };
std::span<const EnumName<PageFormat>> enum_names(PageFormat);  // "markdown", "html"

// By a name's ending; nothing where it tells neither.
std::optional<PageFormat> page_format(const std::filesystem::path& name);

// kUsage for HTML to Markdown: too much of a page would be lost.
Status check_page_format(DocumentFormat from, PageFormat to);

struct DocumentPicture {
  size_t paragraph = 0;     // in Document::paragraphs; those of one stand in the order given
  std::string url;          // percent-encoded (relative_url), or of data
  std::string alternative;  // what it shows, in words
  std::string title;        // for whoever points at it; may be empty. Not in Markdown
  int64_t width = 0;        // pixels, of the picture; 0: not known
  int64_t height = 0;
  bool vector = false;            // it has no pixels of its own
  std::string generated_by = {};  // an engine made it, which stands under it; empty: it is somebody's picture
};

// `title`: of the page, where the document has none. The errors of check_page_format and render_markdown.
// Where the document's encoding is not UTF-8, what is inserted is ASCII.
Result<std::string> illustrated_document(const Document& document, std::span<const DocumentPicture> pictures,
                                         PageFormat format, std::string_view title);

// How a page in `folder` names a file: relative to it, every byte that is not plain
// percent-encoded. Both paths absolute.
std::string relative_url(const std::filesystem::path& file, const std::filesystem::path& folder);

// Copies the picture into the folder (made if need be) under its own name, or with a number behind it where
// another file has that; one of the same bytes is used as it is. Nothing that is there is changed. Returns
// the copy's path. kMismatch where the picture has other bytes than when it was taken in.
Result<std::filesystem::path> copy_picture(const Item& item, const std::filesystem::path& folder);

}  // namespace saccade
