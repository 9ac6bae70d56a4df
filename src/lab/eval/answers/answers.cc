#include "lab/eval/answers/answers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "saccade/collection/collection_reader.h"
#include "saccade/collection/collection_writer.h"
#include "saccade/core/hash.h"
#include "saccade/core/random.h"
#include "saccade/search/keywords/caption_texts.h"
#include "saccade/search/keywords/keyword_search.h"
#include "saccade/search/matching/background.h"
#include "saccade/search/matching/evidence.h"
#include "saccade/search/search.h"
#include "saccade/text/caption_queries.h"

namespace saccade::lab {
namespace {

constexpr std::array<double, 3> kCuts = {0.2, 0.5, 0.8};
constexpr int kBins = 10;
constexpr int64_t kMostWords = 4;        // counted apart
constexpr size_t kFewestLetters = 3;     // of a noun
constexpr double kRankOffset = 60;       // of reciprocal rank fusion, as its authors have it
constexpr double kConvexKeywords = 0.7;  // chosen on the fitted halves

// Classes whose hash is odd are the held-out half.
bool is_held_out(const std::string& name) {
  return (sha256_hex(name).back() & 1) != 0;
}

std::string class_name(const DatasetItem& item) {
  return item.group.empty() ? item.id : item.group;
}

// A caption, or phrases of one, two and three of its words.
std::vector<std::string> texts_of(const std::string& caption, SplitMix& random) {
  std::vector<std::string> texts = {caption};
  const std::vector<std::string> words = caption_words(caption);
  for (size_t n = 1; n < 4 && words.size() > 3; ++n) {
    const size_t at = random.below(static_cast<uint32_t>(words.size() - n + 1));
    std::string text;
    for (size_t i = at; i < at + n; ++i) text += (i == at ? "" : " ") + words[i];
    texts.push_back(std::move(text));
  }
  return texts;
}

// Adjectives with the word behind them.
std::vector<std::string> attributed_texts(const std::string& caption) {
  std::vector<std::string> texts;
  const std::vector<std::string> words = caption_words(caption);
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string& noun = words[i];
    if (!is_attribute(words[i - 1]) || is_attribute(noun) || noun.size() < kFewestLetters) continue;
    texts.push_back(words[i - 1] + " " + noun);
  }
  return texts;
}

// The query's words that word search looks for.
std::vector<std::string> terms_of(const std::string& text) {
  SearchQuery query;
  query.text = text;
  return word_terms(query);
}

// Cuts a word's English inflection off, so that "tanks" and "tank", "riding", "rides" and "ride" are the same.
std::string uninflected(std::string word) {
  const auto cut = [&](std::string_view ending, size_t least) {
    if (word.size() < ending.size() + least || !word.ends_with(ending)) return false;
    word.resize(word.size() - ending.size());
    return true;
  };
  if (cut("ies", 2)) {
    word += 'y';
  } else if (!word.ends_with("ss") && !word.ends_with("us") && !word.ends_with("is")) {
    cut("s", 3);
  }
  const std::string_view vowels = "aeiouy";
  const auto has_vowel = [&](std::string_view part) {
    return part.find_first_of(vowels) != std::string_view::npos;
  };
  const std::string_view all = word;
  const bool verb = (all.ends_with("ing") && has_vowel(all.substr(0, all.size() - 3)) && cut("ing", 3)) ||
                    (all.ends_with("ed") && has_vowel(all.substr(0, all.size() - 2)) && cut("ed", 3));
  const size_t size = word.size();
  if (verb && size > 3 && word[size - 1] == word[size - 2] &&
      std::string_view("lsz").find(word[size - 1]) == std::string_view::npos) {
    word.pop_back();
  }
  cut("e", 3);
  return word;
}

std::string joined_uninflected(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += uninflected(word) + " ";
  return text;
}

constexpr QueryGroup kByWords[] = {QueryGroup::kOne, QueryGroup::kTwo, QueryGroup::kThree, QueryGroup::kMore};

QueryGroup group_of(int64_t words) {
  return kByWords[std::clamp<int64_t>(words, 1, kMostWords) - 1];
}

std::vector<size_t> shuffled(size_t count, SplitMix& random) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  random.shuffle(order);
  return order;
}

