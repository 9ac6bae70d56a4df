// Methods of the study of visualness that need no model: the class prior, lexicons and lists of objects.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "lab/eval/visualness/visualness_study.h"
#include "saccade/core/random.h"

namespace saccade::lab {

Status VisualnessStudy::judge_by_prior(Judged& one, ThreadPool& pool) const {
  const double prior = prior_.value_or(share_of_visual(one.validation.visual));
  // A coin that says "visual" as often as the prior: a score above 0.5 means visual.
  SplitMix random(evaluation_.bootstrap.seed);
  std::vector<double> coin;
  for (size_t i = 0; i < one.texts.texts.size(); ++i) {
    coin.push_back(static_cast<double>(random.next() >> 11) * 0x1p-53 < prior ? 1 : 0);
  }
  SACCADE_ASSIGN(Method chance, judge(one, "class prior", "prior", coin, {}, 0.5, pool));
  chance.own_threshold = false;
  chance.details = {{"visual", prior}, {"from", prior_ ? prior_from_ : one.validated_on}};
  one.methods.push_back(std::move(chance));
  return {};
}

Status VisualnessStudy::settle_words() {
  if (words_settled_) return {};
  words_settled_ = true;
  std::vector<std::string> names;
  for (const Judged& one : datasets_) names.push_back(one.name);
  for (const AttentionTexts& each : attention_texts_) names.push_back(each.name);
  make_unique(names);
  for (size_t i = 0; i < attention_texts_.size(); ++i) attention_texts_[i].name = names[datasets_.size() + i];
  if (!lexicon_) return {};
  std::set<std::string> wanted;
  const auto add = [&](const std::vector<std::string>& texts) -> Status {
    for (const std::string& text : texts) {
      SACCADE_ASSIGN(const std::vector<std::string> words, unique_words(text));
      wanted.insert(words.begin(), words.end());
    }
    return {};
  };
  for (const Judged& one : datasets_) {
    SACCADE_TRY(add(one.texts.texts));
    SACCADE_TRY(add(one.validation.texts));
  }
  for (const AttentionTexts& each : attention_texts_) SACCADE_TRY(add(each.texts));
  if (word_ratings_) {
    for (const auto& [word, mean] : word_ratings_->means) wanted.insert(word);
  }
  SACCADE_ASSIGN(lexicons_, expand_lexicons(*lexicon_, options_.vectors, wanted));
  return {};
}

Status VisualnessStudy::judge_without_models(Judged& one, ThreadPool& pool) const {
  if (one.validation.texts.empty()) return {};
  SACCADE_TRY(judge_by_prior(one, pool));

  std::set<std::string> all_words;
  const auto words_of =
      [&](const std::vector<std::string>& texts) -> Result<std::vector<std::vector<std::string>>> {
    std::vector<std::vector<std::string>> words;
    for (const std::string& text : texts) {
      SACCADE_ASSIGN(words.emplace_back(), unique_words(text));
      all_words.insert(words.back().begin(), words.back().end());
    }
    return words;
  };
  const auto rated = [&](const Lexicon& lexicon, const std::vector<std::vector<std::string>>& words) {
    std::vector<double> scores;
    for (const auto& each : words) scores.push_back(mean_rating(lexicon, each));
    return scores;
  };
  const auto coverage = [&](const Lexicon& lexicon) {
    const auto known =
        std::ranges::count_if(all_words, [&](const auto& word) { return lexicon.words.contains(word); });
    return static_cast<double>(known) / static_cast<double>(std::max<size_t>(1, all_words.size()));
  };
  if (!lexicons_.empty()) {
    SACCADE_ASSIGN(const auto words, words_of(one.texts.texts));
    SACCADE_ASSIGN(const auto validation_words, words_of(one.validation.texts));
    for (const NamedLexicon& each : lexicons_) {
      const bool is_given = !each.vectors;
      SACCADE_ASSIGN(Method method,
                     judge(one, is_given ? fmt::format("mean rating of words ({})", each.name) : each.name,
                           is_given ? "lexicon" : "expanded lexicon", rated(each.lexicon, words),
                           rated(each.lexicon, validation_words), {}, pool));
      method.details = {{"coverage", coverage(each.lexicon)}};
      if (!is_given) {
        method.details["format"] = each.vectors->format;
        method.details["added"] = std::ranges::count_if(all_words, [&](const std::string& word) {
          return each.lexicon.words.contains(word) && !lexicon_->words.contains(word);
        });
      }
      one.methods.push_back(std::move(method));
    }
  }
  if (objects_) {
    const auto shares = [&](const std::vector<std::string>& texts) -> Result<std::vector<double>> {
      std::vector<double> scores;
      for (const std::string& text : texts) {
        SACCADE_ASSIGN(scores.emplace_back(), object_share(*objects_, text));
      }
      return scores;
    };
    SACCADE_ASSIGN(const std::vector<double> scores, shares(one.texts.texts));
    SACCADE_ASSIGN(const std::vector<double> validation_scores, shares(one.validation.texts));
    SACCADE_ASSIGN(Method method,
                   judge(one, fmt::format("objects named ({})", options_.objects.stem().string()), "objects",
                         scores, validation_scores, {}, pool));
    one.methods.push_back(std::move(method));
  }
  return {};
}

}  // namespace saccade::lab
