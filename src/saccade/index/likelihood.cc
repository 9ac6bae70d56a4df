#include "saccade/index/likelihood.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "saccade/index/dot_kernels.h"

namespace saccade {
namespace {

constexpr int kFolds = 5;
constexpr double kRidge =
    1;  // on weights of standardized figures: with few labels they stay near the base rate
constexpr size_t kWeights = HitFigures::kCount + 1;

using Weights = std::array<double, kWeights>;

// Each row's dot product with the vector, as a search scores it.
std::vector<float> dots(std::vector<const float*> rows, std::span<const float> with) {
  const auto count = std::ssize(rows);
  const auto dim = std::ssize(with);
  std::vector<float> padded(static_cast<size_t>(padded_dim(dim)));
  std::ranges::copy(with, padded.begin());
  if (!rows.empty()) rows.resize(rows.size() + static_cast<size_t>(kDotRowGroup), rows.back());
  std::vector<float> result(static_cast<size_t>(count));
  if (count > 0) dot_kernels().front().run(rows.data(), count, padded.data(), 1, dim, result.data());
  return result;
}

std::vector<const float*> rows_of(const Matrix<float>& matrix) {
  std::vector<const float*> rows;
  for (int64_t r = 0; r < matrix.rows(); ++r) rows.push_back(matrix.row(r).data());
  return rows;
}

struct Moments {
  double mean = 0;
  double deviation = 1;
};

// A deviation of 0 (all alike) becomes 1: nothing stands out.
Moments moments_of(std::span<const double> values) {
  Moments moments;
  if (values.empty()) return moments;
  const auto n = static_cast<double>(values.size());
  moments.mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares = 0;
  for (const double value : values) squares += (value - moments.mean) * (value - moments.mean);
  if (const double deviation = std::sqrt(squares / n); deviation > 1e-9) moments.deviation = deviation;
  return moments;
}

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

// -log of the probability given to what was the case.
double log_loss(double logit, bool right) {
  const double x = right ? -logit : logit;
  return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
}

// A hit of a labelled query.
struct Example {
  std::array<double, HitFigures::kCount> figures;
  bool right = false;
  bool present = false;  // whether the query's right rows were there
  int64_t query = 0;
};

std::array<double, HitFigures::kCount> as_array(const HitFigures& figures) {
  return {figures.score, figures.standard, figures.odds, figures.hub, figures.level, figures.words};
}

// Solves a x = b for a symmetric positive a, by Cholesky's decomposition.
Weights solve(std::array<Weights, kWeights> a, Weights b) {
  for (size_t i = 0; i < kWeights; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double sum = a[i][j];
      for (size_t k = 0; k < j; ++k) sum -= a[i][k] * a[j][k];
      a[i][j] = i == j ? std::sqrt(std::max(sum, 1e-12)) : sum / a[j][j];
    }
  }
  for (size_t i = 0; i < kWeights; ++i) {
    for (size_t k = 0; k < i; ++k) b[i] -= a[i][k] * b[k];
    b[i] /= a[i][i];
  }
  for (size_t i = kWeights; i-- > 0;) {
    for (size_t k = i + 1; k < kWeights; ++k) b[i] -= a[k][i] * b[k];
    b[i] /= a[i][i];
  }
  return b;
}

// Logistic regression with a ridge, by Newton's method; the loss is convex.
// Examples of `without` are left out.
HitRegression fit(std::span<const Example> examples, int without) {
  HitRegression model;
  const auto used = [&](const Example& example) { return without < 0 || example.query % kFolds != without; };
  for (size_t f = 0; f < HitFigures::kCount; ++f) {
    std::vector<double> values;
    for (const Example& example : examples) {
      if (used(example)) values.push_back(example.figures[f]);
    }
    const Moments moments = moments_of(values);
    model.centre[f] = moments.mean;
    model.spread[f] = moments.deviation;
  }
  for (int step = 0; step < 50; ++step) {
    Weights gradient = {};
    std::array<Weights, kWeights> curvature = {};
    for (size_t w = 0; w < kWeights; ++w) {
      const double ridge = w + 1 < kWeights ? kRidge : 1e-6;
      gradient[w] = -ridge * model.weight[w];
      curvature[w][w] = ridge;
    }
    for (const Example& example : examples) {
      if (!used(example)) continue;
      const double p = sigmoid(model.logit(example.figures));
      Weights x;
      for (size_t f = 0; f < HitFigures::kCount; ++f) {
        x[f] = (example.figures[f] - model.centre[f]) / model.spread[f];
      }
      x.back() = 1;
      for (size_t i = 0; i < kWeights; ++i) {
        gradient[i] += ((example.right ? 1 : 0) - p) * x[i];
        for (size_t j = 0; j <= i; ++j) curvature[i][j] += p * (1 - p) * x[i] * x[j];
      }
    }
    const Weights change = solve(curvature, gradient);
    double largest = 0;
    for (size_t w = 0; w < kWeights; ++w) {
      // A step is bounded: far from the optimum the curvature of the logistic loss vanishes.
      model.weight[w] += std::clamp(change[w], -4.0, 4.0);
      largest = std::max(largest, std::abs(change[w]));
    }
    if (largest < 1e-9) break;
  }
  return model;
}

// What the fit is worth on queries that it has not seen, against the base rate of those that it has.
void cross_validate(std::span<const Example> examples, MatchModel& model) {
  int64_t queries = 0;
  for (const Example& example : examples) queries = std::max(queries, example.query + 1);
  std::vector<double> gain(static_cast<size_t>(queries));
  std::vector<uint8_t> seen(gain.size());
  for (int fold = 0; fold < kFolds; ++fold) {
    const HitRegression partial = fit(examples, fold);
    double right = 0;
    double all = 0;
    for (const Example& example : examples) {
      if (example.query % kFolds == fold) continue;
      all += 1;
      right += example.right ? 1 : 0;
    }
    const double base = std::log(std::max(right, 0.5) / std::max(all - right, 0.5));
    for (const Example& example : examples) {
      if (example.query % kFolds != fold) continue;
      const auto at = static_cast<size_t>(example.query);
      seen[at] = 1;
      gain[at] += log_loss(base, example.right) - log_loss(partial.logit(example.figures), example.right);
    }
  }
  std::vector<double> gains;
  for (size_t q = 0; q < gain.size(); ++q) {
    if (seen[q] != 0) gains.push_back(gain[q]);
  }
  const Moments moments = moments_of(gains);
  model.gain = moments.mean;
  model.gain_error =
      gains.size() > 1 ? moments.deviation / std::sqrt(static_cast<double>(gains.size() - 1)) : 0;
}

// How many of a null's wrong rows score at least as much, at up to two hundred scores: each tenth of a
// power of e of the count has one.
void count_false(std::vector<float> scores, double queries, MatchModel& model) {
  std::ranges::sort(scores, std::greater<>());
  size_t last = 0;
  for (double count = 1; static_cast<size_t>(count) <= scores.size();
       count = std::max(count + 1, count * 1.1)) {
    last = static_cast<size_t>(count);
    model.false_score.push_back(scores[last - 1]);
    model.false_count.push_back(static_cast<float>(static_cast<double>(last) / queries));
  }
  std::ranges::reverse(model.false_score);
  std::ranges::reverse(model.false_count);
}

// The query's rows, best first, without those of `gone` and without itself.
std::vector<RowScore> remaining(std::span<const RowScore> best, std::span<const int64_t> gone,
                                int64_t itself) {
  std::vector<RowScore> left;
  for (const RowScore& hit : best) {
    if (hit.row == itself || std::ranges::binary_search(gone, hit.row)) continue;
    left.push_back(hit);
    if (std::ssize(left) == kCompetitors) break;
  }
  return left;
}

// The queries' hits with and without their right rows, and the null's scores.
struct Asked {
  std::vector<Example> examples;
  std::vector<Example> first;  // of each labelled query the first hit, right where an answer is there
  std::vector<std::vector<Example>> absent;  // of each query that counts for the null, its hits
  std::vector<float> false_scores;
  int64_t labelled = 0;
  int64_t right_hits = 0;
};

void add_hits(const Surroundings& surroundings, MatrixView<const float> rows, std::span<const float> query,
              std::span<const RowScore> hits, std::span<const int64_t> right, int64_t words, int64_t number,
              bool present, Asked& asked) {
  const std::vector<HitFigures> figures = hit_figures(surroundings, rows, query, hits, words);
  std::vector<Example> examples;
  for (size_t h = 0; h < std::min(hits.size(), static_cast<size_t>(kJudgedHits)); ++h) {
    Example example;
    example.figures = as_array(figures[h]);
    example.right = present && std::ranges::binary_search(right, hits[h].row);
    example.present = present;
    example.query = number;
    asked.right_hits += example.right ? 1 : 0;
    examples.push_back(example);
  }
  if (!right.empty() && !examples.empty()) {
    asked.examples.insert(asked.examples.end(), examples.begin(), examples.end());
    asked.first.push_back(examples.front());
    asked.first.back().right = present;
  }
  if (present) return;
  for (const HitFigures& figure : figures) asked.false_scores.push_back(static_cast<float>(figure.standard));
  asked.absent.push_back(std::move(examples));
}

// `labels`: only queries with right rows count; otherwise all do, and whatever they find is taken for wrong.
Asked ask(MatrixView<const float> rows, const Surroundings& surroundings, const LabelledQueries& queries,
          const std::vector<std::vector<RowScore>>& found, bool labels) {
  Asked asked;
  for (int64_t q = 0; q < queries.rows.rows(); ++q) {
    const auto at = static_cast<size_t>(q);
    const std::vector<int64_t>& right = queries.right[at];
    if (labels && right.empty()) continue;
    const std::span<const float> query = queries.rows.row(q);
    const int64_t number = asked.labelled++;
    if (!right.empty()) {
      add_hits(surroundings, rows, query, remaining(found[at], {}, queries.itself[at]), right,
               queries.words[at], number, true, asked);
    }
    const auto gone = labels ? std::span<const int64_t>(right) : std::span<const int64_t>();
    const std::vector<RowScore> wrong = remaining(found[at], gone, queries.itself[at]);
    add_hits(surroundings, rows, query, wrong, right, queries.words[at], number, false, asked);
  }
  return asked;
}

// What a query's first hit stands out by.
double standing(const MatchModel& model, const std::array<double, HitFigures::kCount>& figures) {
  constexpr size_t kStandard = 1;
  return model.tells ? model.there.logit(figures) : figures[kStandard];
}

void keep_null(const Asked& asked, MatchModel& model) {
  for (const std::vector<Example>& hits : asked.absent) {
    if (!hits.empty()) model.best.push_back(static_cast<float>(standing(model, hits.front().figures)));
  }
  std::ranges::sort(model.best);
  model.queries = std::ssize(model.best);
  count_false(asked.false_scores, std::max<double>(1, static_cast<double>(asked.absent.size())), model);
}

}  // namespace

