#include "saccade/text/tokenizers/prefix_trie.h"

namespace saccade {

void PrefixTrie::insert(std::string_view text, int32_t value) {
  uint32_t node = 0;
  for (const char byte : text) {
    const auto [edge, is_new] = edges_.emplace(edge_key(node, byte), static_cast<uint32_t>(values_.size()));
    if (is_new) values_.push_back(-1);
    node = edge->second;
  }
  values_[node] = value;
}

}  // namespace saccade
