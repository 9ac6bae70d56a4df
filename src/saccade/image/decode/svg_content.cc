#include "saccade/image/decode/svg_content.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <libxml/parser.h>
#include <memory>
#include <new>
#include <optional>
#include <zlib.h>

#include "saccade/core/ascii.h"
#include "saccade/core/base64.h"

namespace saccade {
namespace {

// Maximum number of bytes that entities may add to a document. Editors write namespaces with them, some
// kilobytes.
constexpr int64_t kMostAdded = int64_t{16} << 20;
constexpr std::string_view kSpace = " \t\r\n\f";

// "%41b" -> "Ab"; what is no code stays.
std::string without_percent(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const int byte = percent_escape(text, i);
    result.push_back(byte < 0 ? text[i] : static_cast<char>(byte));
    if (byte >= 0) i += 2;
  }
  return result;
}

// Decodes base64 like renderers do: spaces are ignored, and so are characters behind "=" and incomplete
// bytes.
std::optional<std::string> from_base64(std::string_view text) {
  std::string plain(text.substr(0, text.find('=')));
  std::erase_if(plain, [](char c) { return kSpace.find(c) != std::string_view::npos; });
  if (plain.size() % 4 == 1) plain.pop_back();
  auto bytes = decode_base64(plain);
  return bytes ? std::optional(*std::move(bytes)) : std::nullopt;
}

// Decodes the content of "data:image/png;base64,iVBO..." (RFC 2397); `nullopt` for other addresses.
Result<std::optional<std::string>> data_of(std::string_view address) {
  std::optional<std::string> data;
  const size_t begin = address.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return data;
  address.remove_prefix(begin);
  if (!starts_in_any_case(address, "data:")) return data;
  const size_t comma = address.find(',');
  if (comma == std::string_view::npos) {
    return fail(ErrorCode::kBadData, "svg: an image within it has an address without data");
  }
  const std::string_view kind = trim_ascii(address.substr(0, comma), kSpace);
  const std::string content = without_percent(address.substr(comma + 1));
  const size_t last = kind.rfind(';');
  if (last == std::string_view::npos || !equal_in_any_case(kind.substr(last + 1), "base64"))
    data = content;
  else
    data = from_base64(content);
  if (!data)
    return fail(ErrorCode::kBadData, "svg: an image within it is not the base64 that it claims to be");
  return data;
}

// Results of one pass over a document. Callbacks receive the parser, with the pass as its user data. The
// content of an entity has a parser of its own.
struct Pass {
  int64_t most = 0;    // bytes of text and attributes
  int64_t length = 0;  // so far
  std::vector<std::string> pictures;
  std::optional<Error> error;

  void stop(Error why) {
    if (!error) error = std::move(why);
  }
  void add(int64_t bytes) {
    length += bytes;
    if (length > most) {
      stop({ErrorCode::kLimit, fmt::format("svg: its entities make it longer than {} bytes", most)});
    }
  }
  void take(std::string_view element, std::string_view address) {
    auto data = data_of(address);
    if (!data) return stop(std::move(data).error());
    if (!*data) return;
    if (element == "include") return stop({ErrorCode::kUnsupported, "svg: it includes another document"});
    pictures.push_back(**std::move(data));
  }
};

std::string_view text_of(const xmlChar* text) {
  return reinterpret_cast<const char*>(text);
}

Pass& pass_of(void* parser) {
  return *static_cast<Pass*>(static_cast<xmlParserCtxtPtr>(parser)->_private);
}

void on_element(void* parser, const xmlChar* name, const xmlChar* /*prefix*/, const xmlChar* /*space*/,
                int /*namespaces*/, const xmlChar** /*all_namespaces*/, int attributes, int /*defaulted*/,
                const xmlChar** all_attributes) {
  Pass& pass = pass_of(parser);
  const std::string_view element = text_of(name);
  const bool with_address = element == "image" || element == "feImage" || element == "include";
  try {
    // Five pointers each: name, prefix, namespace, begin and end of the value.
    for (int i = 0; i < attributes && !pass.error; ++i) {
      const xmlChar** attribute = all_attributes + size_t{5} * static_cast<size_t>(i);
      const std::string_view value(reinterpret_cast<const char*>(attribute[3]),
                                   static_cast<size_t>(attribute[4] - attribute[3]));
      pass.add(static_cast<int64_t>(value.size()));
      if (with_address && text_of(attribute[0]) == "href") pass.take(element, value);
    }
  } catch (const std::bad_alloc&) {  // not through libxml2's frames
    pass.stop({ErrorCode::kIo, "svg: not enough memory for the images within it"});
  }
  if (pass.error) xmlStopParser(static_cast<xmlParserCtxtPtr>(parser));
}

void on_text(void* parser, const xmlChar* /*text*/, int length) {
  Pass& pass = pass_of(parser);
  pass.add(length);
  if (pass.error) xmlStopParser(static_cast<xmlParserCtxtPtr>(parser));
}

void on_error(void* parser, int code) {
  bool too_much = code == XML_ERR_ENTITY_LOOP;
#if LIBXML_VERSION >= 21200
  too_much = too_much || code == XML_ERR_RESOURCE_LIMIT;
#endif
  if (too_much) pass_of(parser).stop({ErrorCode::kLimit, "svg: its entities nest without end or multiply"});
}

}  // namespace