double HitRegression::logit(const std::array<double, HitFigures::kCount>& figures) const {
  double sum = weight.back();
  for (size_t f = 0; f < figures.size(); ++f) sum += weight[f] * (figures[f] - centre[f]) / spread[f];
  return sum;
}

Surroundings surroundings_of(MatrixView<const float> rows, std::span<const uint8_t> allowed,
                             MatrixView<const float> queries, double temperature) {
  std::vector<int64_t> there;
  for (int64_t r = 0; r < rows.rows(); ++r) {
    if (allowed.empty() || allowed[static_cast<size_t>(r)] != 0) there.push_back(r);
  }
  Surroundings result;
  result.temperature = temperature;
  result.mean_query.assign(static_cast<size_t>(rows.columns()), 0.0F);
  for (int64_t q = 0; q < queries.rows(); ++q) {
    const std::span<const float> query = queries.row(q);
    for (size_t i = 0; i < query.size(); ++i)
      result.mean_query[i] += query[i] / static_cast<float>(queries.rows());
  }
  const int64_t count = std::min(kSampleRows, std::ssize(there));
  result.sample = Matrix<float>(count, rows.columns());
  for (int64_t s = 0; s < count; ++s) {
    const std::span<const float> row = rows.row(there[static_cast<size_t>(s * std::ssize(there) / count)]);
    std::ranges::copy(row, result.sample.row(s).begin());
  }
  const std::vector<float> hubs = dots(rows_of(result.sample), result.mean_query);
  const Moments moments = moments_of(std::vector<double>(hubs.begin(), hubs.end()));
  result.hub_mean = moments.mean;
  result.hub_deviation = moments.deviation;
  return result;
}

