// Normalization of SentencePiece: characters are replaced by the model's own table, and white space is
// collapsed and written as U+2581 (github.com/google/sentencepiece, src/normalizer.cc).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/text/tokenizers/prefix_trie.h"
#include "saccade/text/tokenizers/sentencepiece_model.h"

namespace saccade {

class SentencePieceNormalizer {
 public:
  // Makes the normalizer; kBadData for an invalid character table.
  static Result<SentencePieceNormalizer> make(const SentencePieceModel& model);

  // Normalizes valid UTF-8. Linear. Offsets outside the table count as not found, so a broken table gives odd
  // text but is safe.
  [[nodiscard]] std::string normalize(std::string_view text) const;

 private:
  struct Prefix {
    std::string_view replacement;
    size_t length = 0;  // bytes of text that it replaces, at least 1
  };
  [[nodiscard]] Prefix prefix(std::string_view text) const;
  [[nodiscard]] Prefix mapped(std::string_view text) const;

  std::vector<uint32_t> units_;  // the double array
  std::string replacements_;
  PrefixTrie user_defined_;
  bool add_dummy_prefix_ = true;
  bool remove_extra_spaces_ = true;
  bool escape_spaces_ = true;
  bool space_as_suffix_ = false;
};

}  // namespace saccade
