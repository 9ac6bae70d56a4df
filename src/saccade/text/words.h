// Word segmentation by Unicode's rules (UAX #29, word boundaries, in ICU's language-neutral form).
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"

namespace saccade {

struct TextSegment {
  std::string_view text;
  bool is_word = false;  // has letters, digits or ideographs; else spaces, punctuation, symbols
};

// Splits a text into consecutive segments; together they are the text. "don't" and "3.5" are one word each,
// "a-b" is two. Accepts any bytes; text beyond 1 GiB belongs to the last segment. Returns kInternal if ICU
// lacks its tables. Returns views into `text`. Linear, thread-safe.
Result<std::vector<TextSegment>> split_words(std::string_view text);

// The same for many texts, several times faster for short ones: the tables are opened once. One thread at a time.
class WordSplitter {
 public:
  // Returns kInternal if ICU lacks its tables.
  static Result<WordSplitter> open();
  WordSplitter(WordSplitter&&) noexcept;
  WordSplitter& operator=(WordSplitter&&) noexcept;
  ~WordSplitter();

  // As split_words.
  Result<std::vector<TextSegment>> split(std::string_view text);

 private:
  struct State;
  explicit WordSplitter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace saccade
