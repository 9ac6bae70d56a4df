#include "saccade/collection/catalog/words/word_counts.h"

#include <new>
#include <sqlite3.h>
#include <string_view>

#include "saccade/collection/catalog/words/word_functions.h"

namespace saccade::store {
namespace {

// Type of the pointer that the function is given: no text of a statement can name one.
constexpr const char* kCountingType = "saccade_word_counts";

struct Counting {
  WordCounts counts = {};
  int64_t most = 0;
};

// Counts the occurrences in the text that the cursor is at.
int count_text(const Fts5ExtensionApi* api, Fts5Context* cursor, void* to) {
  auto& [counts, most] = *static_cast<Counting*>(to);
  Fts5PhraseIter place;
  int column = 0;
  int offset = 0;
  int64_t occurrences = 0;
  if (const int result = api->xPhraseFirst(cursor, 0, &place, &column, &offset); result != SQLITE_OK)
    return result;
  for (; column >= 0; api->xPhraseNext(cursor, &place, &column, &offset)) ++occurrences;
  // No exception may pass through SQLite.
  try {
    counts.found.emplace_back(api->xRowid(cursor), occurrences);
  } catch (const std::bad_alloc&) {
    return SQLITE_NOMEM;
  }
  return std::ssize(counts.found) < most ? SQLITE_OK : SQLITE_DONE;
}

// word_counts(words, pointer), at the first match of a query of one phrase. Counts all matches.
void word_counts(const Fts5ExtensionApi* api, Fts5Context* cursor, sqlite3_context* context, int count,
                 sqlite3_value** values) {
  auto* counting =
      count == 1 ? static_cast<Counting*>(sqlite3_value_pointer(values[0], kCountingType)) : nullptr;
  if (counting == nullptr || api->xPhraseCount(cursor) != 1) {
    sqlite3_result_error(context, "word_counts: expected counts and one phrase", -1);
    return;
  }
  sqlite3_int64 texts = 0;
  sqlite3_int64 words = 0;
  int result = api->xRowCount(cursor, &texts);
  if (result == SQLITE_OK) result = api->xColumnTotalSize(cursor, -1, &words);
  if (result == SQLITE_OK) result = api->xQueryPhrase(cursor, 0, counting, count_text);
  if (result != SQLITE_OK) {
    sqlite3_result_error_code(context, result);
    return;
  }
  counting->counts.texts = texts;
  counting->counts.words = words;
}

}  // namespace

Result<WordCounts> count_words(Database& database, const std::string& term, int64_t most) {
  Counting counting{.most = most};
  SACCADE_ASSIGN(const KeptStatement statement,
                 database.kept("SELECT word_counts(words, ?2) FROM words WHERE words MATCH ?1 LIMIT 1"));
  statement->bind(std::string_view(term)).bind_pointer(&counting, kCountingType);
  SACCADE_TRY(statement->step());
  return std::move(counting.counts);
}

int add_word_functions(sqlite3* connection) {
  fts5_api* api = nullptr;
  sqlite3_stmt* statement = nullptr;
  int result = sqlite3_prepare_v2(connection, "SELECT fts5(?1)", -1, &statement, nullptr);
  if (result != SQLITE_OK) return result;
  sqlite3_bind_pointer(statement, 1, static_cast<void*>(&api), "fts5_api_ptr", nullptr);
  sqlite3_step(statement);
  result = sqlite3_finalize(statement);
  if (result != SQLITE_OK) return result;
  if (api == nullptr) return SQLITE_ERROR;
  return api->xCreateFunction(api, "word_counts", nullptr, word_counts, nullptr);
}

}  // namespace saccade::store
