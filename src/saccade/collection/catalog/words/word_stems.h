// Stems of words as the word index compares them, by FTS5's own tokenizer
// (https://www.sqlite.org/fts5.html, section 7.1).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/collection/catalog/words/word_text.h"
#include "saccade/core/error.h"
#include "saccade/text/words.h"

namespace saccade::store {

// Returns the words of a text, separated by spaces: a field of a WordText.
Result<std::string> spaced_words(WordSplitter& splitter, std::string_view text);

// One thread at a time.
class WordStems {
 public:
  static Result<WordStems> make();
  WordStems(WordStems&& other) noexcept;
  WordStems& operator=(WordStems&& other) noexcept;
  ~WordStems();

  // Returns the stems of a field of a WordText, in order. Cost: some tenths of a microsecond a word.
  Result<std::vector<std::string>> of_field(std::string_view field);
  // Returns the words of a query's term, separated by spaces like a field of a WordText.
  Result<std::string> words_of(std::string_view term);
  // Returns the stems of the words of a query's term, in order.
  Result<std::vector<std::string>> of_term(std::string_view term);
  // Returns the stems of an item's caption, folders and name, in this order.
  Result<std::vector<std::string>> of(const WordText& text);

 private:
  struct Tokenizer;
  WordStems(WordSplitter splitter, std::unique_ptr<Tokenizer> tokenizer);

  WordSplitter splitter_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

// Returns true if the stems of a term stand side by side in a field. A term without stems is in none.
bool has_phrase(std::span<const std::string> field, std::span<const std::string> term);

}  // namespace saccade::store
