// Decoding of text files to UTF-8, with a mapping from text positions back to file offsets.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/enum_names.h"
#include "saccade/core/error.h"

namespace saccade {

enum class TextEncoding { kUtf8, kLatin1, kUtf16Le, kUtf16Be };
std::span<const EnumName<TextEncoding>> enum_names(
    TextEncoding);  // "UTF-8", "Windows-1252", "UTF-16", "UTF-16"

struct DecodedText {
  TextEncoding encoding = TextEncoding::kUtf8;
  std::string utf8;  // valid, without a byte order mark
  // Returns the offset in the file of the byte behind utf8[position]; the file's size for utf8.size().
  // Supports kUtf8 and kLatin1.
  [[nodiscard]] size_t source_offset(size_t position) const;

  size_t mark = 0;  // bytes of the byte order mark
  // Multi-byte characters of kLatin1: the position in utf8 where each ends, ascending, and the cumulative
  // number of bytes added up to there.
  std::vector<std::pair<size_t, size_t>> longer = {};
};

// Detects the encoding and decodes: UTF-8 if valid; UTF-16 by its byte order mark; otherwise Windows-1252 (a
// superset of Latin-1). If `declared` names another encoding, returns kUnsupported with its name. Returns
// kBadData for binary data: NULs, many control characters, UTF-16 with unpaired surrogates. Cost: linear;
// memory: twice the file's size.
Result<DecodedText> decode_text(std::string_view bytes, std::string_view declared = {});

}  // namespace saccade
