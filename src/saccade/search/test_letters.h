// Test helpers for search: texts whose tokens are letters, and rows of length 1.
#pragma once

#include <cmath>
#include <span>
#include <string_view>

#include "saccade/tokenizer.h"

namespace saccade::test {

inline void normalize(std::span<float> row) {
  double square = 0;
  for (const float value : row) square += double{value} * value;
  for (float& value : row) value = static_cast<float>(value / std::sqrt(square));
}

// Texts are letters, one token each: 'a' is 0, 'b' 1, ...; the start is token 100, the end 101.
class LetterTokenizer : public Tokenizer {
 public:
  [[nodiscard]] TokenizedText encode(std::string_view text, int64_t max_tokens) const override {
    TokenizedText result;
    result.first = 1;
    result.ids.push_back(start_id());
    for (const char c : text) {
      if (c == ' ') continue;
      if (static_cast<int64_t>(result.ids.size()) + 1 < max_tokens) {
        result.ids.push_back(c - 'a');
        ++result.used;
      } else {
        ++result.dropped;
      }
    }
    result.ids.push_back(end_id());
    return result;
  }
  [[nodiscard]] int64_t vocabulary_size() const override { return 103; }
  [[nodiscard]] int32_t start_id() const override { return 100; }
  [[nodiscard]] int32_t end_id() const override { return 101; }
  [[nodiscard]] int32_t pad_id() const override { return 102; }
};

// A token a character, its own byte, so that a text can be told from its tokens.
class SpellingTokenizer : public Tokenizer {
 public:
  [[nodiscard]] TokenizedText encode(std::string_view text, int64_t) const override {
    TokenizedText result;
    for (const char c : text) result.ids.push_back(static_cast<unsigned char>(c));
    result.used = std::ssize(result.ids);
    return result;
  }
  [[nodiscard]] int64_t vocabulary_size() const override { return 256; }
  [[nodiscard]] int32_t start_id() const override { return 1; }
  [[nodiscard]] int32_t end_id() const override { return 2; }
  [[nodiscard]] int32_t pad_id() const override { return 0; }
};

}  // namespace saccade::test
