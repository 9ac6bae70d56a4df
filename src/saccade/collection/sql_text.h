// SQL functions for text, which every connection to a catalog has; not for use outside this module.
//
//   fold_case(text)                      fold_case of text/normalize.h; NULL for NULL
//   any_line(lines, 'is', value)         1 if a line is the value, after fold_case; the value is folded already
//   any_line(lines, 'glob', pattern)     1 if the glob matches a whole line; likewise
//   any_line(lines, 'has', value)        1 if a line contains the value; likewise
//
// Lines end with "\n"; empty ones do not count. All are pure, and only statements may call them, never a foreign file's schema.
#pragma once

#include "saccade/core/error.h"

struct sqlite3;

namespace saccade {

// Adds the functions to the connection.
Status add_text_functions(sqlite3* connection);

}  // namespace saccade
