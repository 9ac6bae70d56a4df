// Attention of a text model by word, and its correlation with people's ratings of the words (Verma et al.
// 2023, table 3).
//
// A text's embedding is made from the state at one token. A word's share is that token's attention to the
// word's pieces in the last block, averaged over heads. The shares of all words and punctuation marks of a
// text sum to 1; attention to the start and end tokens is left out. A word's attention is the mean share over
// the texts that contain it.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/model/encoder_backend.h"
#include "saccade/model/explain/text_attention.h"
#include "saccade/progress.h"
#include "saccade/search/visualness/lexicon.h"

namespace saccade::lab {

struct WordAttention {
  struct Sum {
    double share = 0;
    int64_t times = 0;
  };
  std::map<std::string, Sum> words;  // lower-case
  int64_t texts = 0;
  // Number of texts whose tokenization differs from that of their words one by one. Their pieces cannot be
  // assigned to words.
  int64_t unaligned = 0;
  // Number of texts whose words have shares, and the sum over them of the shares of words that name objects.
  int64_t attended = 0;
  double to_objects = 0;

  // Adds the attention over other texts.
  void add(const WordAttention& other);
};

// Computes word attention. `attention` belongs to the encoder, which has a tokenizer. Texts longer than the
// context are truncated. `objects`: the list for `to_objects`, or `nullptr`. Errors: those of
// TextAttention::attend. Cost: one forward pass per text.
Result<WordAttention> attention_by_words(const EncoderBackend& encoder, TextAttention& attention,
                                         std::span<const std::string_view> texts,
                                         const ObjectList* objects = nullptr);

struct Correlation {
  double r = 0;  // Pearson's
  double low = 0;
  double high = 0;  // by Fisher's z, as p is: two-sided, of no correlation
  double p = 1;
  int64_t n = 0;
};
// Computes Pearson's correlation; NaN throughout for fewer than 4 pairs, or if either side is constant.
Correlation pearson(std::span<const double> x, std::span<const double> y, double confidence);

// Correlates over the words that the lexicon has and that occur in more than one place, as in the study.
Correlation correlate(const WordAttention& attention, const Lexicon& lexicon, double confidence);
// Correlates two models' attention over the words that occur in more than one place for both (the study's
// table 8).
Correlation correlate(const WordAttention& a, const WordAttention& b, double confidence);

}  // namespace saccade::lab
