// SentencePiece-style tokenizers: segmentation into pieces, special tokens matched in the text, and a frame
// of special tokens around it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/text/token_decoder.h"
#include "saccade/text/tokenizers/prefix_trie.h"
#include "saccade/text/tokenizers/tokenizer_files.h"
#include "saccade/tokenizer.h"

namespace saccade {

// Encoder of text without special tokens. Immutable.
class PieceEncoder {
 public:
  virtual ~PieceEncoder() = default;
  // Encodes a text: valid UTF-8 of at most kMaxPieceText bytes.
  virtual void append_ids(std::string_view text, std::vector<int32_t>& ids) const = 0;
  // Returns a decoder to which the ids `special` have no text, or `nullptr` if these pieces cannot be decoded.
  [[nodiscard]] virtual std::unique_ptr<TokenDecoder> make_decoder(std::span<const int32_t>) const {
    return nullptr;
  }
};

// Maximum length of a text in bytes. Keeps working memory below 1 GB (about 60 bytes per byte of text, which
// normalization can expand).
constexpr size_t kMaxPieceText = size_t{1} << 22;

// Tokens that are matched in the unmodified text; the longest match at a position wins.
class AddedTokens {
 public:
  struct Token {
    int32_t id = 0;
    bool strips_left = false;  // takes the white space beside it along
    bool strips_right = false;
  };
  void insert(const std::string& text, Token token);
  // Inserts a token from a tokenizer file's list, in addition to `vocabulary` pieces. Returns kBadData for an
  // id more than `limit` past these, and kUnsupported for a token that must be a word of its own.
  Status insert_listed(const Json& token, int32_t id, size_t vocabulary, size_t limit);
  [[nodiscard]] bool empty() const { return tokens_.empty(); }
  [[nodiscard]] int32_t highest_id() const { return highest_id_; }
  [[nodiscard]] std::vector<int32_t> ids() const;
  // Returns the id of a token, or -1.
  [[nodiscard]] int32_t find(std::string_view text) const;
  // Appends the ids of the tokens in the text, and of the text between them by `encoder`.
  void append_ids(std::string_view text, const PieceEncoder& encoder, std::vector<int32_t>& ids) const;

 private:
  std::vector<Token> tokens_;
  PrefixTrie places_;  // text -> index into tokens_
  int32_t highest_id_ = -1;
};

// Parts of such a tokenizer, except for the final frame.
struct PieceTokenizer {
  std::shared_ptr<const PieceEncoder> encoder;
  AddedTokens added;
  int64_t vocabulary_size = 0;
  int32_t start_id = 0;  // the end token's id if the vocabulary has no start token
  int32_t end_id = 0;
  int32_t pad_id = 0;
  // Frame that its own files specify.
  std::vector<int32_t> before;
  std::vector<int32_t> after;

  // Returns the ids of a text without a frame. Accepts any bytes; text beyond kMaxPieceText is ignored.
  [[nodiscard]] std::vector<int32_t> ids_of(std::string_view text) const;
};

// Loads from a folder with spiece.model, tokenizer.model or a tokenizer.json of such a kind.
Result<PieceTokenizer> load_piece_tokenizer(const TokenizerFiles& files);

// Makes a tokenizer that puts `before` and `after` around each text; both are kept when a text is cut.
// `prompt` is prepended to every text, and is not counted in `used`.
std::unique_ptr<Tokenizer> make_framed_tokenizer(PieceTokenizer pieces, std::vector<int32_t> before,
                                                 std::vector<int32_t> after, std::string prompt = {});
// Makes it with the frame that its own files specify, behind a clean-up unless those specify that too.
std::unique_ptr<Tokenizer> make_framed_tokenizer(PieceTokenizer pieces, TextCleanup cleanup);

}  // namespace saccade
