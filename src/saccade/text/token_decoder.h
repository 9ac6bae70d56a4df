// Text of token ids, for the tokenizers that can restore it: CLIP's byte pair encoding and BERT's WordPiece.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "saccade/tokenizer.h"

namespace saccade {

// Decoder of token ids. Thread-safe.
class TokenDecoder {
 public:
  virtual ~TokenDecoder() = default;
  // Returns the normalized text of `ids`, as transformers' decode(ids, skip_special_tokens=True,
  // clean_up_tokenization_spaces=False) does. Special tokens, and ids outside the vocabulary, have no text. A
  // character of which only some bytes are there becomes U+FFFD. Linear.
  [[nodiscard]] virtual std::string decode(std::span<const int32_t> ids) const = 0;
};

// Interface of tokenizers that have a decoder.
class DecodableTokenizer {
 public:
  virtual ~DecodableTokenizer() = default;
  // Returns `nullptr` if the tokenizer's kind of pieces cannot be decoded.
  [[nodiscard]] virtual std::unique_ptr<TokenDecoder> make_decoder() const = 0;
};

// Returns the decoder of a tokenizer, or `nullptr` if there is none. It is independent of the tokenizer. Cost:
// a copy of the vocabulary.
inline std::unique_ptr<TokenDecoder> token_decoder(const Tokenizer& tokenizer) {
  const auto* decodable = dynamic_cast<const DecodableTokenizer*>(&tokenizer);
  return decodable == nullptr ? nullptr : decodable->make_decoder();
}

}  // namespace saccade
