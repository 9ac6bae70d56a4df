#include "saccade/text/sentences.h"

#include <algorithm>
#include <numeric>

#include "saccade/core/ascii.h"
#include "saccade/core/random.h"
#include "saccade/text/boundaries.h"

namespace saccade {

Result<std::vector<std::string_view>> split_sentences(std::string_view text) {
  std::vector<std::string_view> sentences;
  SACCADE_TRY(for_each_boundary(text, UBRK_SENTENCE, "sentences",
                                [&](std::string_view sentence, int32_t) { sentences.push_back(sentence); }));
  return sentences;
}

Result<std::string> permute_sentences(std::string_view text, uint64_t seed) {
  SACCADE_ASSIGN(const std::vector<std::string_view> parts, split_sentences(text));
  std::vector<std::string_view> sentences;
  for (const std::string_view part : parts) {
    const std::string_view sentence = trim_ascii(part);
    if (!sentence.empty()) sentences.push_back(sentence);
  }
  if (sentences.size() < 2) return std::string(text);
  std::vector<size_t> order(sentences.size());
  std::iota(order.begin(), order.end(), size_t{0});
  SplitMix random(seed);
  // Repeated if the order is unchanged (every other time for two sentences).
  while (std::ranges::is_sorted(order)) random.shuffle(order);
  std::string permuted;
  for (const size_t i : order) {
    if (!permuted.empty()) permuted += ' ';
    permuted += sentences[i];
  }
  return permuted;
}

}  // namespace saccade
