// What SentencePiece does to a text before it cuts it: characters replaced by the model's own table, white
// space collapsed and written as U+2581 (github.com/google/sentencepiece, src/normalizer.cc).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/text/sentencepiece_model.h"

namespace saccade {

// Which of a set of strings begin a text. Built once, then safe to read from many threads.
class PrefixTrie {
 public:
  void insert(std::string_view text, int32_t value);
  // Calls found(length, value) for each of the strings that `text` begins with, shortest first.
  template <typename Found>
  void prefixes(std::string_view text, const Found& found) const {
    uint32_t node = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      const auto edge = edges_.find(edge_key(node, text[i]));
      if (edge == edges_.end()) return;
      node = edge->second;
      if (values_[node] >= 0) found(i + 1, values_[node]);
    }
  }
  // The length of the longest of them, 0 if there is none.
  [[nodiscard]] size_t longest(std::string_view text) const;
  [[nodiscard]] bool empty() const { return edges_.empty(); }

 private:
  static uint64_t edge_key(uint32_t node, char byte) {
    return uint64_t{node} << 8 | static_cast<uint8_t>(byte);
  }
  std::unordered_map<uint64_t, uint32_t> edges_;
  std::vector<int32_t> values_ = {-1};  // -1: none ends here
};

class SentencePieceNormalizer {
 public:
  // kBadData where the table of characters is not one.
  static Result<SentencePieceNormalizer> make(const SentencePieceModel& model);

  // text: valid UTF-8. Linear. Places outside the table's bytes count as not found: a broken table gives odd
  // text, never worse.
  [[nodiscard]] std::string normalize(std::string_view text) const;

 private:
  struct Prefix {
    std::string_view replacement;
    size_t length = 0;  // bytes of the text it stands for, at least 1
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
