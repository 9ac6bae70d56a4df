// SentencePiece-style models in tokenizer.json: BPE with byte fallback (Gemma, Llama) and Unigram (T5), as in
// the tokenizers library (github.com/huggingface/tokenizers).
#pragma once

#include <memory>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/text/tokenizers/bpe.h"
#include "saccade/text/tokenizers/framed_tokenizer.h"
#include "saccade/text/tokenizers/sentencepiece_model.h"

namespace saccade {

// Encoder and its vocabulary, including special tokens.
struct JsonPieces {
  std::shared_ptr<const PieceEncoder> encoder;
  Vocabulary vocabulary;
};

// Load the model. kUnsupported names the unknown part, kBadData the error found.
Result<JsonPieces> json_bpe_pieces(const Json& json);
Result<JsonPieces> json_unigram_pieces(const Json& json);

// Tokens that post_processor puts before and after a text; empty for null.
struct JsonFrame {
  std::vector<int32_t> before;
  std::vector<int32_t> after;
};
Result<JsonFrame> json_frame(const Json& post_processor);

}  // namespace saccade
