#include "saccade/collection/catalog/sql_text.h"

#include <new>
#include <sqlite3.h>
#include <string>
#include <string_view>

#include "saccade/core/ascii.h"
#include "saccade/text/normalize.h"

namespace saccade {
namespace {

std::string_view text_of(sqlite3_value* value) {
  const unsigned char* text = sqlite3_value_text(value);
  if (text == nullptr) return {};
  return {reinterpret_cast<const char*>(text), static_cast<size_t>(sqlite3_value_bytes(value))};
}

// No exception may pass through SQLite.
template <typename Function>
void guarded(sqlite3_context* context, Function function) {
  try {
    function();
  } catch (const std::bad_alloc&) {
    sqlite3_result_error_nomem(context);
  }
}

// Compares a folded text with a folded value; how: "is", "glob" or "has", which is within it.
bool meets(const std::string& text, std::string_view how, const std::string& value) {
  return how == "is"     ? text == value
         : how == "glob" ? sqlite3_strglob(value.c_str(), text.c_str()) == 0
                         : text.find(value) != std::string::npos;
}

void sql_folded(sqlite3_context* context, int /*count*/, sqlite3_value** values) {
  guarded(context, [&] {
    const std::string text = fold_case(text_of(values[0]));
    sqlite3_result_int(context, meets(text, text_of(values[1]), std::string(text_of(values[2]))) ? 1 : 0);
  });
}

void sql_any_line(sqlite3_context* context, int /*count*/, sqlite3_value** values) {
  guarded(context, [&] {
    const std::string lines = fold_case(text_of(values[0]));
    const std::string_view how = text_of(values[1]);
    const std::string value(text_of(values[2]));
    for (const std::string_view line : Lines(lines)) {
      // Lines are begun by a line end too.
      if (!line.empty() && meets(std::string(line), how, value)) return sqlite3_result_int(context, 1);
    }
    sqlite3_result_int(context, 0);
  });
}

}  // namespace

Status add_text_functions(sqlite3* connection) {
  constexpr int kFlags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY;
  const int folding = sqlite3_create_function_v2(connection, "folded", 3, kFlags, nullptr, sql_folded,
                                                 nullptr, nullptr, nullptr);
  const int lines = sqlite3_create_function_v2(connection, "any_line", 3, kFlags, nullptr, sql_any_line,
                                               nullptr, nullptr, nullptr);
  if (folding == SQLITE_OK && lines == SQLITE_OK) return {};
  return fail(ErrorCode::kInternal, "SQL functions: {}", sqlite3_errmsg(connection));
}

}  // namespace saccade
