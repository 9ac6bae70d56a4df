// CLIP's tokenizer: normalizes a text, cuts it into words, and byte pair encodes each.
//
// There are two references, which differ in the steps before the words: the tokenizers library with
// tokenizer.json, and OpenAI's simple_tokenizer.py (github.com/openai/CLIP), which OpenCLIP uses too.
#include <algorithm>
#include <cassert>
#include <unordered_map>

#include <unicode/uchar.h>

#include "saccade/core/files/files.h"
#include "saccade/text/normalize.h"
#include "saccade/text/token_decoder.h"
#include "saccade/text/tokenizers/clip_spec.h"
#include "saccade/text/tokenizers/prefix_trie.h"
#include "saccade/text/tokenizers/tokenizer_files.h"
#include "saccade/text/utf8.h"

namespace saccade {
namespace {

constexpr std::string_view kStart = "<|startoftext|>";
constexpr std::string_view kEnd = "<|endoftext|>";
constexpr size_t kMaxTextBytes = size_t{1} << 28;  // keeps all positions within 32 bits after any step

UChar32 icu(char32_t code_point) {
  return static_cast<UChar32>(code_point);
}

enum class CharacterClass { kLetter, kNumber, kSpace, kOther };

CharacterClass class_of(char32_t c) {
  if (c < 0x80) {
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return CharacterClass::kLetter;
    if (c >= '0' && c <= '9') return CharacterClass::kNumber;
    return c == ' ' || (c >= '\t' && c <= '\r') ? CharacterClass::kSpace : CharacterClass::kOther;
  }
  const uint32_t category = U_GET_GC_MASK(icu(c));
  if ((category & U_GC_L_MASK) != 0) return CharacterClass::kLetter;
  if ((category & U_GC_N_MASK) != 0) return CharacterClass::kNumber;
  return u_isUWhiteSpace(icu(c)) != 0 ? CharacterClass::kSpace : CharacterClass::kOther;
}

// Returns the number of bytes at the text's beginning that match the lower-case `literal`, or 0. Case is
// folded if the reference's pattern ignores it. In lower-case text only U+017F is affected, which folds to
// "s".
size_t match_literal(std::string_view text, std::string_view literal, bool fold_case) {
  if (text.starts_with(literal)) return literal.size();
  if (!fold_case) return 0;
  constexpr std::string_view kLongS = "\u017f";
  const size_t before = text.size();
  for (const char c : literal) {
    if (text.starts_with(c)) {
      text.remove_prefix(1);
    } else if (c == 's' && text.starts_with(kLongS)) {
      text.remove_prefix(kLongS.size());
    } else {
      return 0;
    }
  }
  return before - text.size();
}

// Pieces are written in the characters of byte_piece(); the suffix ends a word.
class ClipDecoder : public TokenDecoder {
 public:
  explicit ClipDecoder(const ClipTokenizerSpec& spec) {
    std::unordered_map<std::string, char> bytes;
    for (int byte = 0; byte < 256; ++byte) {
      bytes.emplace(byte_piece(static_cast<uint8_t>(byte)), static_cast<char>(byte));
    }
    for (const auto& [piece, id] : spec.vocabulary) {
      const bool last = !spec.suffix.empty() && piece.ends_with(spec.suffix);
      const std::string_view body(piece.data(), piece.size() - (last ? spec.suffix.size() : 0));
      std::string text;
      for (size_t at = 0; at < body.size();) {
        const size_t begin = at;
        next_code_point(body, at);
        const auto found = bytes.find(std::string(body.substr(begin, at - begin)));
        if (found != bytes.end()) text += found->second;
      }
      if (last) text += ' ';
      pieces_.emplace(id, std::move(text));
    }
    for (const AddedToken& token : spec.added_tokens) pieces_.erase(token.id);
    for (const int32_t id : {spec.start_id, spec.end_id}) pieces_.erase(id);
  }

  [[nodiscard]] std::string decode(std::span<const int32_t> ids) const override {
    std::string text;
    for (const int32_t id : ids) {
      const auto found = pieces_.find(id);
      if (found != pieces_.end()) text += found->second;
    }
    if (text.ends_with(' ')) text.pop_back();
    return to_valid_utf8(text);
  }

