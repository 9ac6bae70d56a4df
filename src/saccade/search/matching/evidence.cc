#include "saccade/search/matching/evidence.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "saccade/core/rows.h"
#include "saccade/index/likelihood.h"

namespace saccade {
namespace {

// Order.
constexpr double kSeparationSlope = 0.18;
constexpr double kAllWords = 0.82;
constexpr double kCoverage = 3.43;
constexpr double kBm25 = 2.93;

// Log odds of a hit where words are known, and where they are not.
struct Factors {
  double ratio, odds, all, coverage, bm25, no_all, unknown, constant;
};
constexpr Factors kWithWords = {0.21, 0.05, 7.24, 3.28, 2.43, 2.07, -0.56, -5.70};
constexpr Factors kByScore = {0.60, 0.45, 0, 0, 0, 0, 0, -3.21};

constexpr auto kAttributes = std::to_array<std::string_view>({
    "ancient",  "angry",    "antique",   "bad",     "beautiful", "beige",   "big",     "black",   "blue",
    "bright",   "broken",   "brown",     "burning", "clean",     "closed",  "cold",    "color",   "colored",
    "colorful", "coloured", "cool",      "crying",  "curved",    "cute",    "cyan",    "dark",    "deep",
    "dirty",    "double",   "dry",       "eight",   "empty",     "fancy",   "fast",    "few",     "five",
    "flat",     "four",     "fresh",     "frozen",  "full",      "funny",   "golden",  "good",    "gray",
    "green",    "grey",     "happy",     "hard",    "heavy",     "high",    "hot",     "huge",    "large",
    "laughing", "leather",  "light",     "little",  "long",      "loud",    "lovely",  "low",     "magenta",
    "many",     "metal",    "modern",    "narrow",  "new",       "nice",    "nine",    "old",     "open",
    "orange",   "pale",     "pink",      "plastic", "poor",      "pretty",  "purple",  "quiet",   "red",
    "rich",     "ripe",     "round",     "sad",     "scary",     "seven",   "several", "sharp",   "short",
    "silver",   "simple",   "single",    "six",     "sleepy",    "slow",    "small",   "smiling", "soft",
    "square",   "straight", "strong",    "tall",    "tame",      "ten",     "thick",   "thin",    "three",
    "tiny",     "tired",    "turquoise", "two",     "ugly",      "vintage", "violet",  "warm",    "weak",
    "wet",      "white",    "wide",      "wild",    "wooden",    "yellow",  "young",
});
static_assert(std::ranges::is_sorted(kAttributes));

double logit_of(const Factors& factors, double ratio, double odds, const WordEvidence& words,
                const QueryWords& query) {
  return factors.constant + factors.ratio * ratio + factors.odds * odds + factors.all * (words.all ? 1 : 0) +
         factors.coverage * words.coverage + factors.bm25 * words.bm25 +
         factors.no_all * (query.any_all ? 0 : 1) + factors.unknown * query.unknown;
}

}  // namespace

double WordEvidence::strength() const {
  return kAllWords * (all ? 1 : 0) + kCoverage * coverage + kBm25 * bm25;
}

bool is_attribute(std::string_view word) {
  return std::ranges::binary_search(kAttributes, word);
}

ScoreScale score_scale(MatrixView<const float> rows, std::span<const float> query) {
  ScoreScale scale;
  std::vector<double> scores;
  for (int64_t r = 0; r < rows.rows(); ++r) {
    const double sum = dot_product(rows.row(r), query);
    if (std::isfinite(sum)) scores.push_back(sum);
  }
  if (scores.empty()) return scale;
  const auto count = static_cast<double>(scores.size());
  for (const double score : scores) scale.mean += score / count;
  double squares = 0;
  for (const double score : scores) squares += (score - scale.mean) * (score - scale.mean);
  if (const double deviation = std::sqrt(squares / count); deviation > 1e-9) scale.deviation = deviation;
  return scale;
}

double estimated_separation(double deviation, double logit_scale) {
  return std::clamp(deviation * logit_scale - 1.5, 0.1, 2.5);
}

double order_of(const ScoreScale& scale, double score, const WordEvidence& words, double weight) {
  return (1 - weight) * kSeparationSlope * scale.separation * scale.standard(score) +
         weight * words.strength();
}

double match_probability(const ScoreScale& scale, double score, double odds, const WordEvidence& words,
                         const QueryWords& query) {
  const double d = scale.separation;
  const double ratio = d * scale.standard(score) - d * d / 2;
  const double logit = logit_of(query.known ? kWithWords : kByScore, ratio, odds, words, query);
  return 1 / (1 + std::exp(-logit));
}

}  // namespace saccade
