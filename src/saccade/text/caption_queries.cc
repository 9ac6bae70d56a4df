#include "saccade/text/caption_queries.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <unordered_map>

#include <unicode/uchar.h>

#include "saccade/core/ascii.h"
#include "saccade/core/random.h"
#include "saccade/text/normalize.h"
#include "saccade/text/utf8.h"

// Contents of everyday_words.txt, from its first byte to one past its last.
asm(R"(
  .section .rodata
  .global saccade_everyday_words
  .global saccade_everyday_words_end
saccade_everyday_words:
  .incbin ")" SACCADE_EVERYDAY_WORDS R"("
saccade_everyday_words_end:
  .byte 0
  .previous
)");
extern "C" {
extern const char saccade_everyday_words[];      // NOLINT(*-avoid-c-arrays)
extern const char saccade_everyday_words_end[];  // NOLINT(*-avoid-c-arrays)
}

namespace saccade {
namespace {

constexpr int64_t kShortestWord = 3;  // letters: shorter ones are mostly articles and prepositions
constexpr int kTries = 4;             // draws from each caption, over all rounds

bool in_word(char32_t code_point) {
  const auto c = static_cast<UChar32>(code_point);
  return u_isalnum(c) != 0 || (U_GET_GC_MASK(c) & U_GC_M_MASK) != 0;
}

bool is_ascii(char c) {
  return (static_cast<unsigned char>(c) & 0x80U) == 0;
}

// Computes caption_words of plain ASCII, as in most captions, without ICU's tables.
std::vector<std::string> ascii_words(std::string_view text) {
  std::vector<std::string> words;
  bool inside = false;
  for (const char c : text) {
    const bool part = is_ascii_alphanumeric(c);
    if (part && !inside) words.emplace_back();
    if (part) words.back().push_back(lower_ascii(c));
    inside = part;
  }
  return words;
}

int64_t letters(std::string_view word) {
  return std::ranges::count_if(word, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; });
}

std::vector<int64_t> shuffled(std::vector<int64_t> numbers, uint64_t seed) {
  SplitMix random(seed);
  for (size_t i = numbers.size(); i > 1; --i) {
    std::swap(numbers[i - 1], numbers[random.below(static_cast<uint32_t>(i))]);
  }
  return numbers;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (const std::string_view part = trim_ascii(text.substr(0, end)); !part.empty()) parts.push_back(part);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

}  // namespace

std::vector<std::string_view> everyday_words() {
  return split(std::string_view(saccade_everyday_words, saccade_everyday_words_end), '\n');
}

std::vector<std::string> caption_words(std::string_view text) {
  if (std::ranges::all_of(text, is_ascii)) return ascii_words(text);
  const std::string valid = to_valid_utf8(text);
  std::vector<std::string> words;
  bool inside = false;
  for (size_t position = 0; position < valid.size();) {
    const char32_t c = next_code_point(valid, position);
    const bool part = in_word(c);
    if (part && !inside) words.emplace_back();
    if (part) append_utf8(words.back(), c);
    inside = part;
  }
  for (std::string& word : words) word = lowercase_each(word);
  return words;
}

std::vector<std::string_view> caption_parts(std::string_view text) {
  return split(text, ';');
}

CaptionIndex::CaptionIndex(std::span<const std::string> captions)
    : captions_(captions.begin(), captions.end()) {
  std::unordered_map<std::string, std::vector<int64_t>> index;
  for (size_t c = 0; c < captions_.size(); ++c) {
    for (std::string& word : caption_words(captions_[c])) {
      std::vector<int64_t>& list = index[std::move(word)];
      if (list.empty() || list.back() != static_cast<int64_t>(c)) list.push_back(static_cast<int64_t>(c));
    }
  }
  for (auto& [word, list] : index) postings_.push_back({word, std::move(list)});
  std::ranges::sort(postings_, {}, &Posting::word);
}

std::vector<int64_t> CaptionIndex::with_words(std::vector<std::string> words) const {
  std::ranges::sort(words);
  words.erase(std::unique(words.begin(), words.end()), words.end());
  std::vector<int64_t> right;
  for (size_t w = 0; w < words.size(); ++w) {
    const auto found = std::ranges::lower_bound(postings_, words[w], {}, &Posting::word);
    if (found == postings_.end() || found->word != words[w]) return {};
    if (w == 0) {
      right = found->captions;
      continue;
    }
    std::vector<int64_t> both;
    std::ranges::set_intersection(right, found->captions, std::back_inserter(both));
    right = std::move(both);
  }
  return right;
}

std::vector<int64_t> CaptionIndex::with_all_words(std::string_view text) const {
  return with_words(caption_words(text));
}

std::vector<CaptionQuery> CaptionIndex::draw(int64_t count, int64_t most_right, uint64_t seed,
                                             std::span<const int64_t> of) const {
  std::vector<int64_t> numbers(of.begin(), of.end());
  if (of.empty()) {
    numbers.resize(captions_.size());
    std::iota(numbers.begin(), numbers.end(), 0);
  }
  numbers = shuffled(std::move(numbers), seed);
  const auto most = std::min<int64_t>(most_right, std::max<int64_t>(1, std::ssize(captions_) / 10));
  std::vector<CaptionQuery> drawn;
  std::set<std::string> known;
  for (int round = 0; round < kTries; ++round) {
    bool whole = round % 2 == 0;
    for (const int64_t number : numbers) {
      if (std::ssize(drawn) >= count) return drawn;
      const std::vector<std::string_view> parts = caption_parts(captions_[static_cast<size_t>(number)]);
      if (parts.empty()) continue;
      SplitMix random(seed + static_cast<uint64_t>(round), number);
      std::string text(parts[random.below(static_cast<uint32_t>(parts.size()))]);
      whole = !whole;
      if (!whole) {
        std::vector<std::string> words = caption_words(text);
        std::erase_if(words, [](const std::string& word) { return letters(word) < kShortestWord; });
        if (words.empty()) continue;
        text = words[random.below(static_cast<uint32_t>(words.size()))];
      }
      std::vector<int64_t> right = with_all_words(text);
      if (right.empty() || std::ssize(right) > most || !known.insert(text).second) continue;
      drawn.push_back({std::move(text), number, std::move(right)});
    }
  }
  return drawn;
}

}  // namespace saccade
