#include "lab/eval/head_figures.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace saccade::lab {
namespace {

constexpr std::array<std::string_view, 3> kRecalls = {"r1", "r5", "r10"};

// Converts {"t2i_r1", "t2i_r5", ..., "i2t_r10", "mean_recall"}, the order of recall_estimates.
template <typename T>
RecallOf<T> by_direction(const std::vector<T>& flat) {
  RecallOf<T> recall;
  auto next = flat.begin();
  for (const Direction direction : kBothDirections) {
    for (const std::string_view name : kRecalls) {
      T::record_name(recall.directions.of(direction).emplace_back(*next++)) = name;
    }
  }
  recall.mean_recall = *next;
  return recall;
}

}  // namespace

Estimates recall_estimates(const RetrievalOutcome& outcome) {
  Estimates result;
  const auto count = static_cast<int64_t>(kBothDirections.size() * kRecalls.size());
  const Estimates& first = outcome.text_to_image.estimates;
  result.trials = first.trials;
  result.resampled = Matrix<double>(first.resampled.rows(), count + 1);
  result.left_out = Matrix<double>(first.left_out.rows(), count + 1);
  int64_t column = 0;
  double sum = 0;
  for (const Direction direction : kBothDirections) {
    const Estimates& from = outcome.of(direction).estimates;
    for (const std::string_view name : kRecalls) {
      const auto at = std::ranges::find(from.names, name) - from.names.begin();
      result.names.push_back(fmt::format("{}_{}", direction_name(direction), name));
      result.value.push_back(from.value[static_cast<size_t>(at)]);
      sum += result.value.back();
      for (const auto& [to, source] :
           {std::pair{&result.resampled, &from.resampled}, std::pair{&result.left_out, &from.left_out}}) {
        for (int64_t r = 0; r < to->rows(); ++r) {
          (*to)(r, column) = (*source)(r, at);
          (*to)(r, count) += (*source)(r, at) / static_cast<double>(count);
        }
      }
      ++column;
    }
  }
  result.names.emplace_back(kMeanRecall);
  result.value.push_back(sum / static_cast<double>(count));
  return result;
}

RecallOf<Figure> recall_figures(const Estimates& estimates, double confidence) {
  return by_direction(figures_of(estimates, confidence));
}

Result<Verdict> compare_recall(const std::string& a_name, const Estimates& a, const std::string& b_name,
                               const Estimates& b, double confidence) {
  SACCADE_ASSIGN(const std::vector<Difference> differences, paired_differences(a, b, confidence));
  Verdict verdict;
  verdict.a = a_name;
  verdict.b = b_name;
  verdict.differences = by_direction(differences);
  const Difference& mean_recall = verdict.differences.mean_recall;
  const Figure& figure = mean_recall.figure;
  // Without an interval all comparisons are false, so no claim is made.
  verdict.better = mean_recall.significant && figure.low > 0;
  verdict.worse = mean_recall.significant && figure.high < 0;
  if (verdict.better || verdict.worse) {
    verdict.sentence =
        fmt::format("{} is {} than {}: mean recall {}", a_name, verdict.better ? "better" : "worse", b_name,
                    interval_text(figure, Sign::kBoth));
  } else if (!(figure.low <= figure.high)) {
    verdict.sentence =
        fmt::format("{} cannot be called better than {}: there is no interval", a_name, b_name);
  } else {
    const bool holds = figure.low <= 0 && figure.high >= 0;
    verdict.sentence = fmt::format(
        "{} cannot be called better than {}: the difference in mean recall is {}, {}", a_name, b_name,
        interval_text(figure, Sign::kBoth),
        holds ? std::string("an interval that holds 0") : "with p " + three_digits(mean_recall.p_value));
  }
  return verdict;
}

}  // namespace saccade::lab