std::vector<HitFigures> hit_figures(const Surroundings& surroundings, MatrixView<const float> rows,
                                    std::span<const float> query, std::span<const RowScore> best,
                                    int64_t words) {
  std::vector<HitFigures> figures;
  if (best.empty()) return figures;
  const std::vector<float> scores = dots(rows_of(surroundings.sample), query);
  const Moments moments = moments_of(std::vector<double>(scores.begin(), scores.end()));
  std::vector<const float*> found;
  for (const RowScore& hit : best) found.push_back(rows.row(hit.row).data());
  const std::vector<float> hubs = dots(std::move(found), surroundings.mean_query);
  const auto exponential = [&](float score) {
    return std::exp(surroundings.temperature * (double{score} - double{best.front().score}));
  };
  double sum = 0;
  for (size_t i = 0; i < std::min(best.size(), static_cast<size_t>(kCompetitors)); ++i) {
    sum += exponential(best[i].score);
  }
  const size_t last = std::min(best.size(), static_cast<size_t>(kJudgedHits)) - 1;
  for (size_t h = 0; h < best.size(); ++h) {
    const RowScore& hit = best[h];
    HitFigures figure;
    figure.score = double{hit.score};
    figure.words = std::log1p(static_cast<double>(words));
    figure.level = (double{best[last].score} - moments.mean) / moments.deviation;
    figure.standard = (double{hit.score} - moments.mean) / moments.deviation;
    // Bounded: beyond e^20 a score's rounding decides.
    const double own = exponential(hit.score);
    figure.odds = std::clamp(std::log(own / std::max(sum - own, 1e-300)), -20.0, 20.0);
    figure.hub = (double{hubs[h]} - surroundings.hub_mean) / surroundings.hub_deviation;
    figures.push_back(figure);
  }
  return figures;
}