 private:
  std::unordered_map<int32_t, std::string> pieces_;
};

class ClipTokenizer : public Tokenizer, public DecodableTokenizer {
 public:
  ClipTokenizer(Bpe bpe, ClipTokenizerSpec spec, TextCleanup cleanup)
      : bpe_(std::move(bpe)), spec_(std::move(spec)), cleanup_(cleanup) {
    // If normalization makes two tokens equal, the first one wins, because it is inserted last.
    for (auto token = spec_.added_tokens.rbegin(); token != spec_.added_tokens.rend(); ++token) {
      if (!token->normalized) {
        raw_tokens_.insert(token->content, token->id);
      } else if (const std::string content = normalize(token->content); !content.empty()) {
        normalized_tokens_.insert(content, token->id);
      }
    }
  }

  [[nodiscard]] TokenizedText encode(std::string_view text, int64_t max_tokens) const override {
    assert(max_tokens >= 2);
    Bpe::Scratch scratch;
    std::vector<int32_t> ids;
    const std::string valid = to_valid_utf8(text.substr(0, kMaxTextBytes));
    if (cleanup_ == TextCleanup::kOpenAi) {
      encode_words(clean_as_openai(valid), scratch, ids);
    } else {
      split_at_tokens(valid, raw_tokens_, ids, [&](std::string_view part) {
        split_at_tokens(normalize(part), normalized_tokens_, ids,
                        [&](std::string_view words) { encode_words(words, scratch, ids); });
      });
    }

    TokenizedText result;
    result.used = std::min(static_cast<int64_t>(ids.size()), max_tokens - 2);
    result.dropped = static_cast<int64_t>(ids.size()) - result.used;
    result.ids.reserve(static_cast<size_t>(result.used) + 2);
    result.ids.push_back(spec_.start_id);
    result.first = 1;
    result.ids.insert(result.ids.end(), ids.begin(), ids.begin() + result.used);
    result.ids.push_back(spec_.end_id);
    return result;
  }

  [[nodiscard]] int64_t vocabulary_size() const override {
    return static_cast<int64_t>(spec_.vocabulary.size());
  }
  [[nodiscard]] int32_t start_id() const override { return spec_.start_id; }
  [[nodiscard]] int32_t end_id() const override { return spec_.end_id; }
  [[nodiscard]] int32_t pad_id() const override { return spec_.pad_id; }
  [[nodiscard]] std::unique_ptr<TokenDecoder> make_decoder() const override {
    return std::make_unique<ClipDecoder>(spec_);
  }

 private:
  [[nodiscard]] std::string normalize(std::string_view text) const {
    std::string normalized(text);
    for (const NormalizerStep step : spec_.normalizer) {
      switch (step) {
        case NormalizerStep::kNfc:
          normalized = to_nfc(std::move(normalized));
          break;
        case NormalizerStep::kCollapseWhiteSpace:
          normalized = collapse_white_space(normalized);
          break;
        case NormalizerStep::kLowercase:
          normalized = lowercase_each(normalized);
          break;
      }
    }
    return normalized;
  }

  // Appends the ids of the tokens matched in the text, the longest at each position, and passes the text
  // between them to `rest`.
  template <typename Rest>
  static void split_at_tokens(std::string_view text, const PrefixTrie& tokens, std::vector<int32_t>& ids,
                              Rest rest) {
    size_t begin = 0;
    for (size_t i = 0; i < text.size();) {
      const PrefixTrie::Match found = tokens.longest(text.substr(i));
      if (found.length == 0) {
        ++i;
        continue;
      }
      if (i > begin) rest(text.substr(begin, i - begin));
      ids.push_back(found.value);
      i += found.length;
      begin = i;
    }
    if (begin < text.size()) rest(text.substr(begin));
  }