void add_absent(const CaptionIndex& truth, AnswersTask& task) {
  int64_t added = 0;
  for (const std::string_view word : everyday_words()) {
    if (added == kAbsentQueries) return;
    if (!truth.with_all_words(joined_uninflected(terms_of(std::string(word)))).empty()) continue;
    // A class of its own: absent queries do not depend on each other.
    task.queries.push_back({std::string(word), {}, QueryGroup::kAbsent, task.clusters++});
    ++added;
  }
}

struct Ranked {
  std::array<double, std::size(kOrderings)> ndcg = {};
  std::array<double, std::size(kOrderings)> first = {};
};

double ndcg(std::span<const int64_t> hits, const std::vector<int64_t>& right) {
  double sum = 0;
  double ideal = 0;
  for (int64_t i = 0; i < kAnswerDepth; ++i) {
    const double gain = 1 / std::log2(static_cast<double>(i) + 2);
    if (i < std::ssize(hits) && std::ranges::binary_search(right, hits[static_cast<size_t>(i)])) sum += gain;
    if (i < std::ssize(right)) ideal += gain;
  }
  return ideal > 0 ? sum / ideal : 0;
}

// Both rankings of a query, for the orders that are no answer of the program.
struct Both {
  std::vector<RowScore> best;  // by score, all rows
  KeywordRanking words;
};

std::vector<int64_t> top(std::vector<std::pair<double, int64_t>> sums) {
  const auto count = std::min(static_cast<size_t>(kAnswerDepth), sums.size());
  std::ranges::partial_sort(sums, sums.begin() + static_cast<std::ptrdiff_t>(count), std::greater<>());
  std::vector<int64_t> rows;
  for (size_t i = 0; i < count; ++i) rows.push_back(sums[i].second);
  return rows;
}

// Equal sums are ordered by a hash of the row, so that keywords alone know nothing of the scores.
std::vector<int64_t> keyword_order(const Both& both) {
  std::vector<std::pair<double, int64_t>> sums;
  for (const RowScore& row : both.best) {
    const KeywordRanking::Place* place = place_of(both.words, row.row);
    const double tie = 1e-9 * static_cast<double>(SplitMix(static_cast<uint64_t>(row.row)).below(1000));
    sums.emplace_back((place != nullptr ? place->evidence.strength() : 0) + tie, row.row);
  }
  return top(std::move(sums));
}

std::vector<int64_t> reciprocal_order(const Both& both) {
  std::vector<std::pair<double, int64_t>> sums;
  for (size_t i = 0; i < both.best.size(); ++i) {
    double sum = 1 / (kRankOffset + static_cast<double>(i) + 1);
    if (const KeywordRanking::Place* place = place_of(both.words, both.best[i].row)) {
      sum += 1 / (kRankOffset + static_cast<double>(place->rank));
    }
    sums.emplace_back(sum, both.best[i].row);
  }
  return top(std::move(sums));
}

// Scores of the best 1,000 are scaled to 0 to 1, and BM25 by its maximum.
std::vector<int64_t> convex_order(const Both& both) {
  std::vector<std::pair<double, int64_t>> sums;
  const double high = double{both.best.front().score};
  const double low = double{both.best[std::min(both.best.size(), size_t{1000}) - 1].score};
  double most = 0;
  for (const auto& [row, place] : both.words.places) most = std::max(most, place.evidence.bm25);
  for (const RowScore& row : both.best) {
    const KeywordRanking::Place* place = place_of(both.words, row.row);
    const double words = place != nullptr ? place->evidence.bm25 / most : 0;
    sums.emplace_back((1 - kConvexKeywords) * (double{row.score} - low) / std::max(high - low, 1e-9) +
                          kConvexKeywords * words,
                      row.row);
  }
  return top(std::move(sums));
}

// Outcome of one query.
struct Outcome {
  Ranked ranked;
  AnswerRecord record;
  double best = 0;  // highest match probability
};

