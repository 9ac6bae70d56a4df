// BERT's tokenizer. It cleans and normalizes a text and cuts it into words at white space, punctuation and
// Chinese characters. Each word is cut into the longest pieces of the vocabulary, from left to right (Wu et
// al. 2016, "Google's Neural Machine Translation System", as in tokenization.py of google-research/bert). The
// results equal those of the tokenizers library.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/text/tokenizers/bpe.h"
#include "saccade/text/tokenizers/framed_tokenizer.h"

namespace saccade {

struct BertNormalization {
  bool clean = true;             // drop control characters, white space to spaces
  bool separate_chinese = true;  // each Chinese character a word
  bool strip_accents = true;     // decompose, then drop marks without a width
  bool lowercase = true;
};

// Classes of a code point according to BERT's reference, which uses the tables of Unicode 8. Code points
// added later belong to none of the three, whatever their class is today.
bool is_bert_control(char32_t c);      // removed when text is cleaned
bool is_bert_punctuation(char32_t c);  // a word of its own
bool is_bert_accent(char32_t c);       // a mark without a width
bool is_bert_chinese(char32_t c);

// Normalizes valid UTF-8. Linear, except for long runs of combining marks (n log n).
std::string bert_normalize(std::string_view text, const BertNormalization& options);

class WordPiece : public PieceEncoder {
 public:
  struct Options {
    BertNormalization normalization;
    std::string prefix = "##";     // prefix of pieces that continue a word
    int64_t max_word_chars = 100;  // longer words are unknown
    int32_t unknown_id = 0;
  };
  WordPiece(const Vocabulary& vocabulary, Options options);
  // Cost: linear in the text, times the length of the vocabulary's longest piece.
  void append_ids(std::string_view text, std::vector<int32_t>& ids) const override;
  // Words are separated by spaces, punctuation too. The unknown token has no text.
  [[nodiscard]] std::unique_ptr<TokenDecoder> make_decoder(std::span<const int32_t> special) const override;

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  using Pieces = std::unordered_map<std::string, int32_t, Hash, std::equal_to<>>;
  void append_word(std::string_view word, std::vector<int32_t>& ids) const;

  Options options_;
  Pieces first_;        // pieces that begin a word
  Pieces continue_;     // those that go on, without the prefix
  size_t longest_ = 0;  // in bytes
};

}  // namespace saccade
