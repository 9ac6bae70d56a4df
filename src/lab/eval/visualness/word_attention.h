// What a text model attends to, word by word, and whether that goes with what people say of the
// words (Verma et al. 2023, table 3).
//
// A text's row is made from the state at one token. How much of that token's attention in the last block,
// averaged over heads, goes to the pieces of a word is the word's share; the shares of all words and
// signs of a text sum to 1 (what start and end token get is left out). A word's attention is the mean
// share over the texts it stands in.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/progress.h"
#include "saccade/search/visualness/lexicon.h"
#include "saccade/model/encoder.h"
#include "saccade/model/explain/text_attention.h"

namespace saccade::lab {

struct WordAttention {
  struct Sum {
    double share = 0;
    int64_t times = 0;
  };
  std::map<std::string, Sum> words;  // lower-case
  int64_t texts = 0;
  // Texts whose words, tokenized one by one, are not what the whole text is: their
  // pieces belong to no word for sure.
  int64_t unaligned = 0;
};

// Errors of TextAttention::attend. `attention`: of the encoder, which has a tokenizer. Texts longer than the
// context are read as far as it goes. Cost: a pass a text.
Result<WordAttention> attention_by_words(const EncoderBackend& encoder, TextAttention& attention,
                                         std::span<const std::string_view> texts);

struct Correlation {
  double r = 0;  // Pearson's
  double low = 0;
  double high = 0;  // by Fisher's z, as p is: two-sided, of no correlation
  double p = 1;
  int64_t n = 0;
};
// NaN throughout for fewer than 4 pairs, or where either side is all the same.
Correlation pearson(std::span<const double> x, std::span<const double> y, double confidence);

// Over the words that the lexicon has and that stand in more than one place, as in the study.
Correlation correlate(const WordAttention& attention, const Lexicon& lexicon, double confidence);

}  // namespace saccade::lab