Result<CollectionReader> make_collection(const AnswersTask& task, MatrixView<const float> rows,
                                         const EncoderBackend& encoder, const std::filesystem::path& folder) {
  SACCADE_ASSIGN(CollectionWriter writer,
                 CollectionWriter::create(
                     folder, {"evaluated", "/evaluated", encoder.info().fingerprint, encoder.info().dim}));
  constexpr int64_t kTogether = 1000;
  for (int64_t first = 0; first < rows.rows(); first += kTogether) {
    CollectionChange change;
    for (int64_t i = first; i < std::min(first + kTogether, rows.rows()); ++i) {
      CollectionChange::Put put;
      put.item.path = fmt::format("/{}", i);
      put.item.hash = sha256_hex(put.item.path);
      put.item.width = put.item.height = 1;
      put.item.format = "png";
      put.item.caption = task.indexed[static_cast<size_t>(i)];
      put.values.assign(rows.row(i).begin(), rows.row(i).end());
      change.puts.push_back(std::move(put));
    }
    SACCADE_TRY(writer.commit(change));
  }
  return CollectionReader::open(folder);
}

// Searches for the queries, one after the other.
class Asker {
 public:
  Asker(const CollectionReader& collection, EncoderBackend& encoder,
        std::shared_ptr<const Background> background, ThreadPool& pool)
      : collection_(collection), encoder_(encoder), background_(std::move(background)), pool_(pool) {}

  Result<Outcome> ask(const AnswersTask::Query& asked, std::span<const float> row, Matching& matching) {
    SearchQuery query;
    query.text = asked.text;
    query.background = background_;
    query.keyword_weight = kWordShare;
    query.group_duplicates = false;
    query.k = kAnswerDepth;
    EncodedQuery encoded;
    encoded.row.assign(row.begin(), row.end());
    SACCADE_ASSIGN(const SearchAnswer answer, search_encoded(collection_, encoder_, encoded, query, pool_));
    if (answer.matching) matching = *answer.matching;
    const std::vector<uint8_t> every(static_cast<size_t>(collection_.rows().rows()), 1);
    Both both;
    SACCADE_ASSIGN(both.words, rank_by_keywords(collection_, query, every));
    SACCADE_ASSIGN(auto best, exact_search(collection_.rows(), {row.data(), 1, std::ssize(row)},
                                           collection_.rows().rows(), pool_));
    both.best = std::move(best.front());
    Outcome outcome;
    outcome.record = record_of(asked, answer, both, row);
    if (matching.tells) {
      for (const AnswerRecord::Hit& hit : outcome.record.hits)
        outcome.best = std::max(outcome.best, hit.probability);
    }
    if (!asked.right.empty()) outcome.ranked = ranked(asked, answer, both);
    return outcome;
  }

 private:
  // Rows are in the order in which the items were put.
  static int64_t number_of(int64_t row) { return row; }

  static Ranked ranked(const AnswersTask::Query& asked, const SearchAnswer& answer, const Both& both) {
    std::vector<int64_t> by_vectors;
    for (int64_t i = 0; i < std::min(kAnswerDepth, std::ssize(both.best)); ++i) {
      by_vectors.push_back(both.best[static_cast<size_t>(i)].row);
    }
    std::vector<int64_t> shown;
    for (const SearchHit& hit : answer.hits) shown.push_back(number_of(hit.item.row));
    const std::vector<int64_t> orders[] = {by_vectors, keyword_order(both), reciprocal_order(both),
                                           convex_order(both), shown};
    Ranked ranked;
    for (size_t o = 0; o < std::size(orders); ++o) {
      ranked.ndcg[o] = ndcg(orders[o], asked.right);
      ranked.first[o] =
          !orders[o].empty() && std::ranges::binary_search(asked.right, orders[o].front()) ? 1 : 0;
    }
    return ranked;
  }