Result<std::string> unpack_gzip(std::span<const std::byte> gzip, int64_t max_bytes) {
  z_stream stream = {};
  constexpr int kGzip = 16 + MAX_WBITS;
  if (::inflateInit2(&stream, kGzip) != Z_OK) return fail(ErrorCode::kIo, "not enough memory to unpack it");
  const std::unique_ptr<z_stream, decltype(&::inflateEnd)> end(&stream, &::inflateEnd);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(gzip.data()));
  size_t left = gzip.size();
  std::string text;
  std::array<char, 1 << 16> block;
  for (;;) {
    if (stream.avail_in == 0) {
      stream.avail_in = static_cast<uInt>(std::min<size_t>(left, 1 << 30));
      left -= stream.avail_in;
    }
    stream.next_out = reinterpret_cast<Bytef*>(block.data());
    stream.avail_out = block.size();
    const int state = ::inflate(&stream, Z_NO_FLUSH);
    const size_t got = block.size() - stream.avail_out;
    if (static_cast<int64_t>(text.size() + got) > max_bytes) {
      return fail(ErrorCode::kLimit, "more than {} bytes once unpacked, limit {}", text.size() + got - 1,
                  max_bytes);
    }
    text.append(block.data(), got);
    if (state == Z_STREAM_END) return text;
    if (state != Z_OK || (got == 0 && stream.avail_in == 0 && left == 0)) {
      return fail(ErrorCode::kBadData, "gzip: {}", stream.msg != nullptr ? stream.msg : "broken or cut off");
    }
  }
}

Result<std::vector<std::string>> pictures_within(std::string_view svg) {
  static const bool ready = [] {
    xmlInitParser();
    return true;
  }();
  (void)ready;
  xmlSAXHandler handler = {};
  xmlSAXVersion(&handler, 2);  // declarations are kept as usual; no tree is built
  handler.startElementNs = on_element;
  handler.endElementNs = nullptr;
  handler.characters = on_text;
  handler.cdataBlock = on_text;
  handler.ignorableWhitespace = on_text;
  handler.comment = nullptr;
  handler.processingInstruction = nullptr;
  handler.reference = nullptr;
  handler.serror = [](void* context, auto* error) { on_error(context, error->code); };  // const since 2.12
  Pass pass;
  pass.most = static_cast<int64_t>(svg.size()) + kMostAdded;
  const std::unique_ptr<xmlParserCtxt, void (*)(xmlParserCtxtPtr)> parser(
      xmlCreatePushParserCtxt(&handler, nullptr, nullptr, 0, nullptr), [](xmlParserCtxtPtr context) {
        if (context->myDoc != nullptr) xmlFreeDoc(context->myDoc);
        context->myDoc = nullptr;
        xmlFreeParserCtxt(context);
      });
  if (!parser) return fail(ErrorCode::kIo, "svg: not enough memory to read it");
  parser->_private = &pass;
  // Parses like librsvg: entities are expanded, and nothing external is loaded.
  xmlCtxtUseOptions(parser.get(), XML_PARSE_NOENT | XML_PARSE_NONET);
  constexpr size_t kChunk = size_t{1} << 20;
  for (size_t at = 0; at < svg.size() && !pass.error; at += kChunk) {
    const size_t count = std::min(kChunk, svg.size() - at);
    if (xmlParseChunk(parser.get(), svg.data() + at, static_cast<int>(count),
                      at + count == svg.size() ? 1 : 0) != 0) {
      break;  // malformed: librsvg's to say
    }
  }
  if (pass.error) return fail(*std::move(pass.error));
  return std::move(pass.pictures);
}

}  // namespace saccade
