#include "lab/eval/visualness/word_attention.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "lab/eval/figures/resampling.h"
#include "lab/eval/figures/sample.h"
#include "saccade/text/utf8.h"
#include "saccade/text/words.h"

namespace saccade::lab {
namespace {

// A word, or adjacent punctuation marks without a space between them.
struct Unit {
  std::string text;
  bool is_word = false;
};

bool is_space(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\f\v\xC2\xA0") == std::string_view::npos;
}

Result<std::vector<Unit>> units_of(std::string_view text) {
  const std::string plain = to_valid_utf8(text);
  SACCADE_ASSIGN(const std::vector<TextSegment> segments, split_words(plain));
  std::vector<Unit> units;
  bool open = false;  // the last unit is punctuation, and the next character is adjacent
  for (const TextSegment& segment : segments) {
    if (is_space(segment.text)) {
      open = false;
    } else if (!segment.is_word && open) {
      units.back().text += segment.text;
    } else {
      units.push_back({std::string(segment.text), segment.is_word});
      open = !segment.is_word;
    }
  }
  return units;
}

std::span<const int32_t> own_ids(const TokenizedText& text) {
  return std::span(text.ids).subspan(static_cast<size_t>(text.first), static_cast<size_t>(text.used));
}

}  // namespace

void WordAttention::add(const WordAttention& other) {
  for (const auto& [word, sum] : other.words) {
    words[word].share += sum.share;
    words[word].times += sum.times;
  }
  texts += other.texts;
  unaligned += other.unaligned;
  attended += other.attended;
  to_objects += other.to_objects;
}

Result<WordAttention> attention_by_words(const EncoderBackend& encoder, TextAttention& attention,
                                         std::span<const std::string_view> texts, const ObjectList* objects) {
  const Tokenizer* tokenizer = encoder.tokenizer();
  WordAttention result;
  for (const std::string_view text : texts) {
    ++result.texts;
    const TokenizedText whole = tokenizer->encode(text, encoder.info().context);
    SACCADE_ASSIGN(const std::vector<Unit> units, units_of(text));
    std::vector<std::pair<std::string, std::pair<size_t, size_t>>> words;  // with their tokens, from and to
    const std::span<const int32_t> ids = own_ids(whole);
    size_t at = 0;
    bool aligned = true;
    for (const Unit& unit : units) {
      const TokenizedText part = tokenizer->encode(unit.text, kWholeText);
      const std::span<const int32_t> its = own_ids(part);
      const size_t count = std::min(its.size(), ids.size() - at);  // truncated tokens belong to no word
      aligned = aligned && std::equal(its.begin(), its.begin() + static_cast<ptrdiff_t>(count),
                                      ids.begin() + static_cast<ptrdiff_t>(at));
      if (!aligned) break;
      if (unit.is_word && count == its.size() && count > 0) {
        words.emplace_back(clean_text(unit.text, TextCleanup::kLower), std::pair(at, at + count));
      }
      at += count;
    }
    if (!aligned || at != ids.size()) {
      ++result.unaligned;
      continue;
    }
    SACCADE_ASSIGN(const std::vector<double> weights, attention.attend(whole));
    const auto own = std::span(weights).subspan(static_cast<size_t>(whole.first), ids.size());
    const double all = std::accumulate(own.begin(), own.end(), 0.0);
    if (!(all > 0)) continue;
    std::set<std::string> named;
    if (objects != nullptr) {
      SACCADE_ASSIGN(const std::vector<std::string> in_order, words_in_order(text));
      named = named_objects(*objects, in_order);
    }
    ++result.attended;
    for (const auto& [word, tokens] : words) {
      double share = 0;
      for (size_t t = tokens.first; t < tokens.second; ++t) share += own[t] / all;
      WordAttention::Sum& sum = result.words[word];
      sum.share += share;
      ++sum.times;
      if (named.contains(word)) result.to_objects += share;
    }
  }
  return result;
}

Correlation pearson(std::span<const double> x, std::span<const double> y, double confidence) {
  constexpr double kNone = Figure::kNone;
  Correlation result{kNone, kNone, kNone, kNone, std::ssize(x)};
  const auto n = static_cast<double>(x.size());
  if (x.size() < 4) return result;
  const double mean_x = std::accumulate(x.begin(), x.end(), 0.0) / n;
  const double mean_y = std::accumulate(y.begin(), y.end(), 0.0) / n;
  double xx = 0;
  double yy = 0;
  double xy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - mean_x) * (x[i] - mean_x);
    yy += (y[i] - mean_y) * (y[i] - mean_y);
    xy += (x[i] - mean_x) * (y[i] - mean_y);
  }
  if (!(xx > 0 && yy > 0)) return result;
  result.r = std::clamp(xy / std::sqrt(xx * yy), -1.0, 1.0);
  // Fisher 1915: atanh(r) is about normal, with a variance of 1 / (n - 3).
  const double z = std::atanh(std::clamp(result.r, -1 + 1e-15, 1 - 1e-15));
  const double deviation = 1 / std::sqrt(n - 3);
  const double wide = normal_quantile(0.5 + confidence / 2) * deviation;
  result.low = std::tanh(z - wide);
  result.high = std::tanh(z + wide);
  result.p = std::erfc(std::abs(z) / deviation / std::sqrt(2.0));
  return result;
}

Correlation correlate(const WordAttention& attention, const Lexicon& lexicon, double confidence) {
  std::vector<double> shares;
  std::vector<double> ratings;
  for (const auto& [word, sum] : attention.words) {
    const auto found = lexicon.words.find(word);
    if (sum.times < 2 || found == lexicon.words.end()) continue;
    shares.push_back(sum.share / static_cast<double>(sum.times));
    ratings.push_back(found->second);
  }
  return pearson(shares, ratings, confidence);
}

Correlation correlate(const WordAttention& a, const WordAttention& b, double confidence) {
  std::vector<double> shares;
  std::vector<double> others;
  for (const auto& [word, sum] : a.words) {
    const auto found = b.words.find(word);
    if (sum.times < 2 || found == b.words.end() || found->second.times < 2) continue;
    shares.push_back(sum.share / static_cast<double>(sum.times));
    others.push_back(found->second.share / static_cast<double>(found->second.times));
  }
  return pearson(shares, others, confidence);
}

}  // namespace saccade::lab
