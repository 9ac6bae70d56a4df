// A document with images inserted behind its paragraphs.
//
// Markdown and HTML stay byte for byte unchanged except for the insertions. Plain text, PDF, and Markdown
// converted to HTML become a self-contained page. All values from a collection (captions, paths) are escaped,
// so they cannot open or close an element.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "saccade/collection/catalog/catalog.h"
#include "saccade/core/enum_names.h"
#include "saccade/core/error.h"
#include "saccade/document/document.h"

namespace saccade {

enum class PageFormat { kMarkdown, kHtml };
std::span<const EnumName<PageFormat>> enum_names(PageFormat);  // "markdown", "html"

// Returns the format for a file name's extension, or nullopt if it is unknown.
std::optional<PageFormat> page_format(const std::filesystem::path& name);

// Returns kUsage for HTML to Markdown, which would lose too much of a page.
Status check_page_format(DocumentFormat from, PageFormat to);

struct DocumentPicture {
  size_t paragraph = 0;     // in Document::paragraphs; those of one stand in the order given
  std::string url;          // percent-encoded (relative_url), or of data
  std::string alternative;  // description of the image
  std::string title;        // tooltip; may be empty. Not in Markdown
  int64_t width = 0;        // pixels of the image; 0 if unknown
  int64_t height = 0;
  bool vector = false;            // it has no pixels of its own
  std::string generated_by = {};  // name of the engine that made it; else empty
};

// Renders the document with its images. `title` is used if the document has none. Returns the errors of
// check_page_format and render_markdown. If the document's encoding is not UTF-8, the insertions are ASCII.
Result<std::string> illustrated_document(const Document& document, std::span<const DocumentPicture> pictures,
                                         PageFormat format, std::string_view title);

// Returns the URL of a file relative to `folder`, percent-encoded except for plain characters. Both paths are
// absolute.
std::string relative_url(const std::filesystem::path& file, const std::filesystem::path& folder);

// Copies the image into the folder (created if necessary) under its own name, with a number appended if
// another file has that name. An existing file with the same bytes is reused. Existing files are never
// changed. Returns the copy's path. Returns kMismatch if the image's bytes have changed since it was indexed.
Result<std::filesystem::path> copy_picture(const Item& item, const std::filesystem::path& folder);

}  // namespace saccade
