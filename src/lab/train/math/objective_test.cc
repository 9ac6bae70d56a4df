// Tests of the retrieval loss against a plain double loop and finite differences, in double. info_nce and
// TIP-CLIP's objective have theirs in train_test.cc and recipes/train_visualness_test.cc.
#include "lab/train/math/objective.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "lab/train/math/variable.h"

namespace saccade::lab {
namespace {

using torch::Tensor;

// Five queries over seven candidates. A row has one to seven positives.
struct RetrievalInput {
  Tensor queries, candidates, scale, positives;

  RetrievalInput() {
    torch::manual_seed(17);
    queries = normalize_rows(torch::randn({5, 4}, at::kDouble));
    candidates = normalize_rows(torch::randn({7, 4}, at::kDouble));
    scale = torch::full({}, 0.8, at::kDouble);
    positives = torch::zeros({5, 7}, at::kBool);
    for (int64_t i = 0; i < 5; ++i) positives[i][i] = true;
    positives[1][6] = positives[2][0] = positives[2][5] = true;  // and one that is another query's
    positives[3].fill_(true);
  }
};

// Computes the definition, one sum at a time: the mean over queries of the mean over their positives of
// -log(exp(logit) / sum of exp(logit) over all candidates).
double slow_retrieval_loss(const RetrievalInput& input) {
  const auto at = [](const Tensor& x, int64_t row, int64_t column) { return x[row][column].item<double>(); };
  const double inverse_temperature = std::exp(input.scale.item<double>());
  const int64_t n = input.queries.size(0);
  const int64_t m = input.candidates.size(0);
  double total = 0;
  for (int64_t i = 0; i < n; ++i) {
    std::vector<double> logits;
    double sum = 0;
    for (int64_t j = 0; j < m; ++j) {
      double dot = 0;
      for (int64_t d = 0; d < input.queries.size(1); ++d)
        dot += at(input.queries, i, d) * at(input.candidates, j, d);
      logits.push_back(inverse_temperature * dot);
      sum += std::exp(logits.back());
    }
    double row = 0;
    int64_t count = 0;
    for (int64_t j = 0; j < m; ++j) {
      if (!input.positives[i][j].item<bool>()) continue;
      row -= std::log(std::exp(logits[static_cast<size_t>(j)]) / sum);
      ++count;
    }
    total += row / static_cast<double>(count);
  }
  return total / static_cast<double>(n);
}

double retrieval_loss_of(const RetrievalInput& input) {
  return retrieval_loss(input.queries, input.candidates, input.scale, input.positives).item<double>();
}

TEST(RetrievalLoss, IsThePlainDoubleLoop) {
  RetrievalInput input;
  EXPECT_NEAR(retrieval_loss_of(input), slow_retrieval_loss(input), 1e-12);
  // With one positive a query.
  input.positives = torch::eye(7, at::kLong).slice(0, 0, 5).to(at::kBool);
  EXPECT_NEAR(retrieval_loss_of(input), slow_retrieval_loss(input), 1e-12);
  // From queries to candidates alone: the reverse direction has no part in it. As many candidates as queries
  // make it half of info_nce's sum.
  input.candidates = input.candidates.slice(0, 0, 5);
  input.positives = torch::eye(5, at::kLong).to(at::kBool);
  EXPECT_NEAR(retrieval_loss_of(input), slow_retrieval_loss(input), 1e-12);
  const double one_way = retrieval_loss_of(input);
  std::swap(input.queries, input.candidates);
  const double other_way = retrieval_loss_of(input);
  EXPECT_GT(std::abs(one_way - other_way), 1e-6);
  EXPECT_NEAR((one_way + other_way) / 2,
              info_nce(input.queries, input.candidates, input.scale).item<double>(), 1e-12);
}

TEST(RetrievalLoss, GradientsAreFiniteDifferences) {
  RetrievalInput input;
  const std::vector<std::pair<std::string, Tensor>> leaves = {
      {"queries", input.queries}, {"candidates", input.candidates}, {"scale", input.scale}};
  for (const auto& [name, leaf] : leaves) Tensor(leaf).requires_grad_(true);
  retrieval_loss(input.queries, input.candidates, input.scale, input.positives).backward();
  const torch::NoGradGuard no_grad;
  for (const auto& [name, leaf] : leaves) {
    const Tensor gradient = leaf.grad().flatten();
    EXPECT_GT(gradient.abs().max().item<double>(), 1e-3) << name;
    auto* values = leaf.data_ptr<double>();
    for (int64_t i = 0; i < leaf.numel(); ++i) {
      constexpr double kStep = 1e-6;
      const double before = values[i];
      values[i] = before + kStep;
      const double above = retrieval_loss_of(input);
      values[i] = before - kStep;
      const double below = retrieval_loss_of(input);
      values[i] = before;
      ASSERT_NEAR(gradient[i].item<double>(), (above - below) / (2 * kStep), 1e-8) << name << " " << i;
    }
  }
}

}  // namespace
}  // namespace saccade::lab
