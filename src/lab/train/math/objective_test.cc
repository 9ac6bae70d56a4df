// Tests of the retrieval losses against plain loops and finite differences, in double. info_nce and
// TIP-CLIP's objective have theirs in train_test.cc and recipes/train_visualness_test.cc.
#include "lab/train/math/objective.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "lab/train/math/test_gradients.h"
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
    for (int64_t i = 0; i < leaf.numel(); ++i) {
      const double expected =
          test::derivative(leaf.data_ptr<double>()[i], 1e-6, [&] { return retrieval_loss_of(input); });
      ASSERT_NEAR(gradient[i].item<double>(), expected, 1e-8) << name << " " << i;
    }
  }
}

// Four queries of SPRC over six candidates with three rows each; prompts of five vectors of width 7.
struct SprcInput {
  SprcTerms terms;
  SprcWeights weights{.prompt = 0.3, .alignment = 0.7};
  Tensor candidates, scale, positives;

  SprcInput() {
    torch::manual_seed(19);
    terms.queries = normalize_rows(torch::randn({4, 6}, at::kDouble));
    terms.alone = normalize_rows(torch::randn({4, 6}, at::kDouble));
    terms.prompts = torch::randn({4, 5, 7}, at::kDouble);
    terms.auxiliary = torch::randn({1, 5, 7}, at::kDouble);
    candidates = normalize_rows(torch::randn({6, 3, 6}, at::kDouble));
    scale = torch::full({}, 0.8, at::kDouble);
    positives = torch::zeros({4, 6}, at::kBool);
    for (int64_t i = 0; i < 4; ++i) positives[i][i] = true;
    positives[2][5] = true;
  }
  [[nodiscard]] double loss() const {
    return sprc_loss(terms, weights, candidates, scale, positives).item<double>();
  }
};

// Computes the retrieval loss over the nearest rows, one product at a time.
double slow_nearest_row_loss(const Tensor& queries, const SprcInput& input) {
  double total = 0;
  for (int64_t i = 0; i < queries.size(0); ++i) {
    std::vector<double> logits;
    double sum = 0;
    for (int64_t j = 0; j < input.candidates.size(0); ++j) {
      double nearest = -2;
      for (int64_t r = 0; r < input.candidates.size(1); ++r) {
        double dot = 0;
        for (int64_t d = 0; d < queries.size(1); ++d) {
          dot += queries[i][d].item<double>() * input.candidates[j][r][d].item<double>();
        }
        nearest = std::max(nearest, dot);
      }
      logits.push_back(std::exp(input.scale.item<double>()) * nearest);
      sum += std::exp(logits.back());
    }
    double row = 0;
    double count = 0;
    for (int64_t j = 0; j < input.candidates.size(0); ++j) {
      if (!input.positives[i][j].item<bool>()) continue;
      row -= std::log(std::exp(logits[static_cast<size_t>(j)]) / sum);
      count += 1;
    }
    total += row / count;
  }
  return total / static_cast<double>(queries.size(0));
}

TEST(SprcLoss, IsThePlainLoops) {
  const SprcInput input;
  double distance = 0;
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t c = 0; c < 7; ++c) {
      double difference = 0;
      for (int64_t v = 0; v < 5; ++v) {
        difference +=
            (input.terms.prompts[i][v][c].item<double>() - input.terms.auxiliary[0][v][c].item<double>()) / 5;
      }
      distance += difference * difference / (4 * 7);
    }
  }
  EXPECT_GT(distance, 1e-2);
  const double queries = slow_nearest_row_loss(input.terms.queries, input);
  const double alone = slow_nearest_row_loss(input.terms.alone, input);
  EXPECT_GT(std::abs(queries - alone), 1e-3);
  EXPECT_NEAR(input.loss(), queries + 0.3 * alone + 0.7 * distance, 1e-12);
  EXPECT_NEAR(
      retrieval_loss(input.terms.queries, input.candidates, input.scale, input.positives).item<double>(),
      queries, 1e-12);
  // Candidates of one row each are the usual ones.
  const Tensor single = input.candidates.slice(1, 0, 1);
  EXPECT_NEAR(
      retrieval_loss(input.terms.queries, single, input.scale, input.positives).item<double>(),
      retrieval_loss(input.terms.queries, single.squeeze(1), input.scale, input.positives).item<double>(),
      1e-12);
}

TEST(SprcLoss, GradientsAreFiniteDifferences) {
  const SprcInput input;
  const std::vector<std::pair<std::string, Tensor>> leaves = {{"queries", input.terms.queries},
                                                              {"alone", input.terms.alone},
                                                              {"prompts", input.terms.prompts},
                                                              {"candidates", input.candidates},
                                                              {"scale", input.scale}};
  for (const auto& [name, leaf] : leaves) Tensor(leaf).requires_grad_(true);
  const Tensor auxiliary = input.terms.auxiliary;
  Tensor(auxiliary).requires_grad_(true);
  sprc_loss(input.terms, input.weights, input.candidates, input.scale, input.positives).backward();
  // The distance draws the prompts alone.
  EXPECT_FALSE(auxiliary.grad().defined());
  const torch::NoGradGuard no_grad;
  for (const auto& [name, leaf] : leaves) {
    const Tensor gradient = leaf.grad().flatten();
    EXPECT_GT(gradient.abs().max().item<double>(), 1e-3) << name;
    for (int64_t i = 0; i < leaf.numel(); ++i) {
      const double expected =
          test::derivative(leaf.data_ptr<double>()[i], 1e-6, [&] { return input.loss(); });
      ASSERT_NEAR(gradient[i].item<double>(), expected, 1e-8) << name << " " << i;
    }
  }
}

}  // namespace
}  // namespace saccade::lab
