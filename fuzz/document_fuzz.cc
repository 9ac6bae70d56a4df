// Fuzzer of documents of any bytes. The first byte selects the format. Places are inside the source and
// ascend, texts are UTF-8, and Markdown is rendered.
#include <cstdint>
#include <string>

#include "saccade/document/document.h"
#include "saccade/text/utf8.h"

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
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