  // The words of <\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+
  void encode_words(std::string_view text, Bpe::Scratch& scratch, std::vector<int32_t>& ids) const {
    const bool fold_case = cleanup_ == TextCleanup::kOpenAi;
    while (!text.empty()) {
      if (spec_.special_words != SpecialWords::kPlain && text[0] == '<') {
        const size_t start = match_literal(text, kStart, fold_case);
        const size_t size = start != 0 ? start : match_literal(text, kEnd, fold_case);
        if (size != 0) {
          encode_special_word(text.substr(0, size), scratch, ids);
          text.remove_prefix(size);
          continue;
        }
      }
      const size_t size = word_size(text, fold_case);
      if (size == 0) {
        size_t space = 0;
        next_code_point(text, space);
        text.remove_prefix(space);
        continue;
      }
      bpe_.encode(text.substr(0, size), scratch, ids);
      text.remove_prefix(size);
    }
  }

  void encode_special_word(std::string_view word, Bpe::Scratch& scratch, std::vector<int32_t>& ids) const {
    if (spec_.special_words == SpecialWords::kTokens && (word == kStart || word == kEnd)) {
      ids.push_back(word == kStart ? spec_.start_id : spec_.end_id);
    } else if (spec_.special_words == SpecialWords::kSplit) {
      bpe_.encode(word.substr(0, 2), scratch, ids);
      bpe_.encode(word.substr(2, word.size() - 4), scratch, ids);
      bpe_.encode(word.substr(word.size() - 2), scratch, ids);
    } else {
      bpe_.encode(word, scratch, ids);
    }
  }

  // Returns the length in bytes of the word at the text's beginning, 0 if it begins with white space.
  static size_t word_size(std::string_view text, bool fold_case) {
    if (text[0] == '\'') {
      for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
        if (const size_t size = match_literal(text, ending, fold_case)) return size;
      }
    }
    size_t end = 0;
    const CharacterClass first = class_of(next_code_point(text, end));
    if (first == CharacterClass::kSpace) return 0;
    if (first == CharacterClass::kNumber) return end;
    while (end < text.size()) {
      size_t next = end;
      if (class_of(next_code_point(text, next)) != first) break;
      end = next;
    }
    return end;
  }

  Bpe bpe_;
  ClipTokenizerSpec spec_;
  TextCleanup cleanup_;
  PrefixTrie raw_tokens_;
  PrefixTrie normalized_tokens_;
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> make_clip_tokenizer(const ClipTokenizerSpec& spec, TextCleanup cleanup) {
  ClipTokenizerSpec used = spec;
  if (cleanup == TextCleanup::kOpenAi) {
    for (auto& [token, id] : {std::pair(kStart, &used.start_id), std::pair(kEnd, &used.end_id)}) {
      const auto found = used.vocabulary.find(std::string(token));
      if (found == used.vocabulary.end())
        return fail(ErrorCode::kBadData, "\"{}\" is not in the vocabulary", token);
      *id = found->second;
    }
    used.pad_id = 0;
    used.special_words = SpecialWords::kTokens;
    used.added_tokens.clear();
    used.normalizer.clear();
  }
  SACCADE_ASSIGN(Bpe bpe, Bpe::make(used.vocabulary, used.merges, used.suffix, used.unknown));
  used.merges.clear();
  return std::make_unique<ClipTokenizer>(std::move(bpe), std::move(used), cleanup);
}

bool is_clip_tokenizer(const TokenizerFiles& files) {
  return files.model_type() == "BPE" || (files.tokenizer_json.is_null() && files.has("vocab.json"));
}

Result<std::unique_ptr<Tokenizer>> load_clip_tokenizer(const TokenizerFiles& files, TextCleanup cleanup) {
  if (!files.tokenizer_json.is_null()) {
    const std::string path = (files.folder / "tokenizer.json").string();
    SACCADE_ASSIGN(const ClipTokenizerSpec spec,
                   clip_spec_from_tokenizer_json(files.tokenizer_json, files.config).in(path));
    return make_clip_tokenizer(spec, cleanup).in(path);
  }
  SACCADE_ASSIGN(const Json vocab, read_json(files.folder / "vocab.json"));
  SACCADE_ASSIGN(const std::string merges, read_file(files.folder / "merges.txt"));
  const std::string folder = files.folder.string();
  SACCADE_ASSIGN(const ClipTokenizerSpec spec,
                 clip_spec_from_vocab_and_merges(vocab, merges, files.config).in(folder));
  return make_clip_tokenizer(spec, cleanup).in(folder);
}

}  // namespace saccade
