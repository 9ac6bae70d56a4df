#include "saccade/text/tokenizers/sentencepiece_normalizer.h"

#include <cstring>

#include "saccade/text/utf8.h"

namespace saccade {
namespace {

constexpr std::string_view kSpace = "\u2581";

// A unit of a Darts-clone double array (github.com/s-yata/darts-clone, include/darts.h): label and offset to
// the children, or a value.
bool has_leaf(uint32_t unit) {
  return (unit >> 8 & 1) != 0;
}
uint32_t label(uint32_t unit) {
  return unit & (uint32_t{1} << 31 | 0xff);
}
uint32_t value(uint32_t unit) {
  return unit & ~(uint32_t{1} << 31);
}
uint32_t offset(uint32_t unit) {
  return (unit >> 10) << ((unit & uint32_t{1} << 9) >> 6);
}

}  // namespace

Result<SentencePieceNormalizer> SentencePieceNormalizer::make(const SentencePieceModel& model) {
  SentencePieceNormalizer result;
  result.add_dummy_prefix_ = model.add_dummy_prefix;
  result.remove_extra_spaces_ = model.remove_extra_spaces;
  result.escape_spaces_ = model.escape_spaces;
  result.space_as_suffix_ = model.space_as_suffix;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    if (model.pieces[id].type != SentencePieceModel::Type::kUserDefined) continue;
    result.user_defined_.insert(model.pieces[id].text, static_cast<int32_t>(id));
  }
  const std::string& map = model.charsmap;
  if (map.empty()) return result;
  uint32_t size = 0;
  if (map.size() > sizeof size) std::memcpy(&size, map.data(), sizeof size);
  if (size == 0 || size % sizeof(uint32_t) != 0 || size >= map.size() - sizeof size || map.back() != '\0') {
    return fail(ErrorCode::kBadData, "a character map of {} bytes with a trie of {}", map.size(), size);
  }
  result.units_.resize(size / sizeof(uint32_t));
  std::memcpy(result.units_.data(), map.data() + sizeof size, size);
  result.replacements_.assign(map, sizeof size + size, std::string::npos);
  return result;
}

// Returns the replacement of the longest table entry that is a prefix of the text; length 0 if there is none.
SentencePieceNormalizer::Prefix SentencePieceNormalizer::mapped(std::string_view text) const {
  Prefix best;
  if (units_.empty()) return best;
  size_t node = offset(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    node ^= byte;
    if (node >= units_.size() || label(units_[node]) != byte) break;
    const uint32_t unit = units_[node];
    node ^= offset(unit);
    if (!has_leaf(unit)) continue;
    if (node >= units_.size()) break;
    const size_t begin = value(units_[node]);
    if (begin >= replacements_.size()) break;
    // The string is NUL-terminated, because the last byte of the table is NUL.
    best = {std::string_view(replacements_.data() + begin), i + 1};
  }
  return best;
}

SentencePieceNormalizer::Prefix SentencePieceNormalizer::prefix(std::string_view text) const {
  if (!user_defined_.empty()) {
    if (const size_t length = user_defined_.longest(text).length) return {text.substr(0, length), length};
  }
  if (const Prefix found = mapped(text); found.length != 0) return found;
  size_t length = 0;
  next_code_point(text, length);
  return {text.substr(0, length), length};
}

std::string SentencePieceNormalizer::normalize(std::string_view text) const {
  if (remove_extra_spaces_) {
    while (!text.empty()) {
      const Prefix first = prefix(text);
      if (first.replacement != " ") break;
      text.remove_prefix(first.length);
    }
  }
  std::string out;
  if (text.empty()) return out;
  out.reserve(text.size() + text.size() / 2);
  const std::string_view space = escape_spaces_ ? kSpace : std::string_view(" ");
  if (!space_as_suffix_ && add_dummy_prefix_) out += space;
  bool after_space = remove_extra_spaces_;
  while (!text.empty()) {
    Prefix next = prefix(text);
    text.remove_prefix(next.length);
    while (after_space && next.replacement.starts_with(' ')) next.replacement.remove_prefix(1);
    if (!next.replacement.empty()) {
      for (const char c : next.replacement) {
        if (c == ' ') {
          out += space;
        } else {
          out += c;
        }
      }
      after_space = next.replacement.ends_with(' ');
    }
    if (!remove_extra_spaces_) after_space = false;
  }
  if (remove_extra_spaces_) {
    while (out.ends_with(space)) out.erase(out.size() - space.size());
  }
  if (space_as_suffix_ && add_dummy_prefix_) out += space;
  return out;
}

}  // namespace saccade
