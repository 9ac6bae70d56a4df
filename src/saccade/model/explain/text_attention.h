// Attention of a text model in its last block, from the token whose state becomes the text's embedding (or
// class).
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/model/encoder_backend.h"
#include "saccade/tokenizer.h"

namespace saccade {

class TextAttention {
 public:
  virtual ~TextAttention() = default;
  // Returns one weight per token of the text, averaged over the heads; they sum to 1. Returns the errors of
  // encode_texts. Not thread-safe. Cost: a forward pass over one text.
  [[nodiscard]] virtual Result<std::vector<double>> attend(const TokenizedText& text) = 0;
};

// Opens the attention of a text model. A text classifier uses its first token and its own maps; `encoder`
// must outlive the result. A CLIP uses its end token; its text tower is loaded again from the encoder's
// checkpoint, in float32 and mapped. Returns nullptr for other encoders. `threads`: as in EncoderOptions.
Result<std::unique_ptr<TextAttention>> open_text_attention(EncoderBackend& encoder,
                                                           const std::filesystem::path& checkpoint,
                                                           int threads);

}  // namespace saccade
