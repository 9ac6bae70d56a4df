// Text to token ids, exactly as the checkpoint's own tokenizer does it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"

namespace saccade {

// One text as a model reads it.
struct TokenizedText {
  // Start and end tokens included, padding not. At most the asked-for length.
  std::vector<int32_t> ids;
  // Text tokens (without start, end and padding) that `ids` holds, and those cut off behind them.
  int64_t used = 0;
  int64_t dropped = 0;
};

enum class TextCleanup {
  kTokenizerFile,  // what the tokenizer's own files say (transformers)
  // html.unescape twice, strip, collapse white space, lower (OpenAI's and OpenCLIP's code). Unlike there,
  // ftfy does not run first: mojibake, curly quotes, ligatures and full-width letters stay as they are.
  // Padding is id 0.
  kOpenAi,
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Any bytes: invalid UTF-8 is read as U+FFFD, what lies past 256 MiB not at all. At most max_tokens ids (>=
  // 2), the end token kept when text is cut. Thread-safe. Cost: linear in the text's length, n log n in a
  // word's.
  [[nodiscard]] virtual TokenizedText encode(std::string_view text, int64_t max_tokens) const = 0;
  [[nodiscard]] virtual int64_t vocabulary_size() const = 0;
  [[nodiscard]] virtual int32_t start_id() const = 0;
  [[nodiscard]] virtual int32_t end_id() const = 0;
  [[nodiscard]] virtual int32_t pad_id() const = 0;
};

// CLIP's byte-level BPE from a checkpoint folder: tokenizer.json, or vocab.json + merges.txt. kNotFound names
// what is missing, kBadData what is wrong in a file.
Result<std::unique_ptr<Tokenizer>> load_clip_tokenizer(const std::filesystem::path& folder,
                                                       TextCleanup cleanup);

}  // namespace saccade
