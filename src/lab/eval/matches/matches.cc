#include "lab/eval/matches/matches.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "lab/eval/run/run.h"
#include "saccade/core/random.h"
#include "saccade/text/caption_queries.h"

namespace saccade::lab {
namespace {

constexpr std::array<double, 4> kCuts = {0.3, 0.5, 0.7, 0.9};
constexpr int kBins = 10;
constexpr double kRare = 0.1;
constexpr int64_t kEverydayShare = 3;  // as search/matching/background.cc

std::vector<int64_t> pictures_of_half(const MatchTask& task, bool learned) {
  std::vector<int64_t> numbers;
  for (size_t i = 0; i < task.class_of.size(); ++i) {
    if ((task.learned[static_cast<size_t>(task.class_of[i])] != 0) == learned && !task.captions[i].empty()) {
      numbers.push_back(static_cast<int64_t>(i));
    }
  }
  return numbers;
}

// Returns at most `most` of the numbers, evenly spread.
std::vector<int64_t> spread(const std::vector<int64_t>& numbers, int64_t most) {
  const int64_t count = std::min(most, std::ssize(numbers));
  std::vector<int64_t> some;
  for (int64_t i = 0; i < count; ++i) {
    some.push_back(numbers[static_cast<size_t>(i * std::ssize(numbers) / count)]);
  }
  return some;
}

// Returns the images of a class and those that have all words of the text, ascending.
std::vector<int64_t> right_of(const MatchTask& task, const CaptionIndex& captions, std::string_view text,
                              int64_t of_class) {
  std::vector<int64_t> right = captions.with_all_words(text);
  for (size_t i = 0; i < task.class_of.size(); ++i) {
    if (task.class_of[i] == of_class) right.push_back(static_cast<int64_t>(i));
  }
  std::ranges::sort(right);
  right.erase(std::unique(right.begin(), right.end()), right.end());
  return right;
}

MatchQueries queries_of(const MatchTask& task, const std::vector<int64_t>& numbers, bool texts) {
  const CaptionIndex captions(task.captions);
  MatchQueries queries;
  for (const int64_t number : numbers) {
    const auto at = static_cast<size_t>(number);
    const auto parts = caption_parts(task.captions[at]);
    if (parts.empty()) continue;
    std::vector<int64_t> right = right_of(task, captions, parts.front(), task.class_of[at]);
    if (!texts) std::erase(right, number);
    if (texts) queries.texts.emplace_back(parts.front());
    queries.right.push_back(std::move(right));
    queries.itself.push_back(texts ? -1 : number);
    queries.cluster.push_back(task.class_of[at]);
  }
  return queries;
}

// Returns the number of words; 0 for an image query.
int64_t words_of(const MatchQueries& queries, size_t query) {
  return queries.texts.empty() ? 0 : std::ssize(caption_words(queries.texts[query]));
}

// Result of the test queries.
struct Outcome {
  struct Hit {
    double promise = 0;
    bool right = false;
    int64_t cluster = 0;
  };
  std::vector<Hit> hits;
  ClusteredValues first_right;                // queries whose answer is present
  ClusteredValues best_present, best_absent;  // likelihood, or standard score, of the likeliest hit
  ClusteredValues there_present,
      there_absent;  // probability that there is an answer, or the first hit's standard score
  ClusteredValues cosine_present, cosine_absent;  // cosines of the best hits
  ClusteredValues right_hits, wrong_hits;         // likelihood
  ClusteredValues right_cosines, wrong_cosines;
  ClusteredValues rare;
};

void judge_query(const MatchModel& model, const Surroundings& surroundings, MatrixView<const float> rows,
                 std::span<const float> query, std::span<const RowScore> found,
                 const std::vector<int64_t>& right, int64_t words, int64_t itself, int64_t cluster,
                 bool present, Outcome& outcome) {
  std::vector<RowScore> best;
  for (const RowScore& hit : found) {
    if (hit.row == itself || (!present && std::ranges::binary_search(right, hit.row))) continue;
    best.push_back(hit);
    if (std::ssize(best) == kCompetitors) break;
  }
  if (best.empty()) return;
  const Judgement judgement = judge_hits(model, surroundings, rows, query, best, rows.rows(), words);
  double likeliest = -std::numeric_limits<double>::infinity();
  for (size_t h = 0; h < std::min(best.size(), static_cast<size_t>(kJudgedHits)); ++h) {
    const bool is_right = std::ranges::binary_search(right, best[h].row);
    const double promise = model.tells ? judgement.hits[h].right : judgement.hits[h].standard;
    likeliest = std::max(likeliest, promise);
    if (model.tells) outcome.hits.push_back({promise, is_right, cluster});
    (is_right ? outcome.right_hits : outcome.wrong_hits).add(promise, cluster);
    (is_right ? outcome.right_cosines : outcome.wrong_cosines).add(double{best[h].score}, cluster);
  }
  (present ? outcome.best_present : outcome.best_absent).add(likeliest, cluster);
  (present ? outcome.there_present : outcome.there_absent)
      .add(model.tells ? judgement.there : judgement.hits[0].standard, cluster);
  (present ? outcome.cosine_present : outcome.cosine_absent).add(double{best.front().score}, cluster);
  if (present) {
    outcome.first_right.add(std::ranges::binary_search(right, best.front().row) ? 1 : 0, cluster);
  } else if (std::isfinite(judgement.p_value)) {
    outcome.rare.add(judgement.p_value <= kRare ? 1 : 0, cluster);
  }
}

}  // namespace

MatchTask match_task(std::span<const DatasetItem> items, std::span<const int64_t> numbers, uint64_t seed) {
  MatchTask task;
  std::map<std::string, int64_t> classes;
  for (const int64_t number : numbers) {
    const DatasetItem& item = items[static_cast<size_t>(number)];
    std::string joined;
    for (const std::string& caption : item.captions) joined += (joined.empty() ? "" : "; ") + caption;
    task.captions.push_back(std::move(joined));
    // Ids and groups are separate namespaces. A group with the name of another image's id is not its class.
    const std::string name = item.group.empty() ? "id " + item.id : "group " + item.group;
    task.class_of.push_back(classes.try_emplace(name, std::ssize(classes)).first->second);
  }
  task.classes = std::ssize(classes);
  std::vector<int64_t> order(static_cast<size_t>(task.classes));
  std::iota(order.begin(), order.end(), 0);
  SplitMix random(seed);
  random.shuffle(order);
  task.learned.assign(order.size(), 0);
  for (size_t i = 0; i < order.size() / 2; ++i) task.learned[static_cast<size_t>(order[i])] = 1;
  return task;
}

MatchQueries learned_texts(const MatchTask& task, int64_t count) {
  const CaptionIndex captions(task.captions);
  MatchQueries queries;
  const std::vector<int64_t> half = pictures_of_half(task, true);
  if (!half.empty()) {
    for (CaptionQuery& query : captions.draw(count - count / kEverydayShare, kMostRight, 0, half)) {
      queries.cluster.push_back(task.class_of[static_cast<size_t>(query.from)]);
      queries.texts.push_back(std::move(query.text));
      queries.right.push_back(std::move(query.right));
    }
  }
  for (const std::string_view word : everyday_words()) {
    if (std::ssize(queries.texts) >= count) break;
    queries.texts.emplace_back(word);
    queries.right.emplace_back();
    queries.cluster.push_back(-1);
  }
  queries.itself.assign(queries.texts.size(), -1);
  return queries;
}

MatchQueries asked_texts(const MatchTask& task) {
  return queries_of(task, spread(pictures_of_half(task, false), kMostAsked), true);
}

MatchQueries learned_pictures(const MatchTask& task) {
  MatchQueries queries = queries_of(task, spread(pictures_of_half(task, true), 512), false);
  // Calibrates as a collection does: by captions alone, since a collection does not know the classes.
  const CaptionIndex captions(task.captions);
  for (size_t q = 0; q < queries.right.size(); ++q) {
    const auto parts = caption_parts(task.captions[static_cast<size_t>(queries.itself[q])]);
    queries.right[q] = captions.with_all_words(parts.front());
    std::erase(queries.right[q], queries.itself[q]);
    if (std::ssize(queries.right[q]) > kMostRight) queries.right[q].clear();
  }
  return queries;
}

MatchQueries asked_pictures(const MatchTask& task) {
  MatchQueries queries = queries_of(task, spread(pictures_of_half(task, false), kMostAsked), false);
  // An image whose class has no other member has no answer to find or to remove.
  MatchQueries answered;
  for (size_t q = 0; q < queries.right.size(); ++q) {
    if (queries.right[q].empty()) continue;
    answered.right.push_back(std::move(queries.right[q]));
    answered.itself.push_back(queries.itself[q]);
    answered.cluster.push_back(queries.cluster[q]);
  }
  return answered;
}

Figure clustered_auroc(const ClusteredValues& high, const ClusteredValues& low, int64_t clusters,
                       const BootstrapOptions& options, ThreadPool& pool) {
  struct Value {
    double value;
    bool high;
    int64_t cluster;
  };
  Figure figure;
  std::vector<Value> values;
  for (const ClusteredValues* some : {&high, &low}) {
    for (size_t i = 0; i < some->values.size(); ++i) {
      values.push_back({some->values[i], some == &high, some->cluster[i]});
    }
  }
  std::ranges::sort(values, {}, &Value::value);
  const auto area = [&](const std::vector<double>& weight) {
    double below = 0;
    double wins = 0;
    double highs = 0;
    for (size_t begin = 0; begin < values.size();) {
      double low_here = 0;
      double high_here = 0;
      size_t end = begin;
      for (; end < values.size() && values[end].value == values[begin].value; ++end) {
        (values[end].high ? high_here : low_here) += weight[static_cast<size_t>(values[end].cluster)];
      }
      wins += high_here * (below + low_here / 2);
      below += low_here;
      highs += high_here;
      begin = end;
    }
    return highs > 0 && below > 0 ? wins / (highs * below) : Figure::kNone;
  };
  figure.value = area(std::vector<double>(static_cast<size_t>(clusters), 1.0));
  if (options.resamples < 1 || clusters < 2 || !std::isfinite(figure.value)) return figure;
  std::vector<double> resampled(static_cast<size_t>(options.resamples));
  pool.parallel_for(options.resamples, 16, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      SplitMix random(options.seed, r);
      std::vector<double> weight(static_cast<size_t>(clusters));
      for (int64_t c = 0; c < clusters; ++c) weight[random.below(static_cast<uint32_t>(clusters))] += 1;
      resampled[static_cast<size_t>(r)] = area(weight);
    }
  });
  std::erase_if(resampled, [](double value) { return !std::isfinite(value); });
  std::ranges::sort(resampled);
  figure.low = quantile(resampled, (1 - options.confidence) / 2);
  figure.high = quantile(resampled, (1 + options.confidence) / 2);
  return figure;
}

