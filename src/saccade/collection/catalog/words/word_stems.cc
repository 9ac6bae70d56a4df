#include "saccade/collection/catalog/words/word_stems.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <sqlite3.h>
#include <utility>

#include "saccade/collection/catalog/sqlite.h"
#include "saccade/text/utf8.h"

namespace saccade::store {
namespace {

// FTS5 calls it for each token. The context is the list of stems.
int add_stem(void* context, int /*flags*/, const char* token, int size, int /*begin*/, int /*end*/) {
  try {
    static_cast<std::vector<std::string>*>(context)->emplace_back(token, static_cast<size_t>(size));
  } catch (const std::bad_alloc&) {
    return SQLITE_NOMEM;
  }
  return SQLITE_OK;
}

}  // namespace

Result<std::string> spaced_words(WordSplitter& splitter, std::string_view text) {
  const std::string valid = to_valid_utf8(text);
  SACCADE_ASSIGN(const std::vector<TextSegment> segments, splitter.split(valid));
  std::string words;
  for (const TextSegment& segment : segments) {
    if (!segment.is_word) continue;
    if (!words.empty()) words += ' ';
    words += segment.text;
  }
  return words;
}

struct WordStems::Tokenizer {
  Database database;  // the connection whose FTS5 has the tokenizer
  fts5_tokenizer functions = {};
  Fts5Tokenizer* handle = nullptr;

  explicit Tokenizer(Database connection) : database(std::move(connection)) {}
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;
  ~Tokenizer() {
    if (handle != nullptr) functions.xDelete(handle);
  }
};

WordStems::WordStems(WordSplitter splitter, std::unique_ptr<Tokenizer> tokenizer)
    : splitter_(std::move(splitter)), tokenizer_(std::move(tokenizer)) {}
WordStems::WordStems(WordStems&& other) noexcept = default;
WordStems& WordStems::operator=(WordStems&& other) noexcept = default;
WordStems::~WordStems() = default;

Result<WordStems> WordStems::make() {
  SACCADE_ASSIGN(WordSplitter splitter, WordSplitter::open());
  SACCADE_ASSIGN(Database database, Database::in_memory());
  auto made = std::make_unique<Tokenizer>(std::move(database));
  fts5_api* api = nullptr;
  SACCADE_ASSIGN(Statement ask, made->database.prepare("SELECT fts5(?1)"));
  SACCADE_TRY(ask.bind_pointer(static_cast<void*>(&api), "fts5_api_ptr").step());
  // As kWordIndexSql has it; a test compares the stems with those of the index.
  const char* options[] = {"unicode61", "remove_diacritics", "2"};
  void* context = nullptr;
  if (api == nullptr || api->xFindTokenizer(api, "porter", &context, &made->functions) != SQLITE_OK ||
      made->functions.xCreate(context, options, static_cast<int>(std::size(options)), &made->handle) !=
          SQLITE_OK) {
    return fail(ErrorCode::kInternal, "SQLite's full-text search has no tokenizer \"porter unicode61\"");
  }
  return WordStems(std::move(splitter), std::move(made));
}

Result<std::vector<std::string>> WordStems::of_field(std::string_view field) {
  std::vector<std::string> stems;
  const int result = tokenizer_->functions.xTokenize(tokenizer_->handle, &stems, FTS5_TOKENIZE_DOCUMENT,
                                                     field.data(), static_cast<int>(field.size()), add_stem);
  if (result == SQLITE_NOMEM) throw std::bad_alloc();
  if (result != SQLITE_OK) return fail(ErrorCode::kInternal, "a text's words: {}", sqlite3_errstr(result));
  return stems;
}

Result<std::string> WordStems::words_of(std::string_view term) {
  return spaced_words(splitter_, term);
}

Result<std::vector<std::string>> WordStems::of_term(std::string_view term) {
  SACCADE_ASSIGN(const std::string words, words_of(term));
  return of_field(words);
}

Result<std::vector<std::string>> WordStems::of(const WordText& text) {
  std::vector<std::string> all;
  for (const std::string* field : {&text.caption, &text.folders, &text.name}) {
    SACCADE_ASSIGN(std::vector<std::string> stems, of_field(*field));
    all.insert(all.end(), std::make_move_iterator(stems.begin()), std::make_move_iterator(stems.end()));
  }
  return all;
}

bool has_phrase(std::span<const std::string> field, std::span<const std::string> term) {
  return !term.empty() && std::search(field.begin(), field.end(), term.begin(), term.end()) != field.end();
}

}  // namespace saccade::store
