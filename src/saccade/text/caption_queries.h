// Queries as people might type them, whose right answers are known: words and phrases of pictures' captions;
// and a list of everyday words that stands for what people look for anywhere.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace saccade {

// A thousand everyday nouns and short phrases of English, in an order that mixes them: any first part is as
// varied as all. Written for this project, under its licence.
std::vector<std::string_view> everyday_words();

// The words of a text in lower case: runs of letters, digits and marks.
std::vector<std::string> caption_words(std::string_view text);
// The captions that stand side by side in one text, as `saccade index` joins them: "bell; alarm" are two.
std::vector<std::string_view> caption_parts(std::string_view text);

struct CaptionQuery {
  std::string text;
  int64_t from = 0;  // the caption that it was drawn from
  // The captions that have all its words, ascending: what it asks for, as far as captions tell.
  std::vector<int64_t> right;
};

// Which captions have which words, and queries drawn from them.
class CaptionIndex {
 public:
  explicit CaptionIndex(std::span<const std::string> captions);
  // The captions that have all words of the text, ascending; none for a text without words.
  [[nodiscard]] std::vector<int64_t> with_all_words(std::string_view text) const;
  // Up to `count` different queries, each of another caption as long as there are any: by turns a whole part
  // of a caption, and one of its words of three letters or more. Those that more than `most_right` captions,
  // or more than a tenth of all, answer are left out: they are no search. Deterministic in `seed`. `of`: the
  // captions to draw from, by number; empty: all.
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
