// Tokenizers of the SentencePiece tradition: text to pieces, special tokens found in the text, and a frame of
// special tokens around it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/text/tokenizers/prefix_trie.h"
#include "saccade/tokenizer.h"
#include "saccade/text/tokenizers/tokenizer_files.h"

namespace saccade {

// Text without special tokens to ids. Immutable.
class PieceEncoder {
 public:
  virtual ~PieceEncoder() = default;
  // text: valid UTF-8 of at most kMaxPieceText bytes.
  virtual void append_ids(std::string_view text, std::vector<int32_t>& ids) const = 0;
};

// Keeps working memory (some 60 bytes a byte of text, which normalization can make several of) below 1 GB.
constexpr size_t kMaxPieceText = size_t{1} << 22;

// Tokens that are found in text as it stands, the longest of those that begin at one place.
class AddedTokens {
 public:
  struct Token {
    int32_t id = 0;
    bool strips_left = false;  // takes the white space beside it along
    bool strips_right = false;
  };
  void insert(const std::string& text, Token token);
  // One of a tokenizer file's list, beside `vocabulary` pieces: kBadData for an id past `limit` more than
  // these, kUnsupported for one that must be a word of its own.
  Status insert_listed(const Json& token, int32_t id, size_t vocabulary, size_t limit);
  [[nodiscard]] bool empty() const { return tokens_.empty(); }
  [[nodiscard]] int32_t highest_id() const { return highest_id_; }
  // -1 without.
  [[nodiscard]] int32_t find(std::string_view text) const;
  // Appends the ids of the tokens in the text, and of what lies between them by `encoder`.
  void append_ids(std::string_view text, const PieceEncoder& encoder, std::vector<int32_t>& ids) const;

 private:
  std::vector<Token> tokens_;
  PrefixTrie places_;  // text -> index into tokens_
  int32_t highest_id_ = -1;
};

// Everything about such a tokenizer but how its texts are framed in the end.
struct PieceTokenizer {
  std::shared_ptr<const PieceEncoder> encoder;
  AddedTokens added;
  int64_t vocabulary_size = 0;
  int32_t start_id = 0;  // where a vocabulary has none: the end token's
  int32_t end_id = 0;
  int32_t pad_id = 0;
  // The frame its own files ask for.
  std::vector<int32_t> before;
  std::vector<int32_t> after;

  // The ids of a text alone. Any bytes; what lies past kMaxPieceText not at all.
  [[nodiscard]] std::vector<int32_t> ids_of(std::string_view text) const;
};

// From a folder with spiece.model, tokenizer.model or a tokenizer.json of such a kind.
Result<PieceTokenizer> load_piece_tokenizer(const TokenizerFiles& files);

// Makes a tokenizer that puts `before` and `after` around each text; both are kept when a text is cut.
// `prompt` is prepended to every text, and is not counted in `used`.
std::unique_ptr<Tokenizer> make_framed_tokenizer(PieceTokenizer pieces, std::vector<int32_t> before,
                                                 std::vector<int32_t> after, std::string prompt = {});

}  // namespace saccade