  // Evidence of the hits, as judged by search.
  [[nodiscard]] AnswerRecord record_of(const AnswersTask::Query& asked, const SearchAnswer& answer,
                                       const Both& both, std::span<const float> row) const {
    const Background::Texts& texts = background_->texts;
    AnswerRecord record;
    record.query = asked.text;
    record.group = asked.group;
    record.cluster = asked.cluster;
    record.right = std::ssize(asked.right);
    record.separation = texts.separation;
    record.any_all = both.words.words.any_all;
    record.unknown = both.words.words.unknown;
    const Surroundings& surroundings = background_->text.surroundings;
    const ScoreScale scale = score_scale(surroundings.sample.view(), row);
    const LogOdds log_odds(both.best, surroundings.temperature);
    for (const SearchHit& hit : answer.hits) {
      const KeywordRanking::Place* place = place_of(both.words, hit.item.row);
      const WordEvidence words = place != nullptr ? place->evidence : WordEvidence();
      record.hits.push_back({.image = number_of(hit.item.row),
                             .right = std::ranges::binary_search(asked.right, number_of(hit.item.row)),
                             .standard = scale.standard(double{hit.score}),
                             .odds = log_odds.of(double{hit.score}),
                             .known = words_for(both.words, place, texts.described).known,
                             .all = words.all,
                             .coverage = words.coverage,
                             .bm25 = words.bm25});
      if (hit.likelihood) record.hits.back().probability = hit.likelihood->right;
    }
    return record;
  }

  const CollectionReader& collection_;
  EncoderBackend& encoder_;
  std::shared_ptr<const Background> background_;
  ThreadPool& pool_;
};

constexpr QueryGroup kGroups[] = {QueryGroup::kAll,   QueryGroup::kOne,  QueryGroup::kTwo,
                                  QueryGroup::kThree, QueryGroup::kMore, QueryGroup::kAttributed};

void measure_orders(const AnswersTask& task, const std::vector<Outcome>& outcomes,
                    const BootstrapOptions& bootstrap, ThreadPool& pool, AnswersFigures& figures) {
  for (const QueryGroup group : kGroups) {
    std::vector<size_t> chosen;
    for (size_t q = 0; q < static_cast<size_t>(task.present); ++q) {
      if (group == QueryGroup::kAll || task.queries[q].group == group) chosen.push_back(q);
    }
    if (chosen.empty()) continue;
    const auto mean = [&](const char* name, const auto& value) {
      ClusteredValues values;
      for (const size_t q : chosen) values.add(value(outcomes[q].ranked), task.queries[q].cluster);
      return mean_figure(values, task.clusters, bootstrap, pool, name);
    };
    constexpr auto kShown = static_cast<size_t>(Ordering::kDefault);
    for (size_t o = 0; o < std::size(kOrderings); ++o) {
      figures.orders.push_back(
          {kOrderings[o], group, std::ssize(chosen),
           mean("ndcg", [&](const Ranked& one) { return one.ndcg[o]; }),
           mean("first", [&](const Ranked& one) { return one.first[o]; }),
           mean(kGain, [&](const Ranked& one) { return one.ndcg[kShown] - one.ndcg[o]; })});
    }
  }
}

