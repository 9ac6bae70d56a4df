// What an encoder knows of each token, in the shared space: what composers join (composer.h).
#pragma once

#include <cstdint>
#include <span>

#include "saccade/core/error.h"
#include "saccade/matrix.h"
#include "saccade/model/encoder.h"

namespace saccade {

// The capability of encoders that bring every token to the shared space as they bring the one that stands for
// the whole: through the tower's last norm and projection. CLIP with a vision transformer has it. These have
// not: CLIP with a ResNet, SigLIP (an attention pool makes its row), ALIGN (a convolution's mean), Jina-CLIP
// (a mean of its text's tokens), encoders of late interaction and Q-Formers.
class TokenStates {
 public:
  virtual ~TokenStates() = default;
  // pixels: [n, 3 * height * width] as `preprocess` writes them. Rows [dim] of any length, picture_tokens() a
  // picture: the class token's, which is raw_image_rows' row, then the patches' row by row from the top left.
  [[nodiscard]] virtual Result<RowSets> image_tokens(MatrixView<const float> pixels) = 0;
  // One row a token, start and end included; the one at `end_token` is raw_text_rows' row. Causal: a token
  // knows nothing of those behind it.
  [[nodiscard]] virtual Result<RowSets> text_tokens(std::span<const TokenizedText> texts) = 0;
  // Rows of every picture: 1 + patches.
  [[nodiscard]] virtual int64_t picture_tokens() const = 0;
  // Which of a text's tokens stands for the whole.
  [[nodiscard]] virtual int64_t end_token(const TokenizedText& text) const = 0;
};

// The capability of encoders whose text tower can read a vector where a text has a token: textual inversion.
class WordInserter {
 public:
  virtual ~WordInserter() = default;
  [[nodiscard]] virtual int64_t word_width() const = 0;  // of the text tower's token embeddings
  // encode_texts with the embedding of token places[i] of text i replaced by words.row(i): words
  // [n, word_width]. Rows [n, dim], each of length 1. kUsage for a place that a text lacks, or
  // words of another number or width.
  [[nodiscard]] virtual Result<Matrix<float>> encode_with_words(std::span<const TokenizedText> texts,
                                                                std::span<const int64_t> places,
                                                                MatrixView<const float> words) = 0;
};

}  // namespace saccade
