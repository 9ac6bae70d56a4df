// Bytes of a text file as UTF-8, and the way back: which byte of the file a place in the text is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/enum_names.h"

namespace saccade {

enum class TextEncoding { kUtf8, kLatin1, kUtf16Le, kUtf16Be };
std::span<const EnumName<TextEncoding>> enum_names(
    TextEncoding);  // "UTF-8", "Windows-1252", "UTF-16", "UTF-16"

struct DecodedText {
  TextEncoding encoding = TextEncoding::kUtf8;
  std::string utf8;  // valid, without a byte order mark
  // The byte of the file that utf8[position] came from; its size for utf8.size(). Of kUtf8 and kLatin1.
  [[nodiscard]] size_t source_offset(size_t position) const;

  size_t mark = 0;  // bytes of the byte order mark
  // Of kLatin1: where in utf8 each character of more than one byte ends, ascending, and how many bytes more
  // it has than in the file, summed up to there.
  std::vector<std::pair<size_t, size_t>> longer = {};
};

// UTF-8 where it is that; UTF-16 by its byte order mark; else Windows-1252 (which Latin-1 is a part of),
// unless `declared` names another encoding: kUnsupported, with its name. kBadData for what is no text: NULs,
// many control characters, UTF-16 with unpaired halves. Linear; twice the file's size of memory.
Result<DecodedText> decode_text(std::string_view bytes, std::string_view declared = {});

}  // namespace saccade
