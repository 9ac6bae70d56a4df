// Grouped attention, rotary positions and attention pooling against plain sums, one at a time in double.
#include "saccade/nn/grouped_attention.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "saccade/nn/attention_pool.h"
#include "saccade/nn/test_tensors.h"
#include "saccade/nn/torch.h"

namespace saccade::nn {
namespace {

using test::max_difference;
using torch::Tensor;

Tensor slow_attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask) {
  const int64_t heads = query.size(2);
  const int64_t group = heads / key.size(2);
  Tensor out = torch::zeros({query.size(0), query.size(1), heads, query.size(3)}, at::kDouble);
  for (int64_t b = 0; b < query.size(0); ++b) {
    for (int64_t q = 0; q < query.size(1); ++q) {
      for (int64_t h = 0; h < heads; ++h) {
        const Tensor row = query[b][q][h].to(at::kDouble);
        std::vector<double> weights;
        double sum = 0;
        for (int64_t k = 0; k < key.size(1); ++k) {
          double score = at::dot(row, key[b][k][h / group].to(at::kDouble)).item<double>() /
                         std::sqrt(static_cast<double>(query.size(3)));
          if (mask.defined()) score += mask[q][k].item<double>();
          weights.push_back(std::exp(score));
          sum += weights.back();
        }
        for (int64_t k = 0; k < key.size(1); ++k) {
          out[b][q][h] += weights[static_cast<size_t>(k)] / sum * value[b][k][h / group].to(at::kDouble);
        }
      }
    }
  }
  return out.flatten(2);
}

TEST(GroupedAttention, MatchesTheSlowSum) {
  torch::manual_seed(11);
  for (const int64_t key_heads : {1, 2, 4}) {
    for (const int64_t queries : {7, 3, 1}) {
      const Tensor query = torch::randn({2, queries, 4, 6});
      const Tensor key = torch::randn({2, 7, key_heads, 6});
      const Tensor value = torch::randn({2, 7, key_heads, 6});
      Tensor mask = torch::zeros({queries, 7});
      mask[0][5] = -std::numeric_limits<float>::infinity();
      for (const Tensor& added : {Tensor(), mask}) {
        const Tensor expected = slow_attention(query, key, value, added);
        EXPECT_LT(max_difference(grouped_attention(query, key, value, added), expected), 1e-5);
        const torch::NoGradGuard no_gradients;
        EXPECT_LT(max_difference(grouped_attention(query, key, value, added), expected), 1e-5);
      }
    }
  }
}

TEST(Rotary, TurnsPairsByTheirAngles) {
  torch::manual_seed(12);
  const int64_t width = 10;
  const Rotary rotary(width, 10000);
  const Tensor x = torch::randn({2, 5, 3, width});
  const Tensor turned = Rotary::turn(x, rotary.angles(4, 5));
  for (int64_t t = 0; t < 5; ++t) {
    for (int64_t i = 0; i < width / 2; ++i) {
      const double angle =
          static_cast<double>(4 + t) * std::pow(10000.0, -2.0 * static_cast<double>(i) / width);
      const double a = x[1][t][2][i].item<double>();
      const double b = x[1][t][2][i + width / 2].item<double>();
      EXPECT_NEAR(turned[1][t][2][i].item<double>(), a * std::cos(angle) - b * std::sin(angle), 1e-5);
      EXPECT_NEAR(turned[1][t][2][i + width / 2].item<double>(), b * std::cos(angle) + a * std::sin(angle),
                  1e-5);
    }
  }
  // Products depend on distances alone.
  const Tensor early = Rotary::turn(x, rotary.angles(0, 5));
  const auto product = [](const Tensor& rows) {
    return at::dot(rows[0][1][0], rows[0][3][0]).item<double>();
  };
  EXPECT_NEAR(product(turned), product(early), 1e-4);
}

TEST(AttentionPool, GivesTheSamePackedAndLearns) {
  torch::manual_seed(13);
  const TransformerShape shape{.width = 24,
                               .layers = 1,
                               .heads = 4,
                               .mlp_width = 40,
                               .activation = Activation::kGeluTanh,
                               .eps = 1e-6};
  InitializedParameters source(13);
  AttentionPool pool = AttentionPool::make(source, "head", shape).value();
  const Tensor x = torch::randn({3, 9, 24});
  const Tensor plain = pool.forward(x, at::kFloat);
  // Every parameter has a say.
  plain.square().sum().backward();
  for (const auto& [name, tensor] : source.parameters()) {
    ASSERT_TRUE(tensor.grad().defined()) << name;
    EXPECT_GT(tensor.grad().abs().sum().item<double>(), 0) << name;
  }
  const torch::NoGradGuard no_gradients;
  // The order of the tokens has none.
  EXPECT_LT(max_difference(pool.forward(x.flip(1), at::kFloat), plain), 1e-5);
  pool.pack(at::kFloat);
  EXPECT_LT(max_difference(pool.forward(x, at::kFloat), plain), 1e-5);
}

}  // namespace
}  // namespace saccade::nn
