#include "saccade/text/tokenizers/wordpiece.h"

#include <algorithm>
#include <array>

#include <unicode/uchar.h>

#include "saccade/text/normalize.h"
#include "saccade/text/utf8.h"

namespace saccade {
namespace {

UChar32 icu(char32_t c) {
  return static_cast<UChar32>(c);
}

// Returns true for code points in the tables of Unicode 8 and before.
bool is_old(char32_t c) {
  UVersionInfo age;
  u_charAge(icu(c), age);
  return age[0] != 0 && age[0] <= 8;
}

bool in_category(char32_t c, uint32_t mask) {
  return (U_GET_GC_MASK(icu(c)) & mask) != 0 && is_old(c);
}

bool is_space(char32_t c) {
  return u_isUWhiteSpace(icu(c)) != 0;
}

// Iterates over the code points of a text, with their bytes.
template <typename Body>
void for_code_points(std::string_view text, const Body& body) {
  for (size_t position = 0; position < text.size();) {
    const size_t begin = position;
    const char32_t c = next_code_point(text, position);
    body(c, text.substr(begin, position - begin));
  }
}

std::string without_controls(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for_code_points(text, [&](char32_t c, std::string_view bytes) {
    if (is_bert_control(c)) return;
    if (is_space(c)) {
      out += ' ';
    } else {
      out += bytes;
    }
  });
  return out;
}

std::string with_chinese_apart(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for_code_points(text, [&](char32_t c, std::string_view bytes) {
    const bool apart = is_bert_chinese(c);
    if (apart) out += ' ';
    out += bytes;
    if (apart) out += ' ';
  });
  return out;
}

std::string without_accents(std::string_view text) {
  const std::string decomposed = to_nfd(std::string(text));
  std::string out;
  out.reserve(decomposed.size());
  for_code_points(decomposed, [&](char32_t c, std::string_view bytes) {
    if (!is_bert_accent(c)) out += bytes;
  });
  return out;
}

class WordPieceDecoder : public TokenDecoder {
 public:
  WordPieceDecoder(std::unordered_map<int32_t, std::string> pieces, std::string prefix)
      : pieces_(std::move(pieces)), prefix_(std::move(prefix)) {}

  [[nodiscard]] std::string decode(std::span<const int32_t> ids) const override {
    std::string text;
    for (const int32_t id : ids) {
      const auto found = pieces_.find(id);
      if (found == pieces_.end()) continue;
      const std::string& piece = found->second;
      if (text.empty()) {
        text = piece;  // with its prefix, as in the reference
      } else if (piece.starts_with(prefix_)) {
        text.append(piece, prefix_.size());
      } else {
        text += ' ';
        text += piece;
      }
    }
    return text;
  }

 private:
  std::unordered_map<int32_t, std::string> pieces_;
  std::string prefix_;
};

}  // namespace

bool is_bert_control(char32_t c) {
  if (c < 0x7f) return c < 0x20 && c != '\t' && c != '\n' && c != '\r';
  return c == 0xfffd || in_category(c, U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK);
}

bool is_bert_punctuation(char32_t c) {
  if (c < 0x80) {
    return (c >= 0x21 && c <= 0x2f) || (c >= 0x3a && c <= 0x40) || (c >= 0x5b && c <= 0x60) ||
           (c >= 0x7b && c <= 0x7e);
  }
  // Two code points that later versions of the standard removed from their category, and one that they added.
  if (c == 0x166d || c == 0x111c9) return true;
  return in_category(c, U_GC_P_MASK);
}

bool is_bert_accent(char32_t c) {
  if (c < 0x300) return false;
  // Marks that take up no room until Unicode 14, and until 16.
  if (c == 0x1734 || c == 0x1171e) return true;
  // Marks today, but not in Unicode 8.
  if (c == 0x1885 || c == 0x1886 || c == 0xa9bd || c == 0x111c9) return false;
  return in_category(c, U_GC_MN_MASK);
}

bool is_bert_chinese(char32_t c) {
  // The last range but one begins 0x100 later than in google-research/bert, as in the tokenizers library.
  constexpr std::array<std::pair<char32_t, char32_t>, 8> kRanges = {{{0x3400, 0x4dbf},
                                                                     {0x4e00, 0x9fff},
                                                                     {0xf900, 0xfaff},
                                                                     {0x20000, 0x2a6df},
                                                                     {0x2a700, 0x2b73f},
                                                                     {0x2b740, 0x2b81f},
                                                                     {0x2b920, 0x2ceaf},
                                                                     {0x2f800, 0x2fa1f}}};
  return std::any_of(kRanges.begin(), kRanges.end(),
                     [&](const auto& range) { return c >= range.first && c <= range.second; });
}

std::string bert_normalize(std::string_view text, const BertNormalization& options) {
  std::string result(text);
  if (options.clean) result = without_controls(result);
  if (options.separate_chinese) result = with_chinese_apart(result);
  if (options.strip_accents) result = without_accents(result);
  if (options.lowercase) result = lowercase_each(result);
  return result;
}

WordPiece::WordPiece(const Vocabulary& vocabulary, Options options) : options_(std::move(options)) {
  for (const auto& [piece, id] : vocabulary) {
    if (piece.empty()) continue;
    first_.emplace(piece, id);
    longest_ = std::max(longest_, piece.size());
    if (piece.size() > options_.prefix.size() && piece.starts_with(options_.prefix)) {
      continue_.emplace(piece.substr(options_.prefix.size()), id);
    }
  }
}

void WordPiece::append_ids(std::string_view text, std::vector<int32_t>& ids) const {
  const std::string normalized = bert_normalize(text, options_.normalization);
  std::string word;
  const auto finish = [&] {
    if (!word.empty()) append_word(word, ids);
    word.clear();
  };
  for_code_points(normalized, [&](char32_t c, std::string_view bytes) {
    const bool alone = is_bert_punctuation(c);
    if (alone || is_space(c)) finish();
    if (is_space(c)) return;
    word += bytes;
    if (alone) finish();
  });
  finish();
}

std::unique_ptr<TokenDecoder> WordPiece::make_decoder(std::span<const int32_t> special) const {
  std::unordered_map<int32_t, std::string> pieces;
  for (const auto& [piece, id] : first_) pieces.emplace(id, piece);
  for (const int32_t id : special) pieces.erase(id);
  pieces.erase(options_.unknown_id);
  return std::make_unique<WordPieceDecoder>(std::move(pieces), options_.prefix);
}

void WordPiece::append_word(std::string_view word, std::vector<int32_t>& ids) const {
  const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; };
  const auto chars = static_cast<int64_t>(word.size()) - std::count_if(word.begin(), word.end(), continues);
  const size_t before = ids.size();
  bool known = chars <= options_.max_word_chars;
  for (size_t begin = 0; known && begin < word.size();) {
    const Pieces& pieces = begin == 0 ? first_ : continue_;
    size_t size = std::min(word.size() - begin, longest_);
    auto found = pieces.end();
    for (; size > 0 && found == pieces.end(); --size) found = pieces.find(word.substr(begin, size));
    known = found != pieces.end();
    if (!known) break;
    ids.push_back(found->second);
    begin += found->first.size();
  }
  if (known) return;
  ids.resize(before);
  ids.push_back(options_.unknown_id);
}

}  // namespace saccade
