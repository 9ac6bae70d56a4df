// What a text model attends to: in its last block, from the token whose state a
// text's row (or class) is made of.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/model/encoder.h"
#include "saccade/tokenizer.h"

namespace saccade {

class TextAttention {
 public:
  virtual ~TextAttention() = default;
  // One weight a token of the text, averaged over the heads; they sum to 1. Errors as encode_texts has. Not
  // thread-safe. Cost: a forward pass over one text.
  [[nodiscard]] virtual Result<std::vector<double>> attend(const TokenizedText& text) = 0;
};

// Of a classifier of texts: at its first token, by its own maps; `encoder` must outlive the result. Of a
// CLIP: at its end token; its text tower is read a second time from the encoder's checkpoint, in float32 and
// mapped. Nothing (nullptr) for others. `threads`: as EncoderOptions has them.
Result<std::unique_ptr<TextAttention>> open_text_attention(EncoderBackend& encoder,
                                                           const std::filesystem::path& checkpoint,
                                                           int threads);

}  // namespace saccade