Result<MatchFigures> measure_matches(MatrixView<const float> rows, const MatchQueries& learned,
                                     const Matrix<float>& learned_rows, const MatchQueries& asked,
                                     const Matrix<float>& asked_rows, double temperature,
                                     const BootstrapOptions& bootstrap, ThreadPool& pool) {
  const Surroundings surroundings = surroundings_of(rows, {}, learned_rows.view(), temperature);
  LabelledQueries labelled;
  labelled.rows = learned_rows.copy();
  labelled.right = learned.right;
  labelled.itself = learned.itself;
  if (learned.texts.empty()) labelled.fewest = kFewestLabelledPictures;
  for (size_t q = 0; q < learned.right.size(); ++q) labelled.words.push_back(words_of(learned, q));
  SACCADE_ASSIGN(const MatchModel model, fit_matches(rows, {}, surroundings, labelled, pool));
  MatchFigures figures;
  figures.tells = model.tells;
  figures.reason = model.reason;
  figures.learned = model.labelled;
  figures.gain = model.gain;
  figures.gain_error = model.gain_error;
  figures.asked = asked_rows.rows();
  if (asked_rows.rows() == 0) return figures;

  size_t most = 0;
  for (const std::vector<int64_t>& right : asked.right) most = std::max(most, right.size());
  SACCADE_ASSIGN(const auto found,
                 exact_search(rows, asked_rows.view(), kCompetitors + 1 + static_cast<int64_t>(most), pool));
  // Only classes with queries are resampled.
  std::map<int64_t, int64_t> numbers;
  for (const int64_t cluster : asked.cluster) numbers.try_emplace(cluster, std::ssize(numbers));
  const int64_t classes = std::ssize(numbers);
  Outcome outcome;
  for (int64_t q = 0; q < asked_rows.rows(); ++q) {
    const auto at = static_cast<size_t>(q);
    for (const bool present : {true, false}) {
      judge_query(model, surroundings, rows, asked_rows.row(q), found[at], asked.right[at],
                  words_of(asked, at), asked.itself[at], numbers.at(asked.cluster[at]), present, outcome);
    }
  }

  const auto auroc = [&](const ClusteredValues& high, const ClusteredValues& low) {
    return clustered_auroc(high, low, classes, bootstrap, pool);
  };
  const auto mean = [&](const ClusteredValues& values) {
    return mean_figure(values, classes, bootstrap, pool);
  };
  figures.first_right = mean(outcome.first_right);
  figures.found_auroc = auroc(outcome.there_present, outcome.there_absent);
  figures.cosine_auroc = auroc(outcome.cosine_present, outcome.cosine_absent);
  figures.hit_auroc = auroc(outcome.right_hits, outcome.wrong_hits);
  figures.hit_cosine_auroc = auroc(outcome.right_cosines, outcome.wrong_cosines);
  figures.rare = mean(outcome.rare);
  if (!model.tells) return figures;
  for (int b = 0; b < kBins; ++b) {
    MatchFigures::Bin bin{.from = static_cast<double>(b) / kBins, .to = static_cast<double>(b + 1) / kBins};
    ClusteredValues came;
    double promised = 0;
    for (const Outcome::Hit& hit : outcome.hits) {
      if (std::min(kBins - 1, static_cast<int>(hit.promise * kBins)) != b) continue;
      came.add(hit.right ? 1 : 0, hit.cluster);
      promised += hit.promise;
    }
    bin.hits = std::ssize(came.values);
    if (bin.hits == 0) continue;
    bin.promised = promised / static_cast<double>(bin.hits);
    bin.came = mean(came);
    figures.bins.push_back(std::move(bin));
  }
  for (const double at : kCuts) {
    MatchFigures::Cut cut{.cut = at};
    ClusteredValues right;
    double promised = 0;
    for (const Outcome::Hit& hit : outcome.hits) {
      if (hit.promise < at) continue;
      right.add(hit.right ? 1 : 0, hit.cluster);
      promised += hit.promise;
    }
    cut.hits = std::ssize(right.values);
    if (cut.hits > 0) cut.promised = promised / static_cast<double>(cut.hits);
    cut.precision = mean(right);
    const auto shown = [&](const ClusteredValues& best) {
      ClusteredValues any;
      for (size_t i = 0; i < best.values.size(); ++i) any.add(best.values[i] >= at ? 1 : 0, best.cluster[i]);
      return any;
    };
    cut.found = mean(shown(outcome.best_present));
    cut.false_found = mean(shown(outcome.best_absent));
    figures.cuts.push_back(std::move(cut));
  }
  return figures;
}

}  // namespace saccade::lab
