#include "saccade/pages/illustrated_document.h"

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "saccade/core/ascii.h"
#include "saccade/core/files/files.h"
#include "saccade/core/hash.h"
#include "saccade/pages/html.h"
#include "saccade/text/normalize.h"
#include "saccade/text/utf8.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

// Display sizes: CSS pixels of the longer side, so that no image takes more of a page than a paragraph. A
// vector drawing counts as an icon if its nominal size is small.
constexpr double kLongestSide = 400;
constexpr double kVectorSide = 220;
constexpr double kIconSide = 88;
constexpr double kLargestIcon = 64;
constexpr int kMostNames = 10'000;

constexpr std::string_view kStyle = R"css(
:root { color-scheme: light dark; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 42rem; font: 1.0625rem/1.6 Georgia, "Noto Serif",
  serif; color: #1d1d1b; background: #fdfdfb; overflow-wrap: break-word; }
h1, h2, h3, h4 { line-height: 1.25; font-family: system-ui, "Noto Sans", sans-serif; }
h1 { font-size: 1.7rem; } h2 { font-size: 1.25rem; margin-top: 2.2em; }
pre { overflow-x: auto; font-size: .85rem; line-height: 1.4; padding-left: .8rem; border-left: 3px solid #e4e3dd; }
code { font-size: .9em; } table { border-collapse: collapse; display: block; overflow-x: auto; }
td, th { padding: .3em .7em; border: 1px solid #d9d8d2; } blockquote { margin-left: 0; padding-left: 1em;
  border-left: 3px solid #d9d8d2; } a { color: #0b6b5c; } img { max-width: 100%; height: auto; }
figure.saccade { margin: 1.4rem 0; text-align: center; }
@media (prefers-color-scheme: dark) { body { color: #e4e3df; background: #171817; } a { color: #5fc7b3; }
  pre, td, th, blockquote { border-color: #3a3d3b; }
  figure.saccade img { background: #fff; padding: 10px; border-radius: 6px; } }
@media print { figure.saccade { break-inside: avoid; } }
)css";

// Converts characters beyond ASCII to references, for pages in any encoding.
std::string as_ascii(std::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const char32_t code = next_code_point(text, at);
    if (code < 0x80) {
      result += static_cast<char>(code);
    } else {
      result += fmt::format("&#{};", static_cast<uint32_t>(code));
    }
  }
  return result;
}

std::string on_one_line(std::string_view text) {
  return std::string(trim_ascii(collapse_white_space(to_valid_utf8(text)), " "));
}

// Escapes Markdown's special characters. '<', '>', '&' and '"' become references, which no Markdown reader
// takes for HTML.
std::string escape_markdown(std::string_view text) {
  std::string result;
  for (const char c : on_one_line(text)) {
    if (const auto byte = static_cast<unsigned char>(c); byte < ' ' || byte == 0x7f) {
      continue;
    }
    switch (c) {
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '&':
        result += "&amp;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        if (std::string_view("\\`*_[]!|~$").find(c) != std::string_view::npos) result += '\\';
        result += c;
    }
  }
  return result;
}

// Returns the caption of a generated image.
std::string generated_words(const DocumentPicture& picture) {
  return fmt::format("Generated picture ({})", picture.generated_by);
}

std::string markdown_picture(const DocumentPicture& picture) {
  const std::string shown = fmt::format("![{}]({})", escape_markdown(picture.alternative), picture.url);
  if (picture.generated_by.empty()) return shown;
  return fmt::format("{}<br>*{}*", shown, escape_markdown(generated_words(picture)));
}

// Renders an image on one line, which in Markdown is an HTML block. It carries its own style, because a
// page's style may not apply.
std::string html_picture(const DocumentPicture& picture) {
  std::string size;
  if (picture.width > 0 && picture.height > 0) {
    const auto longer = static_cast<double>(std::max(picture.width, picture.height));
    const double vector_side = longer <= kLargestIcon ? kIconSide : kVectorSide;
    const double scale = (picture.vector ? vector_side : std::min(longer, kLongestSide)) / longer;
    const auto scaled = [&](int64_t side) { return std::max(1.0, static_cast<double>(side) * scale); };
    size = fmt::format(" width=\"{:.0f}\" height=\"{:.0f}\"", scaled(picture.width), scaled(picture.height));
  }
  const std::string title = on_one_line(picture.title);
  return fmt::format(
      "<figure class=\"saccade\" style=\"margin:1.4em 0;text-align:center\"><img src=\"{}\" alt=\"{}\"{}{} loading=\"lazy\" "
      "style=\"max-width:100%;height:auto\" />{}</figure>",
      escape_html(picture.url), escape_html(on_one_line(picture.alternative)),
      title.empty() ? "" : fmt::format(" title=\"{}\"", escape_html(title)), size,
      picture.generated_by.empty()
          ? ""
          : fmt::format("<figcaption>{}</figcaption>", escape_html(on_one_line(generated_words(picture)))));
}

// A line to insert into the source, behind an image's paragraph.
struct Insertion {
  size_t at = 0;
  std::string line;
};

std::string inserted(const Document& document, std::vector<Insertion> insertions) {
  std::ranges::stable_sort(insertions, {}, &Insertion::at);
  std::string result;
  size_t from = 0;
  for (const Insertion& insertion : insertions) {
    result.append(document.source, from, insertion.at - from);
    result += insertion.line;
    from = insertion.at;
  }
  return result.append(document.source, from);
}

std::vector<Insertion> insertions(const Document& document, std::span<const DocumentPicture> pictures,
                                  std::string (*line)(const DocumentPicture&)) {
  std::vector<Insertion> result;
  for (const DocumentPicture& picture : pictures) {
    std::string text = line(picture);
    if (document.encoding == TextEncoding::kLatin1) text = as_ascii(text);
    result.push_back({document.paragraphs[picture.paragraph].end, std::move(text)});
  }
  return result;
}

// Inserts each image as a paragraph of its own, with the document's line ends.
std::string markdown_with(const Document& document, std::vector<Insertion> lines) {
  const std::string_view source = document.source;
  const size_t first = source.find_first_of("\r\n");
  const std::string_view end = first == std::string_view::npos     ? "\n"
                               : source.substr(first, 2) == "\r\n" ? "\r\n"
                                                                   : source.substr(first, 1);
  const auto is_end = [](char c) { return c == '\n' || c == '\r'; };
  for (size_t i = 0; i < lines.size(); ++i) {
    Insertion& line = lines[i];
    const bool ends = line.at > 0 && is_end(source[line.at - 1]);
    const bool first_there = i == 0 || lines[i - 1].at != line.at;
    std::string text(first_there && !ends ? end : "");
    text += fmt::format("{}{}{}", end, line.line, end);
    // A blank line separates the following text.
    const bool last_there = i + 1 == lines.size() || lines[i + 1].at != line.at;
    const size_t word = source.find_first_not_of(" \t", line.at);
    if (last_there && word != std::string_view::npos && !is_end(source[word])) text += end;
    line.line = std::move(text);
  }
  return inserted(document, std::move(lines));
}

std::string html_page(std::string_view title, std::string_view body) {
  // The page forbids scripts, whatever the document contains, and allows images from any source.
  return fmt::format(
      "<!DOCTYPE html>\n<html>\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src * data: file:; media-src * "
      "file:; style-src 'unsafe-inline'\">\n<meta name=\"generator\" content=\"Saccade\">\n<title>{}</title>\n"
      "<style>{}</style>\n</head>\n<body>\n{}</body>\n</html>\n",
      escape_html(on_one_line(title)), kStyle, body);
}

template <typename Visit>
void split_lines(std::string_view text, Visit visit) {
  for (bool more = true; more;) {
    const size_t end = text.find('\n');
    more = end != std::string_view::npos;
    visit(text.substr(0, end));
    if (more) text.remove_prefix(end + 1);
  }
}

std::string html_paragraph(const DocumentParagraph& paragraph) {
  if (paragraph.kind == ParagraphKind::kSet)
    return fmt::format("<pre>{}</pre>\n", escape_html(paragraph.text));
  if (paragraph.kind == ParagraphKind::kHeading)
    return fmt::format("<h2>{}</h2>\n", escape_html(paragraph.text));
  std::string text;
  split_lines(paragraph.text,
              [&](std::string_view line) { text += (text.empty() ? "" : "<br>\n") + escape_html(line); });
  return fmt::format("<p>{}</p>\n", text);
}

std::string markdown_paragraph(const DocumentParagraph& paragraph) {
  if (paragraph.kind == ParagraphKind::kHeading) return "## " + escape_markdown(paragraph.text) + "\n";
  const bool prose = paragraph.kind == ParagraphKind::kProse;
  std::string text;
  split_lines(paragraph.text, [&](std::string_view line) {
    if (!text.empty()) text += prose ? "\\\n" : "\n";
    if (!prose) {
      text += "    " + to_valid_utf8(line);
      return;
    }
    std::string words = escape_markdown(line);
    // "1.", "1)", "-", "+", "#" and "=" begin a list, a heading or an underline.
    const size_t sign = words.find_first_not_of("0123456789");
    if (sign != std::string::npos &&
        (sign == 0 ? std::string_view("-+#=:") : std::string_view(".)")).find(words[sign]) !=
            std::string_view::npos) {
      words.insert(sign, 1, '\\');
    }
    text += words;
  });
  return text + "\n";
}

// Renders a page from the paragraphs of a text or a PDF, with images between them.
std::string made_of_paragraphs(const Document& document, std::span<const DocumentPicture> pictures,
                               PageFormat format) {
  std::vector<std::vector<const DocumentPicture*>> behind(document.paragraphs.size());
  for (const DocumentPicture& picture : pictures) behind[picture.paragraph].push_back(&picture);
  std::string text;
  for (size_t p = 0; p < document.paragraphs.size(); ++p) {
    const bool html = format == PageFormat::kHtml;
    if (!html && p > 0) text += "\n";
    text += html ? html_paragraph(document.paragraphs[p]) : markdown_paragraph(document.paragraphs[p]);
    for (const DocumentPicture* picture : behind[p]) {
      text += html ? fmt::format("{}\n", html_picture(*picture))
                   : fmt::format("\n{}\n", markdown_picture(*picture));
    }
  }
  return text;
}

}  // namespace

std::span<const EnumName<PageFormat>> enum_names(PageFormat) {
  static constexpr std::array<EnumName<PageFormat>, 2> kWords = {
      {{PageFormat::kMarkdown, "markdown"}, {PageFormat::kHtml, "html"}}};
  return kWords;
}

std::optional<PageFormat> page_format(const fs::path& name) {
  const DocumentFormat format = document_format({}, name);
  if (format == DocumentFormat::kMarkdown) return PageFormat::kMarkdown;
  if (format == DocumentFormat::kHtml) return PageFormat::kHtml;
  return std::nullopt;
}

Status check_page_format(DocumentFormat from, PageFormat to) {
  if (from != DocumentFormat::kHtml || to == PageFormat::kHtml) return {};
  return fail(ErrorCode::kUsage, "a page of HTML stays HTML: as Markdown most of it would be lost");
}

Result<std::string> illustrated_document(const Document& document, std::span<const DocumentPicture> pictures,
                                         PageFormat format, std::string_view title) {
  SACCADE_TRY(check_page_format(document.format, format));
  const std::string_view name = document.title.empty() ? title : std::string_view(document.title);
  switch (document.format) {
    case DocumentFormat::kHtml:
      return inserted(document, insertions(document, pictures, html_picture));
    case DocumentFormat::kMarkdown: {
      if (format == PageFormat::kMarkdown) {
        return markdown_with(document, insertions(document, pictures, markdown_picture));
      }
      SACCADE_ASSIGN(const DecodedText text,
                     decode_text(markdown_with(document, insertions(document, pictures, html_picture))));
      SACCADE_ASSIGN(const std::string body, render_markdown(text.utf8));
      return html_page(name, body);
    }
    default:
      break;
  }
  std::string text = made_of_paragraphs(document, pictures, format);
  if (format == PageFormat::kMarkdown) return text;
  return html_page(name, fmt::format("<h1>{}</h1>\n{}", escape_html(on_one_line(name)), text));
}

std::string relative_url(const fs::path& file, const fs::path& folder) {
  const std::string relative = file.lexically_relative(folder).string();
  if (relative.empty()) return file_url(file.string());
  // Uses the path escaping of file_url, so that a colon in a name is not read as a URL scheme.
  return file_url(relative).substr(std::string_view("file://").size());
}

Result<fs::path> copy_picture(const Item& item, const fs::path& folder) {
  SACCADE_ASSIGN(const std::string bytes, read_file(item.path));
  if (sha256_hex(bytes) != item.hash) {
    return fail(ErrorCode::kMismatch,
                "{} has changed since it was taken in: `saccade index` takes it in anew", item.path);
  }
  SACCADE_TRY(make_folders(folder));
  std::error_code error;
  const fs::path name = fs::path(item.path).filename();
  for (int number = 1; number < kMostNames; ++number) {
    const fs::path copy = folder / (number == 1 ? name
                                                : fs::path(fmt::format("{}-{}{}", name.stem().string(),
                                                                       number, name.extension().string())));
    const fs::file_status there = fs::symlink_status(copy, error);
    if (there.type() == fs::file_type::not_found) {
      SACCADE_TRY(write_file_atomic(copy, bytes));
      return copy;
    }
    if (there.type() != fs::file_type::regular) continue;
    const auto other = read_file(copy);
    if (other && *other == bytes) return copy;
  }
  return fail(ErrorCode::kIo, "{} has {} files named like {}", folder.string(), kMostNames, name.string());
}

}  // namespace saccade
