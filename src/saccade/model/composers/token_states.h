// Token states of an encoder in the shared space, as inputs of composers (composer.h).
#pragma once

#include <cstdint>
#include <span>

#include "saccade/core/error.h"
#include "saccade/matrix.h"
#include "saccade/model/encoder_backend.h"

namespace saccade {

// Capability of encoders that can map every token to the shared space in the same way as the pooled one, by
// the tower's last norm and projection. CLIP with a vision transformer has it. These do not: CLIP with a
// ResNet, SigLIP (pools by attention), ALIGN (a mean of convolutional features), Jina-CLIP (a mean of its
// text's tokens), late-interaction encoders and Q-Formers.
class TokenStates {
 public:
  virtual ~TokenStates() = default;
  // Encodes pixels: [n, 3 * height * width] as written by `preprocess`. Returns picture_tokens() rows [dim]
  // of any length per image. The first is the class token's, equal to raw_image_rows' embedding; the patches'
  // follow in row-major order from the top left.
  [[nodiscard]] virtual Result<RowSets> image_tokens(MatrixView<const float> pixels) = 0;
  // Returns one row per token, start and end included; the one at `end_token` equals raw_text_rows'
  // embedding. Causal: a token's state does not depend on later tokens.
  [[nodiscard]] virtual Result<RowSets> text_tokens(std::span<const TokenizedText> texts) = 0;
  // Returns the number of rows per image: 1 + patches.
  [[nodiscard]] virtual int64_t picture_tokens() const = 0;
  // Returns the position of the token that represents the whole text.
  [[nodiscard]] virtual int64_t end_token(const TokenizedText& text) const = 0;
};

// Capability of encoders whose text tower accepts a vector in place of a token: textual inversion.
class WordInserter {
 public:
  virtual ~WordInserter() = default;
  [[nodiscard]] virtual int64_t word_width() const = 0;  // width of the text tower's token embeddings
  // Runs encode_texts with the embedding of token places[i] of text i replaced by words.row(i): words [n,
  // word_width]. Returns embeddings [n, dim] of length 1. Returns kUsage for a position outside a text, or
  // for words of another number or width.
  [[nodiscard]] virtual Result<Matrix<float>> encode_with_words(std::span<const TokenizedText> texts,
                                                                std::span<const int64_t> places,
                                                                MatrixView<const float> words) = 0;
};

// Capability of encoders whose text tower reads a text behind a prompt that it makes of an image and that
// text: SPRC (sprc.cc). BLIP-2 with a text part has it. The image's states are FrozenFeatures'
// ImageState::kVision, which such an encoder has.
class PromptReader {
 public:
  virtual ~PromptReader() = default;
  // Returns embeddings [n, dim] of length 1 of text i with image i. images: the vision tower's states of n
  // images, or of one for all texts. Returns kUsage for states of another number or shape.
  [[nodiscard]] virtual Result<Matrix<float>> encode_with_prompts(const RowSets& images,
                                                                  std::span<const TokenizedText> texts) = 0;
};

}  // namespace saccade
