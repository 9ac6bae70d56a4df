// Text to token ids, exactly as the checkpoint's own tokenizer does it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/result.h"

#pragma GCC visibility push(default)
namespace saccade {

// One text as a model reads it.
struct TokenizedText {
  // Start and end tokens included, padding not. At most the asked-for length.
  std::vector<int32_t> ids;
  int64_t used = 0;     // text tokens in `ids`, without start, end and padding
  int64_t dropped = 0;  // text tokens cut off behind them
  // Index in `ids` of the text's first own token. The text's tokens are ids[first] .. ids[first + used - 1].
  // A start token, and a prompt behind it, may precede them; an end token may follow.
  int64_t first = 0;
};

// Token limit that cuts nothing.
inline constexpr int64_t kWholeText = int64_t{1} << 40;

// Normalization of a text before it is split into tokens.
enum class TextCleanup {
  kTokenizerFile,  // what the tokenizer's own files say (transformers)
  // html.unescape twice, strip, collapse white space, lower (OpenAI's and OpenCLIP's code). Unlike there,
  // ftfy does not run first: mojibake, curly quotes, ligatures and full-width letters stay as they are.
  // Padding is id 0.
  kOpenAi,
  // SigLIP's three references clean texts differently for the same weights. transformers: lower, ASCII
  // punctuation removed, white space collapsed, strip.
  kSiglip,
  // OpenCLIP: html.unescape twice (ftfy left out as above), "_" to space, ASCII punctuation removed, lower,
  // white space collapsed, strip.
  kCanonical,
  // SigLIP 2 in transformers: lower, one code point at a time, nothing else.
  kLower,
  // big_vision: lower, ASCII letters alone (tf.strings.lower), nothing else.
  kLowerAscii,
  // LAVIS (BLIP, BLIP-2): lower case, . ! " ( ) * # : ; ~ to spaces, runs of white space to one space, line
  // ends and then spaces stripped. LAVIS' limit of 50 words is not applied; the limit on tokens applies
  // instead and counts what it drops.
  kLavis,
};
// Returns the name of a clean-up, such as "openai".
std::string_view name(TextCleanup cleanup);
// Earlier name of name().
[[deprecated("use name()")]] std::string_view cleanup_name(TextCleanup cleanup);

// Applies a clean-up to valid UTF-8 before tokenization; kTokenizerFile changes nothing.
std::string clean_text(std::string_view text, TextCleanup cleanup);

// Tokenizer of a checkpoint. Thread-safe.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Any bytes: invalid UTF-8 is read as U+FFFD, what lies past 256 MiB not at all. At most max_tokens
  // ids (2 or more), the end token kept when text is cut. Thread-safe. Cost: linear in the text's
  // length, n log n in that of a word.
  [[nodiscard]] virtual TokenizedText encode(std::string_view text, int64_t max_tokens) const = 0;
  // Number of ids; all are below it.
  [[nodiscard]] virtual int64_t vocabulary_size() const = 0;
  // Id of the token before a text.
  [[nodiscard]] virtual int32_t start_id() const = 0;
  // Id of the token after a text.
  [[nodiscard]] virtual int32_t end_id() const = 0;
  // Id that fills up a batch.
  [[nodiscard]] virtual int32_t pad_id() const = 0;
};

// Loads the tokenizer of a checkpoint folder. Its files determine the kind: the byte-pair encodings of CLIP, WordPiece
// (BERT), or SentencePiece. kNotFound without tokenizer files, kUnsupported for an unknown kind or option, kBadData for a
// fault in a file; messages name the file.
Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::filesystem::path& folder, TextCleanup cleanup);

// Returns CLIP's own tokenizer of 49,408 tokens (OpenAI's bpe_simple_vocab_16e6), with OpenAI's clean-up.
// OpenAI's and OpenCLIP's checkpoints are published without tokenizer files, as their programs include it. It
// is built into the program; an error is a fault of the build. Cost: about 0.1 s.
Result<std::unique_ptr<Tokenizer>> published_clip_tokenizer();

}  // namespace saccade
#pragma GCC visibility pop
