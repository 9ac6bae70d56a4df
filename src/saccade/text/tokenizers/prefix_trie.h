// Trie of strings that finds which of them are prefixes of a text.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace saccade {

// Trie that is built once and then safe to read from many threads. A look-up costs one step per byte of the
// longest string with the text's prefix, regardless of the number of strings.
class PrefixTrie {
 public:
  // Inserts a string with a value >= 0. A second insertion of the same string replaces the value.
  void insert(std::string_view text, int32_t value);
  // Calls found(length, value) for each string that is a prefix of `text`, shortest first.
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
  // Longest match and its value; length 0 if there is none.
  struct Match {
    size_t length = 0;
    int32_t value = -1;
  };
  [[nodiscard]] Match longest(std::string_view text) const {
    Match match;
    prefixes(text, [&](size_t length, int32_t value) { match = {length, value}; });
    return match;
  }
  [[nodiscard]] bool empty() const { return edges_.empty(); }

 private:
  static uint64_t edge_key(uint32_t node, char byte) {
    return uint64_t{node} << 8 | static_cast<uint8_t>(byte);
  }
  std::unordered_map<uint64_t, uint32_t> edges_;
  std::vector<int32_t> values_ = {-1};  // -1 if no string ends here
};

}  // namespace saccade
