// SQL of texts: functions that every connection to a catalog has, and an item's file; not for use outside this module.
//
//   folded(text, 'is', value)            1 if the text is the value, after fold_case of text/normalize.h; the value is
//                                        folded already
//   folded(text, 'glob', pattern)        1 if the glob matches the whole text; likewise
//   folded(text, 'has', value)           1 if the text contains the value; likewise
//   any_line(lines, how, value)          1 if folded(line, how, value) holds for a line
//
// Lines end with "\n"; empty ones do not count. All are pure, and only statements may call them, never a foreign file's schema.
#pragma once

#include <string_view>

#include "saccade/core/error.h"

struct sqlite3;

namespace saccade {

// Adds the functions to the connection.
Status add_text_functions(sqlite3* connection);

// An item's file in SQL: its path, but of a frame (image/frame_name.h) its video's, without "#t=" and time.
inline constexpr std::string_view kItemFile =
    "(CASE format WHEN 'video' THEN substr(path, 1, length(rtrim(path, '0123456789.')) - 3) ELSE path END)";

}  // namespace saccade