void measure_calibration(const AnswersTask& task, const std::vector<Outcome>& outcomes,
                         const BootstrapOptions& bootstrap, ThreadPool& pool, AnswersFigures& figures) {
  const auto mean = [&](const ClusteredValues& values) {
    return mean_figure(values, task.clusters, bootstrap, pool);
  };
  std::array<double, kBins> promised = {};
  std::array<double, kBins> came = {};
  std::array<int64_t, kBins> counts = {};
  int64_t all = 0;
  double right = 0;
  for (const Outcome& outcome : outcomes) {
    for (const AnswerRecord::Hit& hit : outcome.record.hits) {
      if (std::isnan(hit.probability)) continue;
      const auto bin = static_cast<size_t>(std::min(kBins - 1, static_cast<int>(hit.probability * kBins)));
      promised[bin] += hit.probability;
      came[bin] += hit.right ? 1 : 0;
      ++counts[bin];
      ++all;
      right += hit.right ? 1 : 0;
    }
  }
  figures.ece = 0;
  for (size_t b = 0; b < kBins; ++b) {
    if (counts[b] == 0) continue;
    figures.ece += std::abs(promised[b] - came[b]) / static_cast<double>(all);
    const auto hits = static_cast<double>(counts[b]);
    figures.bins.push_back({static_cast<double>(b) / kBins, counts[b], promised[b] / hits, came[b] / hits});
  }
  for (const double cut : kCuts) {
    AnswersFigures::Cut one{.cut = cut, .precision = {}};
    ClusteredValues values;
    double found = 0;
    for (size_t q = 0; q < outcomes.size(); ++q) {
      for (const AnswerRecord::Hit& hit : outcomes[q].record.hits) {
        if (!(hit.probability >= cut)) continue;
        values.add(hit.right ? 1 : 0, task.queries[q].cluster);
        found += hit.right ? 1 : 0;
      }
    }
    one.hits = std::ssize(values.values);
    one.precision = mean(values);
    if (right > 0) one.recall = found / right;
    figures.cuts.push_back(std::move(one));
  }
  ClusteredValues above;
  std::vector<double> best;
  for (size_t q = 0; q < static_cast<size_t>(task.present); ++q) {
    best.push_back(outcomes[q].best);
    const std::vector<AnswerRecord::Hit>& hits = outcomes[q].record.hits;
    if (hits.empty() || !hits.front().right) continue;
    above.add(hits.front().probability >= 0.5 ? 1 : 0, task.queries[q].cluster);
  }
  figures.first_right_above_half = mean(above);
  constexpr double kWeak = 0.2;
  std::vector<double> sorted = best;
  std::ranges::sort(sorted);
  const double threshold = quantile(sorted, 0.1);
  ClusteredValues named;
  ClusteredValues weak[2];
  for (size_t q = 0; q < outcomes.size(); ++q) {
    const bool absent = q >= static_cast<size_t>(task.present);
    const int64_t cluster = task.queries[q].cluster;
    weak[absent ? 1 : 0].add(outcomes[q].best < kWeak ? 1 : 0, cluster);
    if (absent) named.add(outcomes[q].best < threshold ? 1 : 0, cluster);
  }
  figures.absent_named = mean(named);
  figures.absent_weak = mean(weak[1]);
  figures.present_weak = mean(weak[0]);
}

}  // namespace

AnswersTask answers_task(std::span<const DatasetItem> items, std::span<const int64_t> numbers,
                         const AnswersOptions& options) {
  AnswersTask task;
  std::map<std::string, int64_t> classes;
  std::vector<std::string> whole;
  for (const int64_t number : numbers) {
    const DatasetItem& item = items[static_cast<size_t>(number)];
    std::string indexed;
    std::string all;
    for (size_t c = 0; c < item.captions.size(); ++c) {
      if (static_cast<int64_t>(c) < options.indexed) indexed += (c == 0 ? "" : "; ") + item.captions[c];
      all += (c == 0 ? "" : "; ") + item.captions[c];
    }
    task.indexed.push_back(std::move(indexed));
    whole.push_back(joined_uninflected(caption_words(all)));
    classes.try_emplace(class_name(item), std::ssize(classes));
  }
  task.clusters = std::ssize(classes);
  const CaptionIndex truth(whole);
  const int64_t most = std::min(kMostRight, std::max<int64_t>(20, std::ssize(numbers) / 10));
  SplitMix random(0);
  const std::vector<size_t> order = shuffled(numbers.size(), random);
  std::set<std::string> known;
  std::map<QueryGroup, int64_t> counts;
  const auto add = [&](std::string text, QueryGroup group, const DatasetItem& item) {
    int64_t& count = counts[group];
    if (count >= (group == QueryGroup::kAttributed ? options.attributed : options.each)) return;
    const std::vector<std::string> terms = terms_of(text);
    const int64_t words = std::ssize(terms);
    if (words == 0 || (group == QueryGroup::kAttributed && words != 2) || !known.insert(text).second) return;
    std::vector<int64_t> right = truth.with_all_words(joined_uninflected(terms));
    if (right.empty() || std::ssize(right) > most) return;
    ++count;
    task.queries.push_back({std::move(text), std::move(right), group, classes.at(class_name(item))});
  };
  const auto for_each_caption = [&](const auto& function) {
    for (const size_t i : order) {
      const DatasetItem& item = items[static_cast<size_t>(numbers[i])];
      if (is_held_out(class_name(item)) == options.fitted) continue;
      const auto indexed = static_cast<size_t>(options.indexed);
      const size_t held = indexed < item.captions.size() ? indexed : 0;
      for (const std::string& caption : std::span(item.captions).subspan(held)) function(item, caption);
    }
  };
  for_each_caption([&](const DatasetItem& item, const std::string& caption) {
    for (std::string& text : texts_of(caption, random)) {
      const QueryGroup group = group_of(std::ssize(terms_of(text)));
      add(std::move(text), group, item);
    }
  });
  for_each_caption([&](const DatasetItem& item, const std::string& caption) {
    for (std::string& text : attributed_texts(caption)) add(std::move(text), QueryGroup::kAttributed, item);
  });
  task.present = std::ssize(task.queries);
  add_absent(truth, task);
  return task;
}