Result<MatchModel> fit_matches(MatrixView<const float> rows, std::span<const uint8_t> allowed,
                               const Surroundings& surroundings, const LabelledQueries& queries,
                               ThreadPool& pool) {
  MatchModel model;
  model.rows =
      allowed.empty() ? rows.rows() : std::ranges::count_if(allowed, [](uint8_t flag) { return flag != 0; });
  if (model.rows < kFewestRows) {
    model.reason =
        fmt::format("{} are too few to learn from how scores fall, {} are needed", model.rows, kFewestRows);
    return model;
  }
  // As many as are left when a query's right rows and itself are taken away.
  size_t most_right = 0;
  for (const std::vector<int64_t>& right : queries.right) most_right = std::max(most_right, right.size());
  const int64_t depth = kCompetitors + static_cast<int64_t>(most_right) + 1;
  SACCADE_ASSIGN(const auto found, exact_search(rows, queries.rows.view(), depth, pool, allowed));
  Asked asked = ask(rows, surroundings, queries, found, true);
  model.labelled = asked.labelled;
  model.right_hits = asked.right_hits;
  if (asked.labelled < queries.fewest) {
    model.reason = fmt::format("{} queries have known answers, {} are needed to learn which scores are right",
                               asked.labelled, queries.fewest);
    keep_null(ask(rows, surroundings, queries, found, false), model);
    return model;
  }
  if (asked.right_hits < kFewestRightHits) {
    model.reason = fmt::format(
        "of {} queries with known answers only {} right ones are among the first {} hits: the "
        "encoder does not find them",
        asked.labelled, asked.right_hits, kJudgedHits);
  } else {
    cross_validate(asked.examples, model);
    model.tells = model.gain > 2 * model.gain_error;
    if (!model.tells) model.reason = "the encoder's scores do not tell right hits from wrong ones here";
  }
  if (model.tells) {
    model.hit = fit(asked.examples, -1);
    model.there = fit(asked.first, -1);
  }
  keep_null(asked, model);
  return model;
}

Judgement judge_hits(const MatchModel& model, const Surroundings& surroundings, MatrixView<const float> rows,
                     std::span<const float> query, std::span<const RowScore> best, int64_t searched,
                     int64_t words) {
  Judgement judgement;
  const std::vector<HitFigures> figures = hit_figures(surroundings, rows, query, best, words);
  for (size_t h = 0; h < figures.size(); ++h) {
    HitLikelihood likelihood;
    likelihood.standard = figures[h].standard;
    if (model.tells) likelihood.right = sigmoid(model.hit.logit(as_array(figures[h])));
    if (!model.false_score.empty() && model.rows > 0) {
      // That of the nearest score at or below this one: never too few. Above all
      // there are, that of the highest.
      auto at = std::ranges::upper_bound(model.false_score, static_cast<float>(likelihood.standard));
      if (at != model.false_score.begin()) --at;
      const double count = model.false_count[static_cast<size_t>(at - model.false_score.begin())];
      likelihood.expected_false = count * static_cast<double>(searched) / static_cast<double>(model.rows);
    }
    judgement.hits.push_back(likelihood);
  }
  if (figures.empty()) return judgement;
  const double standing_out = standing(model, as_array(figures.front()));
  if (model.tells) judgement.there = sigmoid(standing_out);
  if (!model.best.empty()) {
    const auto above =
        model.best.end() - std::ranges::lower_bound(model.best, static_cast<float>(standing_out));
    judgement.p_value = static_cast<double>(1 + above) / static_cast<double>(1 + std::ssize(model.best));
  }
  return judgement;
}

}  // namespace saccade
