// SQL of texts: functions that every connection to a catalog has, and an item's file; not for use outside this module.
//
//   fold_case(text)                      fold_case of text/normalize.h; NULL for NULL
//   any_line(lines, 'is', value)         1 if a line is the value, after fold_case; the value is folded already
//   any_line(lines, 'glob', pattern)     1 if the glob matches a whole line; likewise
//   any_line(lines, 'has', value)        1 if a line contains the value; likewise
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
