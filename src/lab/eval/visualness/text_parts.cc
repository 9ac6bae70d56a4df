#include "lab/eval/visualness/text_parts.h"

namespace saccade::lab {

size_t length_of(int64_t words) {
  constexpr int64_t kLongestShort = 10;
  constexpr int64_t kShortestLong = 20;
  return words <= kLongestShort ? 0 : words < kShortestLong ? 1 : 2;
}

Result<std::vector<TextPart>> text_parts(std::span<const std::string> texts, const ObjectList* objects) {
  constexpr double kMany = 0.5;  // the study's threshold of this share
  std::vector<TextPart> parts;
  for (const std::string_view name : kTextLengths) parts.push_back({std::string(name), {}});
  if (objects != nullptr) {
    for (const std::string_view name : kTextObjects) parts.push_back({std::string(name), {}});
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    SACCADE_ASSIGN(const std::vector<std::string> words, words_in_order(texts[i]));
    parts[length_of(std::ssize(words))].which.push_back(i);
    if (objects == nullptr) continue;
    SACCADE_ASSIGN(const double share, object_share(*objects, texts[i]));
    parts[kTextLengths.size() + (share >= kMany ? 1 : 0)].which.push_back(i);
  }
  return parts;
}

}  // namespace saccade::lab
