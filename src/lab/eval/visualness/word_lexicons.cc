#include "lab/eval/visualness/word_lexicons.h"

#include <algorithm>

#include <fmt/format.h>

#include "lab/data/ratings.h"
#include "lab/eval/visualness/word_attention.h"
#include "saccade/core/files/files.h"
#include "saccade/core/hash.h"
#include "saccade/core/random.h"
#include "saccade/text/utf8.h"
#include "saccade/tokenizer.h"

namespace saccade::lab {
namespace {

namespace fs = std::filesystem;

constexpr size_t kExamples = 20;  // words of a range that are shown

// Returns up to kExamples of the words, drawn by the seed, in alphabetical order.
std::vector<std::string> examples_of(std::vector<std::string> words, uint64_t seed) {
  std::ranges::sort(words);
  SplitMix random(seed);
  for (size_t i = 0; i < std::min(kExamples, words.size()); ++i) {
    std::swap(words[i], words[i + random.below(static_cast<uint32_t>(words.size() - i))]);
  }
  if (words.size() > kExamples) words.resize(kExamples);
  std::ranges::sort(words);
  return words;
}

}  // namespace

Result<std::vector<NamedLexicon>> expand_lexicons(const Lexicon& lexicon, std::span<const fs::path> vectors,
                                                  const std::set<std::string>& wanted) {
  std::vector<NamedLexicon> lexicons = {{lexicon.format, lexicon, std::nullopt}};
  for (const fs::path& path : vectors) {
    WordVectors used;
    SACCADE_ASSIGN(Lexicon expanded, expand_lexicon(lexicon, path, wanted, used));
    lexicons.push_back(
        {fmt::format("{} + {}", lexicon.format, path.stem().string()), std::move(expanded), std::move(used)});
  }
  return lexicons;
}

Result<WordRatings> read_word_ratings(const fs::path& path) {
  const std::string where = fmt::format("word ratings {}", path.string());
  WordRatings ratings;
  SACCADE_ASSIGN(ratings.sha256, sha256_file(path));
  Result<Lexicon> lexicon = read_lexicon(path);
  if (lexicon) {
    ratings.means.insert(lexicon->words.begin(), lexicon->words.end());
    return ratings;
  }
  if (lexicon.error().code != ErrorCode::kUnsupported) return fail(std::move(lexicon).error());
  SACCADE_ASSIGN(const std::string table, read_file(path));
  SACCADE_ASSIGN(const Ratings people, read_ratings(table, 1).in(where + ", which is no lexicon"));
  for (const RatedSentence& word : people.texts) {
    std::vector<double>& all = ratings.by_people[clean_text(to_valid_utf8(word.text), TextCleanup::kLower)];
    all.insert(all.end(), word.ratings.begin(), word.ratings.end());
  }
  for (const auto& [word, all] : ratings.by_people) {
    double sum = 0;
    for (const double rating : all) sum += (rating - 1) / 6;  // from 1 to 7
    ratings.means[word] = sum / static_cast<double>(all.size());
  }
  return ratings;
}

std::vector<WordRatingAgreement> word_rating_agreements(const WordRatings& people,
                                                        std::span<const NamedLexicon> lexicons,
                                                        double confidence) {
  std::vector<WordRatingAgreement> agreements;
  for (const NamedLexicon& each : lexicons) {
    std::vector<double> ours;
    std::vector<double> theirs;
    std::vector<std::vector<double>> units;
    for (const auto& [word, mean] : people.means) {
      const auto found = each.lexicon.words.find(word);
      const bool is_given = lexicons.front().lexicon.words.contains(word);
      if (found == each.lexicon.words.end() || is_given == each.vectors.has_value()) continue;
      ours.push_back(found->second);
      theirs.push_back(mean);
      if (const auto all = people.by_people.find(word); all != people.by_people.end()) {
        units.push_back(all->second);
      }
    }
    const Correlation found = pearson(ours, theirs, confidence);
    agreements.push_back({.lexicon = each.name,
                          .r = found.r,
                          .low = found.low,
                          .high = found.high,
                          .p = found.p,
                          .words = found.n,
                          .alpha = krippendorff_alpha(units, AlphaMetric::kOrdinal)});
  }
  return agreements;
}

std::vector<RatedWordList> rated_word_lists(std::span<const NamedLexicon> lexicons, uint64_t seed) {
  std::vector<RatedWordList> lists;
  for (const NamedLexicon& each : lexicons) {
    if (!each.vectors) continue;
    std::array<std::vector<std::string>, kRatingRanges.size()> words;
    for (const auto& [word, rating] : each.lexicon.words) {
      if (lexicons.front().lexicon.words.contains(word)) continue;
      words[rating >= kHighRating ? 0 : rating > kLowRating ? 1 : 2].push_back(word);
    }
    RatedWordList& list = lists.emplace_back();
    list.lexicon = each.name;
    for (size_t i = 0; i < words.size(); ++i) {
      const int64_t count = std::ssize(words[i]);
      list.ranges.push_back({std::string(kRatingRanges[i]), count, examples_of(std::move(words[i]), seed)});
    }
  }
  return lists;
}

}  // namespace saccade::lab
