// The catalog's full-text index: the words of each item's caption, file name and folders, in SQLite's FTS5,
// changed in the transaction that changes the item. Not for use outside this module.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "saccade/collection/catalog/id_rows.h"
#include "saccade/collection/catalog/item_store.h"
#include "saccade/collection/catalog/sqlite.h"
#include "saccade/collection/catalog/words/word_counts.h"
#include "saccade/collection/catalog/words/word_match.h"
#include "saccade/collection/catalog/words/word_stems.h"
#include "saccade/collection/catalog/words/word_text.h"
#include "saccade/core/error.h"
#include "saccade/text/words.h"

namespace saccade::store {

// The statement that makes it, as sqlite_schema keeps it.
inline constexpr std::string_view kWordIndexSql =
    "CREATE VIRTUAL TABLE words USING fts5(caption, name, folders, "
    "tokenize = 'porter unicode61 remove_diacritics 2')";
// The tables that FTS5 keeps it in; their own statements are SQLite's business,
// and differ between its versions.
inline constexpr std::string_view kWordIndexTables[] = {"words_data", "words_idx", "words_content",
                                                        "words_docsize", "words_config"};

// Maximum number of terms, of which WordMatch::has has a bit each; later ones are ignored.
inline constexpr size_t kMostTerms = 64;
// A term that more than a quarter of the items have, and more than so many, tells nothing.
inline constexpr int64_t kFewestCommon = 32;

// Makes the texts of items. Those of one folder mostly come one after the other: its words are kept. One thread at
// a time.
class WordTexts {
 public:
  static Result<WordTexts> make();
  Result<WordText> of(std::string_view path, std::string_view caption);

 private:
  explicit WordTexts(WordSplitter splitter) : splitter_(std::move(splitter)) {}

  WordSplitter splitter_;
  std::string folders_;  // of the last path
  std::string spaced_folders_;
};

// Keeps the index in step; lives within a transaction.
class WordWriter {
 public:
  static Result<WordWriter> make(Database& database);
  // Puts an item in place of what is there of it.
  Status put(int64_t id, std::string_view path, std::string_view caption);
  // Adds an item of which nothing is there.
  Status add(int64_t id, std::string_view path, std::string_view caption);
  Status add(int64_t id, const WordText& text);
  Status remove(int64_t id);

 private:
  WordWriter(WordTexts texts, Statement add, Statement remove)
      : texts_(std::move(texts)), add_(std::move(add)), remove_(std::move(remove)) {}
  WordTexts texts_;
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
  std::vector<float> grades;  // of each row, in (0, 1): tf / (tf + k1 (1 - b + b length / mean length))
  int64_t pictures = 0;       // that have it, up to the number from which it is common
  bool common = false;
  double weight = 0;               // as WordTerm's
  std::vector<std::string> stems;  // of the term's words (WordStems::of_term)
};

// Looks up which rows contain which terms, in one snapshot. Each term is looked up once and cached, since
// queries share words. One thread at a time.
class TermLookup {
 public:
  // rows: of the snapshot; they live as long as this. statistics: those of a larger collection that the items are from;
  // `nullopt` counts these items.
  explicit TermLookup(const IdRows& rows, std::optional<WordStatistics> statistics = {})
      : rows_(rows), statistics_(std::move(statistics)) {}

  // others: connections that see the same as `database`, for scans on several processors. Cost: of a term that is not
  // kept, some tenth of a microsecond a picture that has it, of a quarter of all pictures at most. The first term that
  // many pictures have reads the lengths of all texts, another tenth a picture on one processor.
  Result<std::shared_ptr<const TermRows>> rows_of(Database& database, std::span<Database> others,
                                                  const std::string& term);
  // Returns the rows that have a term, ascending, those of a common one too. Cost: that of rows_of(), and for a common
  // term some 50 ns for each item that has it.
  Result<std::vector<int64_t>> all_rows_of(Database& database, std::span<Database> others,
                                           const std::string& term);
  // Returns the fields of each term, like CollectionReader::word_fields. Cost: a read of the item's text, and some
  // tenths of a microsecond for each of its words.
  Result<std::vector<uint8_t>> fields_of(Database& database, int64_t id, std::span<const std::string> terms);

  [[nodiscard]] int64_t items() const { return rows_.size(); }

 private:
  // An item that has a term: its place among the entries of rows_, and the term's number of occurrences.
  struct Place {
    size_t at = 0;
    int64_t occurrences = 0;
  };

  Status make_stems();
  // Leaves out what is no item. found: as WordCounts'.
  [[nodiscard]] std::vector<Place> places_of(std::span<const std::pair<int64_t, int64_t>> found) const;
  // Reads the lengths of the texts of these items at least.
  Status read_lengths(Database& database, std::span<Database> others, std::span<const Place> places);
  // Fills rows and grades. have_it: number of items here that have the term.
  Status rank(Database& database, std::span<Database> others, const WordCounts& counts,
              std::span<const Place> places, int64_t have_it, TermRows& ranked);

  const IdRows& rows_;
  std::vector<uint32_t> lengths_;  // of the text of each entry of rows_, in words; 0 where it was not read
  bool has_all_lengths_ = false;
  std::map<std::string, std::shared_ptr<const TermRows>> known_;
  int64_t kept_rows_ = 0;
  std::optional<WordStems> stems_;  // made at the first use
  std::optional<WordStatistics> statistics_;
};

// Ranks images like CollectionReader::match_words; `found` is the result of TermLookup for each of the terms.
WordMatches weigh_words(std::span<const std::string> names,
                        std::span<const std::shared_ptr<const TermRows>> found, std::span<const int64_t> ids);
}  // namespace saccade::store
