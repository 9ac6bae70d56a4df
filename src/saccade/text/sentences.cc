#include "saccade/text/sentences.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include <unicode/ubrk.h>
#include <unicode/utext.h>

#include "saccade/core/random.h"

namespace saccade {
namespace {

constexpr size_t kMaxText = size_t{1} << 30;  // ICU's boundaries are 32-bit

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\f\v";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

}  // namespace

Result<std::vector<std::string_view>> split_sentences(std::string_view text) {
  std::vector<std::string_view> sentences;
  if (text.empty()) return sentences;
  UErrorCode status = U_ZERO_ERROR;
  const std::unique_ptr<UText, decltype(&utext_close)> reader(
      utext_openUTF8(nullptr, text.data(), static_cast<int64_t>(std::min(text.size(), kMaxText)), &status),
      &utext_close);
  const std::unique_ptr<UBreakIterator, decltype(&ubrk_close)> boundaries(
      ubrk_open(UBRK_SENTENCE, "", nullptr, 0, &status), &ubrk_close);
  if (U_SUCCESS(status)) ubrk_setUText(boundaries.get(), reader.get(), &status);
  if (U_FAILURE(status)) return fail(ErrorCode::kInternal, "sentences: ICU: {}", u_errorName(status));
  size_t begin = 0;
  for (int32_t next = ubrk_next(boundaries.get()); next != UBRK_DONE; next = ubrk_next(boundaries.get())) {
    const auto end = static_cast<size_t>(next);
    if (end <= begin) continue;
    sentences.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  if (begin < text.size()) {
    const size_t from = sentences.empty() ? 0 : begin - sentences.back().size();
    if (!sentences.empty()) sentences.pop_back();
    sentences.push_back(text.substr(from));
  }
  return sentences;
}

Result<std::string> permute_sentences(std::string_view text, uint64_t seed) {
  SACCADE_ASSIGN(const std::vector<std::string_view> parts, split_sentences(text));
  std::vector<std::string_view> sentences;
  for (const std::string_view part : parts) {
    const std::string_view sentence = trimmed(part);
    if (!sentence.empty()) sentences.push_back(sentence);
  }
  if (sentences.size() < 2) return std::string(text);
  std::vector<size_t> order(sentences.size());
  std::iota(order.begin(), order.end(), size_t{0});
  SplitMix random(seed);
  // Fisher and Yates, again if nothing moved: for two sentences that is every other time.
  while (std::ranges::is_sorted(order)) {
    for (size_t left = order.size(); left > 1; --left) {
      std::swap(order[left - 1], order[random.below(static_cast<uint32_t>(left))]);
    }
  }
  std::string permuted;
  for (const size_t i : order) {
    if (!permuted.empty()) permuted += ' ';
    permuted += sentences[i];
  }
  return permuted;
}

}  // namespace saccade
