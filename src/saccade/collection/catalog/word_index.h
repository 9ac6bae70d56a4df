// The catalog's full-text index: the words of each item's caption, file name and folders, in SQLite's FTS5,
// changed in the transaction that changes the item. Not for use outside this module.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "saccade/collection/catalog/sqlite.h"
#include "saccade/collection/catalog/word_match.h"
#include "saccade/core/error.h"

namespace saccade::store {

// The statement that makes it, as sqlite_schema keeps it.
inline constexpr std::string_view kWordIndexSql =
    "CREATE VIRTUAL TABLE words USING fts5(caption, name, folders, "
    "tokenize = 'porter unicode61 remove_diacritics 2')";
// The tables that FTS5 keeps it in; their own statements are SQLite's business,
// and differ between its versions.
inline constexpr std::string_view kWordIndexTables[] = {"words_data", "words_idx", "words_content",
                                                        "words_docsize", "words_config"};

// Maximum number of terms; later ones are ignored.
inline constexpr size_t kMostTerms = 64;
// A term that more than a quarter of the items have, and more than so many, tells nothing.
inline constexpr int64_t kFewestCommon = 32;

// Text of an item in the word index. Words follow Unicode's segmentation (text/words.h) and are separated by
// one space, so scripts written without spaces have words too.
struct WordText {
  std::string caption;
  std::string name;     // of the file, without its ending
  std::string folders;  // of the path
};
Result<WordText> word_text(std::string_view path, std::string_view caption);

// Keeps the index in step; lives within a transaction.
class WordWriter {
 public:
  static Result<WordWriter> make(Database& database);
  Status put(int64_t id, std::string_view path, std::string_view caption);
  Status remove(int64_t id);

 private:
  WordWriter(Statement add, Statement remove) : add_(std::move(add)), remove_(std::move(remove)) {}
  Statement add_;
  Statement remove_;
};

// Rebuilds the index of all items.
Status fill_word_index(Database& database);

// Differences between the word index and the items: the number of affected items, and the first of them.
struct WordFaults {
  int64_t count = 0;
  int64_t first = 0;
};
Result<WordFaults> word_faults(Database& database);

// The rows that have a term.
struct TermRows {
  std::vector<int64_t> rows;  // ascending; empty where it is common
  int64_t pictures = 0;       // that have it, up to the number from which it is common
  bool common = false;
  double weight = 0;  // as WordTerm's
};

// Looks up which rows contain which terms, in one snapshot. Each term is looked up once and cached, since
// queries share words. One thread at a time.
class TermLookup {
 public:
  // ids: one a row, 0 where no item has it.
  explicit TermLookup(std::span<const int64_t> ids);

  // Cost: of a term that is not kept, some tenth of a microsecond a picture that has it, of a quarter of all
  // pictures at most.
  Result<std::shared_ptr<const TermRows>> rows_of(Database& database, const std::string& term);
  // The fields that have it, as Collection::word_fields; 0: none of that item's.
  Result<uint8_t> fields_of(Database& database, const std::string& term, int64_t id);
  // -1 where no row is that item's.
  [[nodiscard]] int64_t row_of(int64_t id) const;

  [[nodiscard]] int64_t items() const { return std::ssize(rows_); }

 private:
  struct Known {
    std::shared_ptr<const TermRows> having;
    std::vector<uint8_t> fields;  // of each of its rows; empty: not looked up, but one by one
    int64_t asked = 0;            // times that one of them was
  };
  Status look_up_fields(Database& database, const std::string& wanted, Known& known);
  template <typename Visit>
  Status for_each_row(Database& database, const std::string& wanted, const Visit& visit);

  std::vector<std::pair<int64_t, int64_t>> rows_;  // of each id, ascending
  std::map<std::string, Known> known_;
  int64_t kept_rows_ = 0;
};

// Ranks images like Collection::match_words; `found` is the result of TermLookup for each of the terms.
WordMatches weigh_words(std::span<const std::string> terms,
                        std::span<const std::shared_ptr<const TermRows>> found, std::span<const int64_t> ids);
// Returns the fields of each term, like Collection::word_fields.
Result<std::vector<uint8_t>> word_fields(Database& database, TermLookup& lookup, int64_t id,
                                         std::span<const std::string> terms);

}  // namespace saccade::store
