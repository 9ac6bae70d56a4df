#include "saccade/index/likelihood.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "saccade/core/rows.h"
#include "saccade/index/dot_kernels.h"

namespace saccade {
namespace {

constexpr int kFolds = 5;
constexpr double kRidge =
    1;  // on weights of standardized figures: with few labels they stay near the base rate
constexpr size_t kWeights = HitFigures::kCount + 1;
constexpr size_t kSearchedTogether = 64;

using Weights = std::array<double, kWeights>;

// Computes each row's dot product with the vector, with the same rounding as a search.
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

// Computes mean and deviation. A deviation of 0 (all equal) becomes 1.
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

// Computes -log of the probability predicted for the actual outcome.
double log_loss(double logit, bool right) {
  const double x = right ? -logit : logit;
  return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
}

// Training example: a hit of a labelled query.
struct Example {
  std::array<double, HitFigures::kCount> figures;
  bool right = false;
  bool present = false;  // true if the query's right rows were present
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

// Fits a ridge logistic regression by Newton's method; the loss is convex. Excludes the examples of fold
// `without`. `near`: a fit to similar examples as the starting point, which saves steps; may be nullptr.
HitRegression fit(std::span<const Example> examples, int without, const HitRegression* near = nullptr) {
  HitRegression model;
  std::vector<const Example*> used;
  for (const Example& example : examples) {
    if (without < 0 || example.query % kFolds != without) used.push_back(&example);
  }
  for (size_t f = 0; f < HitFigures::kCount; ++f) {
    std::vector<double> values;
    for (const Example* example : used) values.push_back(example->figures[f]);
    const Moments moments = moments_of(values);
    model.centre[f] = moments.mean;
    model.spread[f] = moments.deviation;
  }
  if (near != nullptr) {
    model.weight = near->weight;
    for (size_t f = 0; f < HitFigures::kCount; ++f) {
      const double slope = near->weight[f] / near->spread[f];
      model.weight[f] = slope * model.spread[f];
      model.weight.back() += slope * (model.centre[f] - near->centre[f]);
    }
  }
  // Number of features padded to whole vectors of the processor; the last ones stay 0.
  constexpr size_t kPlaces = 8;
  static_assert(kPlaces >= kWeights);
  using Places = std::array<double, kPlaces>;
  std::vector<Places> standardized(used.size());
  for (size_t e = 0; e < used.size(); ++e) {
    for (size_t f = 0; f < HitFigures::kCount; ++f) {
      standardized[e][f] = (used[e]->figures[f] - model.centre[f]) / model.spread[f];
    }
    standardized[e][HitFigures::kCount] = 1;
  }
  for (int step = 0; step < 50; ++step) {
    Places weight = {};
    std::ranges::copy(model.weight, weight.begin());
    Places sums = {};
    std::array<Places, kPlaces> squares = {};
    for (size_t e = 0; e < used.size(); ++e) {
      const Places& x = standardized[e];
      double logit = 0;
      for (size_t w = 0; w < kPlaces; ++w) logit += weight[w] * x[w];
      const double p = sigmoid(logit);
      const double miss = (used[e]->right ? 1 : 0) - p;
      for (size_t i = 0; i < kPlaces; ++i) sums[i] += miss * x[i];
      for (size_t i = 0; i < kWeights; ++i) {
        const double weighted = p * (1 - p) * x[i];
        for (size_t j = 0; j < kPlaces; ++j) squares[i][j] += weighted * x[j];
      }
    }
    Weights gradient = {};
    std::array<Weights, kWeights> curvature = {};
    for (size_t w = 0; w < kWeights; ++w) {
      const double ridge = w + 1 < kWeights ? kRidge : 1e-6;
      gradient[w] = sums[w] - ridge * model.weight[w];
      std::copy_n(squares[w].begin(), kWeights, curvature[w].begin());
      curvature[w][w] += ridge;
    }
    const Weights change = solve(curvature, gradient);
    double largest = 0;
    for (size_t w = 0; w < kWeights; ++w) {
      // Steps are clamped, because the curvature of the logistic loss vanishes far from the optimum.
      model.weight[w] += std::clamp(change[w], -4.0, 4.0);
      largest = std::max(largest, std::abs(change[w]));
    }
    // Convergence is quadratic.
    if (largest < 1e-4) break;
  }
  return model;
}

// Computes the held-out performance of the fit, against the base rate of the training queries. `whole`: the
// fit to all examples.
void cross_validate(std::span<const Example> examples, const HitRegression& whole, MatchModel& model) {
  int64_t queries = 0;
  for (const Example& example : examples) queries = std::max(queries, example.query + 1);
  std::vector<double> gain(static_cast<size_t>(queries));
  std::vector<uint8_t> seen(gain.size());
  for (int fold = 0; fold < kFolds; ++fold) {
    const HitRegression partial = fit(examples, fold, &whole);
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

// Computes how many wrong rows of the null distribution score at least as much, at up to two hundred scores.
// The count falls by a tenth of a power of e between them.
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

// Returns the query's rows, best first, without those in `gone` and without itself.
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

// Hits of the queries with and without their right rows, and the scores of the null distribution.
struct Asked {
  std::vector<Example> examples;
  std::vector<Example> first;                // first hit of each labelled query, right if it has an answer
  std::vector<std::vector<Example>> absent;  // hits of each null query
  std::vector<float> false_scores;
  int64_t labelled = 0;
  int64_t right_hits = 0;
};

// Query with the moments of its scores over the sample.
struct Asking {
  std::span<const float> row;
  Moments scores;
  int64_t words = 0;
};

Asking asking_of(const Surroundings& surroundings, std::span<const float> query, int64_t words) {
  const std::vector<float> scores = dots(rows_of(surroundings.sample), query);
  return {query, moments_of(std::vector<double>(scores.begin(), scores.end())), words};
}

double standard_score(const Asking& asking, float score) {
  return (double{score} - asking.scores.mean) / asking.scores.deviation;
}

// Computes the figures of the first `count` hits.
std::vector<HitFigures> figures_of(const Surroundings& surroundings, MatrixView<const float> rows,
                                   const Asking& asking, std::span<const RowScore> best, size_t count) {
  std::vector<HitFigures> figures;
  if (best.empty()) return figures;
  count = std::min(count, best.size());
  std::vector<const float*> found;
  for (const RowScore& hit : best.first(count)) found.push_back(rows.row(hit.row).data());
  const std::vector<float> hubs = dots(std::move(found), surroundings.mean_query);
  const LogOdds log_odds(best, surroundings.temperature);
  const size_t last = std::min(best.size(), static_cast<size_t>(kJudgedHits)) - 1;
  for (size_t h = 0; h < count; ++h) {
    HitFigures figure;
    figure.score = double{best[h].score};
    figure.words = std::log1p(static_cast<double>(asking.words));
    figure.level = standard_score(asking, best[last].score);
    figure.standard = standard_score(asking, best[h].score);
    figure.odds = log_odds.of(double{best[h].score});
    figure.hub = (double{hubs[h]} - surroundings.hub_mean) / surroundings.hub_deviation;
    figures.push_back(figure);
  }
  return figures;
}

void add_hits(const Surroundings& surroundings, MatrixView<const float> rows, const Asking& asking,
              std::span<const RowScore> hits, std::span<const int64_t> right, int64_t number, bool present,
              Asked& asked) {
  const std::vector<HitFigures> figures = figures_of(surroundings, rows, asking, hits, kJudgedHits);
  std::vector<Example> examples;
  for (size_t h = 0; h < figures.size(); ++h) {
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
  for (const RowScore& hit : hits) {
    asked.false_scores.push_back(static_cast<float>(standard_score(asking, hit.score)));
  }
  asked.absent.push_back(std::move(examples));
}

// Searches for the queries. With `labels`, only those with right rows count; otherwise all do, and all their
// hits are treated as wrong.
Asked ask(MatrixView<const float> rows, const Surroundings& surroundings, const LabelledQueries& queries,
          const std::vector<std::vector<RowScore>>& found, bool labels) {
  Asked asked;
  for (int64_t q = 0; q < queries.rows.rows(); ++q) {
    const auto at = static_cast<size_t>(q);
    const std::vector<int64_t>& right = queries.right[at];
    if (labels && right.empty()) continue;
    const Asking asking = asking_of(surroundings, queries.rows.row(q), queries.words[at]);
    const int64_t number = asked.labelled++;
    if (!right.empty()) {
      add_hits(surroundings, rows, asking, remaining(found[at], {}, queries.itself[at]), right, number, true,
               asked);
    }
    const auto gone = labels ? std::span<const int64_t>(right) : std::span<const int64_t>();
    add_hits(surroundings, rows, asking, remaining(found[at], gone, queries.itself[at]), right, number, false,
             asked);
  }
  return asked;
}

// Finds the best rows of each query in `wanted`, deep enough to leave kCompetitors after its right rows and
// itself are removed. Queries with a similar number of right rows are searched together. So one with a
// hundred does not lengthen the lists of the others.
Result<std::vector<std::vector<RowScore>>> find_best(MatrixView<const float> rows,
                                                     std::span<const uint8_t> allowed,
                                                     const LabelledQueries& queries,
                                                     std::vector<int64_t> wanted, ThreadPool& pool,
                                                     const std::stop_token& stop) {
  const auto right_of = [&](int64_t q) { return std::ssize(queries.right[static_cast<size_t>(q)]); };
  std::ranges::stable_sort(wanted, {}, right_of);
  std::vector<std::vector<RowScore>> found(queries.right.size());
  for (size_t first = 0; first < wanted.size(); first += kSearchedTogether) {
    if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "asked to stop");
    const auto block = std::span(wanted).subspan(first, std::min(kSearchedTogether, wanted.size() - first));
    const Matrix<float> together = select_rows(queries.rows.view(), block);
    const int64_t depth = kCompetitors + right_of(block.back()) + 1;
    SACCADE_ASSIGN(auto best, exact_search(rows, together.view(), depth, pool, allowed));
    for (size_t i = 0; i < block.size(); ++i) found[static_cast<size_t>(block[i])] = std::move(best[i]);
  }
  return found;
}

// Returns the statistic that measures how much a query's first hit stands out.
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

LogOdds::LogOdds(std::span<const RowScore> best, double temperature) : temperature_(temperature) {
  if (best.empty()) return;
  first_ = double{best.front().score};
  for (const RowScore& one : best.first(std::min(best.size(), static_cast<size_t>(kCompetitors)))) {
    sum_ += exponential(double{one.score});
  }
}

double LogOdds::exponential(double score) const {
  return std::exp(temperature_ * (score - first_));
}

double LogOdds::of(double score) const {
  // Clamped, because rounding of the score dominates beyond e^20.
  const double own = exponential(score);
  return std::clamp(std::log(own / std::max(sum_ - own, 1e-300)), -20.0, 20.0);
}

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
  return figures_of(surroundings, rows, asking_of(surroundings, query, words), best, best.size());
}

Result<MatchModel> fit_matches(MatrixView<const float> rows, std::span<const uint8_t> allowed,
                               const Surroundings& surroundings, const LabelledQueries& queries,
                               ThreadPool& pool, const std::stop_token& stop) {
  MatchModel model;
  model.rows =
      allowed.empty() ? rows.rows() : std::ranges::count_if(allowed, [](uint8_t flag) { return flag != 0; });
  if (model.rows < kFewestRows) {
    model.reason =
        fmt::format("{} embeddings are too few to calibrate scores, {} are needed", model.rows, kFewestRows);
    return model;
  }
  std::vector<int64_t> all(queries.right.size());
  std::iota(all.begin(), all.end(), 0);
  std::vector<int64_t> labelled = all;
  std::erase_if(labelled, [&](int64_t q) { return queries.right[static_cast<size_t>(q)].empty(); });
  const bool enough = std::ssize(labelled) >= queries.fewest;
  SACCADE_ASSIGN(const auto found, find_best(rows, allowed, queries, enough ? labelled : all, pool, stop));
  Asked asked = ask(rows, surroundings, queries, found, true);
  model.labelled = asked.labelled;
  model.right_hits = asked.right_hits;
  if (!enough) {
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
    const HitRegression hit = fit(asked.examples, -1);
    cross_validate(asked.examples, hit, model);
    model.tells = model.gain > 2 * model.gain_error;
    if (!model.tells) model.reason = "the encoder's scores do not tell right hits from wrong ones here";
    if (model.tells) {
      model.hit = hit;
      model.there = fit(asked.first, -1);
    }
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
      // Takes the count of the nearest score at or below this one, so it is never too low. Above the highest
      // score, the count of the highest is used.
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
