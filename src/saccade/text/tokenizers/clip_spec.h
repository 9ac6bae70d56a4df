// Specification of a CLIP tokenizer, read from a checkpoint's files and validated before anything is built
// from it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/text/tokenizers/bpe.h"
#include "saccade/tokenizer.h"

namespace saccade {

enum class NormalizerStep { kNfc, kCollapseWhiteSpace, kLowercase };

// Treatment of "<|startoftext|>" and "<|endoftext|>" that appear only in normalized text ("<|ENDOFTEXT|>").
enum class SpecialWords {
  kPlain,   // nothing special: punctuation and letters
  kWhole,   // one word, to be cut into pieces like any other
  kSplit,   // one word, then "<|", the letters and "|>": what the byte-level step makes of it
  kTokens,  // the token itself (OpenAI's code)
};

// Token that is matched in a text before it is cut into words.
struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool normalized = false;  // looked for in normalized text, otherwise in the text as it is
};

struct ClipTokenizerSpec {
  Vocabulary vocabulary;  // with the added tokens
  std::vector<BpeMerge> merges;
  std::string suffix = "</w>";
  std::optional<int32_t> unknown;
  std::vector<NormalizerStep> normalizer;
  SpecialWords special_words = SpecialWords::kSplit;
  std::vector<AddedToken> added_tokens;
  int32_t start_id = 0;
  int32_t end_id = 0;
  int32_t pad_id = 0;
};

// Reads the specification from tokenizer.json. `config` is the object in tokenizer_config.json or
// special_tokens_map.json; it provides the padding token and special tokens that tokenizer.json lacks.
// Returns kUnsupported with the part that differs from CLIP, or kBadData with the error found.
Result<ClipTokenizerSpec> clip_spec_from_tokenizer_json(const Json& json, const Json& config);

// Reads the specification from vocab.json and the text of merges.txt; `config` gives the special tokens'
// names if they differ from CLIP's. Errors begin with the file's name.
Result<ClipTokenizerSpec> clip_spec_from_vocab_and_merges(const Json& vocab, std::string_view merges,
                                                          const Json& config);

// Makes the tokenizer. With TextCleanup::kOpenAi only vocabulary, merges and suffix are used. Start, end and
// padding are then "<|startoftext|>", "<|endoftext|>" and 0, as in OpenAI's code.
Result<std::unique_ptr<Tokenizer>> make_clip_tokenizer(const ClipTokenizerSpec& spec, TextCleanup cleanup);

}  // namespace saccade
