// Vectors in the place of words: what a text encoder makes of a sentence one of whose tokens is no word of its
// vocabulary, but a vector of the table's width. Textual inversion puts a picture into a sentence this way
// (Gal et al. 2022, arXiv 2208.01618; for composed search: Baldrati et al. 2023, arXiv 2303.15247).
#pragma once

#include <cstdint>
#include <span>

#include "saccade/core/error.h"
#include "saccade/core/matrix.h"
#include "saccade/text/tokenizer.h"

namespace saccade {

// The capability of encoders whose text tower begins with a table of words.
class PseudoWords {
 public:
  virtual ~PseudoWords() = default;
  // The width of the table's rows.
  [[nodiscard]] virtual int64_t word_width() const = 0;
  // Rows [n, dim], each of length 1: of texts [n], token places[i] of text i being the vector words[i] and not
  // what the table has for its id. words: [n, word_width], as long as the table's rows are: they are taken as they are.
  // kUsage for a place that the text does not have, and for other numbers of places or words than of texts. Cost: that of
  // encode_texts.
  [[nodiscard]] virtual Result<Matrix<float>> encode_texts_with(std::span<const TokenizedText> texts,
                                                                std::span<const int64_t> places,
                                                                MatrixView<const float> words) = 0;
};

}  // namespace saccade
