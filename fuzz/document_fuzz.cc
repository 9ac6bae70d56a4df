// Documents of any bytes: the first byte says as what they are read. Places are inside the source and ascend,
// texts are UTF-8, and Markdown is rendered.
#include <array>
#include <cstdint>
#include <string>

#include "saccade/document/document.h"
#include "saccade/text/utf8.h"

#include "fuzz.h"
#include "mutators.h"

int fuzz_input(const uint8_t* data, size_t size) {
  using saccade::DocumentFormat;
  if (size == 0) return 0;
  const std::string bytes(data + 1, data + size);
  const DocumentFormat format = data[0] == 'T'   ? DocumentFormat::kText
                                : data[0] == 'M' ? DocumentFormat::kMarkdown
                                                 : DocumentFormat::kHtml;
  const auto document = saccade::parse_document(bytes, format);
  if (!document) return 0;
  size_t last = 0;
  for (const saccade::DocumentParagraph& paragraph : document->paragraphs) {
    FUZZ_CHECK(paragraph.end <= document->source.size());
    FUZZ_CHECK(format == DocumentFormat::kHtml || paragraph.end >= last);
    FUZZ_CHECK(saccade::to_valid_utf8(paragraph.text) == paragraph.text);
    last = paragraph.end;
  }
  if (format == DocumentFormat::kMarkdown && document->encoding == saccade::TextEncoding::kUtf8) {
    FUZZ_CHECK(saccade::render_markdown(document->source).has_value());
  }
  return 0;
}

namespace {

constexpr std::array<std::string_view, 56> kTokens = {"\n",
                                                      "\n\n",
                                                      "# ",
                                                      "> ",
                                                      "- ",
                                                      "1. ",
                                                      "```",
                                                      "~~~",
                                                      "    ",
                                                      "\t",
                                                      "| a |\n|---|\n",
                                                      "[",
                                                      "](",
                                                      ")",
                                                      "![",
                                                      "[^1]",
                                                      "[^1]: ",
                                                      "<",
                                                      ">",
                                                      "*",
                                                      "**",
                                                      "_",
                                                      "`",
                                                      "~~",
                                                      "---\n",
                                                      "===\n",
                                                      "&amp;",
                                                      "&",
                                                      "\\",
                                                      "<p>",
                                                      "</p>",
                                                      "<div>",
                                                      "</div>",
                                                      "<b>",
                                                      "</b>",
                                                      "<table>",
                                                      "<td>",
                                                      "<svg>",
                                                      "</svg>",
                                                      "<script>",
                                                      "</script>",
                                                      "<!--",
                                                      "-->",
                                                      "<pre>",
                                                      "<li>",
                                                      "<figure>",
                                                      "<template>",
                                                      "<meta charset=latin1>",
                                                      "<a href=x>",
                                                      "\xff",
                                                      "\xef\xbb\xbf",
                                                      "\u00ad",
                                                      "-\n",
                                                      "2.1",
                                                      "http://a.b",
                                                      "<![CDATA["};

}  // namespace

std::string fuzz_mutate(std::string input, saccade::SplitMix& random) {
  if (input.empty()) return "M";
  const std::string_view text = std::string_view(input).substr(1);
  return input[0] + (random.below(2) == 0 ? mutate_tokens(text, kTokens, random)
                                          : mutate_lines(text, kTokens, kTokens, random));
}