std::span<const EnumName<QueryGroup>> enum_names(QueryGroup /*unused*/) {
  static constexpr EnumName<QueryGroup> kNames[] = {{QueryGroup::kAll, "all"},
                                                    {QueryGroup::kOne, "1 word"},
                                                    {QueryGroup::kTwo, "2 words"},
                                                    {QueryGroup::kThree, "3 words"},
                                                    {QueryGroup::kMore, "4 and more words"},
                                                    {QueryGroup::kAttributed, "adjective and noun"},
                                                    {QueryGroup::kAbsent, "absent"}};
  return kNames;
}

std::span<const EnumName<Ordering>> enum_names(Ordering /*unused*/) {
  static constexpr EnumName<Ordering> kNames[] = {{Ordering::kVectors, "vectors"},
                                                  {Ordering::kKeywords, "keywords"},
                                                  {Ordering::kReciprocalRanks, "reciprocal ranks"},
                                                  {Ordering::kConvex, "convex combination"},
                                                  {Ordering::kDefault, "default"}};
  return kNames;
}

Result<MeasuredAnswers> measure_answers(const AnswersTask& task, MatrixView<const float> rows,
                                        EncoderBackend& encoder, const std::filesystem::path& folder,
                                        const BootstrapOptions& bootstrap, ThreadPool& pool) {
  MeasuredAnswers measured_answers;
  AnswersFigures& figures = measured_answers.figures;
  figures.asked = task.present;
  figures.absent = std::ssize(task.queries) - task.present;
  SACCADE_ASSIGN(const CollectionReader collection, make_collection(task, rows, encoder, folder));
  SACCADE_ASSIGN(Background measured, measure_background(collection, encoder, pool));
  figures.separation = measured.texts.separation;
  const auto background = std::make_shared<const Background>(std::move(measured));
  std::vector<std::string> texts;
  for (const AnswersTask::Query& query : task.queries) texts.push_back(query.text);
  SACCADE_ASSIGN(const Matrix<float> encoded, encode_all_texts(encoder, texts));
  Asker asker(collection, encoder, background, pool);
  std::vector<Outcome> outcomes;
  Matching matching;
  for (size_t q = 0; q < task.queries.size(); ++q) {
    SACCADE_ASSIGN(outcomes.emplace_back(),
                   asker.ask(task.queries[q], encoded.row(static_cast<int64_t>(q)), matching).in(texts[q]));
  }
  figures.tells = matching.tells;
  figures.reason = matching.reason;
  figures.shipped = matching.shipped;
  measure_orders(task, outcomes, bootstrap, pool, figures);
  if (figures.tells) measure_calibration(task, outcomes, bootstrap, pool, figures);
  for (Outcome& outcome : outcomes) measured_answers.records.push_back(std::move(outcome.record));
  return measured_answers;
}

}  // namespace saccade::lab
