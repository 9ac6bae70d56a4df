// Test queries with known answers: words and phrases of image captions. Also a list of everyday words as a
// sample of general queries.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace saccade {

// Returns a thousand everyday English nouns and short phrases, mixed so that any prefix is as varied as the
// whole list. Written for this project, under its licence.
std::vector<std::string_view> everyday_words();

// Returns the words of a text in lower case: runs of letters, digits and marks.
std::vector<std::string> caption_words(std::string_view text);
// Splits a text into captions joined by `saccade index`: "bell; alarm" has two.
std::vector<std::string_view> caption_parts(std::string_view text);

struct CaptionQuery {
  std::string text;
  int64_t from = 0;  // the caption that it was drawn from
  // Numbers of the captions that contain all its words, ascending: the relevant items according to the
  // captions.
  std::vector<int64_t> right;
};

// Inverted index of captions by word, with queries drawn from them.
class CaptionIndex {
 public:
  explicit CaptionIndex(std::span<const std::string> captions);
  // Returns the captions that contain all words of the text, ascending; empty for a text without words.
  [[nodiscard]] std::vector<int64_t> with_all_words(std::string_view text) const;
  // Draws up to `count` different queries, each from another caption as long as there are any. Alternates
  // between a whole part of a caption and one of its words of three letters or more. Skips queries that match
  // more than `most_right` captions, or more than a tenth of all, because they are not selective.
  // Deterministic in `seed`. `of` lists the captions to draw from, by number; empty means all.
  [[nodiscard]] std::vector<CaptionQuery> draw(int64_t count, int64_t most_right, uint64_t seed,
                                               std::span<const int64_t> of = {}) const;

 private:
  [[nodiscard]] std::vector<int64_t> with_words(std::vector<std::string> words) const;

  struct Posting {
    std::string word;
    std::vector<int64_t> captions;  // ascending
  };
  std::vector<std::string> captions_;
  std::vector<Posting> postings_;  // by word
};

}  // namespace saccade
