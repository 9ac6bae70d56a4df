#include "lab/eval/visualness/binary.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lab/eval/figures/resampling.h"

namespace saccade::lab {
namespace {

constexpr double kNone = Figure::kNone;

double share(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

std::array<double, 4> in_order(const BinaryFigures& figures) {
  return {figures.f1, figures.precision, figures.recall, figures.accuracy};
}

Confusion& operator+=(Confusion& sum, const Confusion& part) {
  for (size_t truth = 0; truth < 2; ++truth) {
    for (size_t answer = 0; answer < 2; ++answer) sum[truth][answer] += part[truth][answer];
  }
  return sum;
}

}  // namespace

BinaryFigures binary_figures(const Confusion& confusion) {
  BinaryFigures figures;
  double all = 0;
  for (size_t c = 0; c < 2; ++c) {
    const double right = confusion[c][c];
    const double precision = share(right, confusion[0][c] + confusion[1][c]);
    const double recall = share(right, confusion[c][0] + confusion[c][1]);
    figures.precision += precision / 2;
    figures.recall += recall / 2;
    figures.f1 += share(2 * precision * recall, precision + recall) / 2;
    figures.accuracy += right;
    all += confusion[c][0] + confusion[c][1];
  }
  if (all == 0) return {kNone, kNone, kNone, kNone};
  figures.accuracy /= all;
  return figures;
}

Confusion count_confusion(const BinaryAnswers& answers) {
  Confusion confusion{};
  for (size_t i = 0; i < answers.truth.size(); ++i) ++confusion[answers.truth[i]][answers.answer[i]];
  return confusion;
}

Estimates estimate_binary(const BinaryAnswers& answers, const BootstrapOptions& options, ThreadPool& pool) {
  const auto clusters = static_cast<size_t>(answers.clusters);
  std::vector<Confusion> parts(clusters, Confusion{});
  for (size_t i = 0; i < answers.truth.size(); ++i) {
    ++parts[static_cast<size_t>(answers.cluster[i])][answers.truth[i]][answers.answer[i]];
  }
  Estimates estimates;
  estimates.trials = std::ranges::count_if(parts, [](const Confusion& part) { return part != Confusion{}; });
  estimates.names.assign(BinaryFigures::kNames.begin(), BinaryFigures::kNames.end());
  const auto columns = std::ssize(estimates.names);
  const Confusion all = count_confusion(answers);
  const auto value = in_order(binary_figures(all));
  estimates.value.assign(value.begin(), value.end());

  estimates.resampled = Matrix<double>(options.resamples, columns);
  pool.parallel_for(options.resamples, 16, [&](int64_t begin, int64_t end) {
    std::vector<int32_t> times(clusters);
    for (int64_t r = begin; r < end; ++r) {
      std::ranges::fill(estimates.resampled.row(r), kNone);
      if (clusters < 2) continue;
      draw_clusters(options.seed, r, times);
      Confusion drawn{};
      for (size_t c = 0; c < clusters; ++c) {
        if (times[c] == 0) continue;
        Confusion part = parts[c];
        for (auto& row : part) {
          for (double& count : row) count *= times[c];
        }
        drawn += part;
      }
      std::ranges::copy(in_order(binary_figures(drawn)), estimates.resampled.row(r).begin());
    }
  });
  estimates.left_out = Matrix<double>(answers.clusters, columns);
  for (size_t c = 0; c < clusters; ++c) {
    Confusion rest = all;
    for (size_t truth = 0; truth < 2; ++truth) {
      for (size_t answer = 0; answer < 2; ++answer) rest[truth][answer] -= parts[c][truth][answer];
    }
    std::ranges::copy(in_order(binary_figures(rest)),
                      estimates.left_out.row(static_cast<int64_t>(c)).begin());
  }
  return estimates;
}

Result<Threshold> choose_threshold(std::span<const double> scores, std::span<const uint8_t> truth) {
  const auto visual = std::ranges::count(truth, uint8_t{1});
  const auto other = std::ssize(truth) - visual;
  if (visual == 0 || other == 0) {
    return fail(ErrorCode::kUsage,
                "{} visual and {} non-visual texts to choose a threshold on: it takes both", visual, other);
  }
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  for (const double score : scores) {
    if (!std::isfinite(score)) return fail(ErrorCode::kBadData, "a score that is {}", score);
  }
  std::ranges::sort(order, {}, [&](size_t i) { return scores[i]; });
  // The threshold goes up from below all scores, where all are visual. Texts of equal scores change sides
  // together.
  Confusion confusion = {{{0, static_cast<double>(other)}, {0, static_cast<double>(visual)}}};
  std::vector<Threshold> best = {{scores[order.front()] - 1, binary_figures(confusion).f1}};
  for (size_t i = 0; i < order.size(); ++i) {
    const size_t text = order[i];
    --confusion[truth[text]][1];
    ++confusion[truth[text]][0];
    const bool last = i + 1 == order.size();
    if (!last && scores[order[i + 1]] == scores[text]) continue;
    const Threshold here = {last ? scores[text] + 1 : std::midpoint(scores[text], scores[order[i + 1]]),
                            binary_figures(confusion).f1};
    if (here.f1 > best.front().f1) best.clear();
    if (best.empty() || here.f1 == best.front().f1) best.push_back(here);
  }
  return best[(best.size() - 1) / 2];
}

}  // namespace saccade::lab
