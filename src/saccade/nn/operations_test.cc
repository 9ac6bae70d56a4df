// Tests of operations and kernels against slow, simple loops in double, over random shapes, with and without
// threads.
#include "saccade/nn/operations.h"

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "saccade/nn/kernels/kernels.h"
#include "saccade/nn/kernels/rotary.h"
#include "saccade/nn/test_tensors.h"

namespace saccade::nn {
namespace {

using test::max_difference;
using test::random_tensor;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Computes softmax(scale q k^T + mask) v one value at a time. query: [b, q, h, d]; key, value: [b or 1, k, g,
// d]; mask: undefined or broadcast to [b, h, q, k].
Tensor slow_attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask,
                      double scale) {
  const int64_t batch = query.size(0);
  const int64_t queries = query.size(1);
  const int64_t heads = query.size(2);
  const int64_t width = query.size(3);
  const int64_t keys = key.size(1);
  const Tensor added = mask.defined() ? mask.expand({batch, heads, queries, keys}) : mask;
  const Tensor out = Tensor::empty({batch, queries, heads * width}, DType::kF64);
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t kb = key.size(0) == 1 ? 0 : b;
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t kh = h / (heads / key.size(2));
      for (int64_t i = 0; i < queries; ++i) {
        std::vector<double> weights;
        double most = -kInfinity;
        for (int64_t j = 0; j < keys; ++j) {
          double score = 0;
          for (int64_t c = 0; c < width; ++c) score += query.at({b, i, h, c}) * key.at({kb, j, kh, c});
          weights.push_back(scale * score + (added.defined() ? added.at({b, h, i, j}) : 0));
          most = std::max(most, weights.back());
        }
        double total = 0;
        for (double& weight : weights) total += weight = std::exp(weight - most);
        for (int64_t c = 0; c < width; ++c) {
          double sum = 0;
          for (int64_t j = 0; j < keys; ++j) {
            sum += weights[static_cast<size_t>(j)] / total * value.at({kb, j, kh, c});
          }
          out.data<double>()[(b * queries + i) * heads * width + h * width + c] = sum;
        }
      }
    }
  }
  return out;
}

TEST(Attention, MatchesTheSlowSum) {
  Workspace workspace(3);
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    const auto upto = [&](int64_t most) {
      return 1 + static_cast<int64_t>(random() % static_cast<uint32_t>(most));
    };
    const int64_t batch = upto(3);
    const int64_t queries = upto(19);
    const int64_t keys = upto(23);
    const int64_t key_heads = upto(3);
    const int64_t heads = key_heads * upto(3);
    const int64_t width = upto(20);
    const auto seed = static_cast<uint32_t>(100 * round);
    Workspace* where = round % 2 == 0 ? &workspace : nullptr;
    const Tensor query = random_tensor({batch, queries, heads, width}, seed).in(where);
    const int64_t memories = round % 5 == 0 ? 1 : batch;
    // Keys and values interleaved, as projections produce them.
    const Tensor both = random_tensor({memories, keys, 2, key_heads, width}, seed + 1);
    Tensor mask;
    if (round % 3 == 1) mask = random_tensor({keys}, seed + 2);
    if (round % 3 == 2) mask = random_tensor({batch, 1, queries, keys}, seed + 2);
    const double scale = round % 4 == 0 ? 0.3 : 1 / std::sqrt(static_cast<double>(width));
    const Tensor ours = attention(query, both.select(2, 0), both.select(2, 1), mask, scale);
    const Tensor expected = slow_attention(query, both.select(2, 0), both.select(2, 1), mask, scale);
    ASSERT_LT(max_difference(ours, expected), 1e-5) << round;
    const Tensor rough = attention(query.to(DType::kBF16), both.to(DType::kBF16).select(2, 0),
                                   both.to(DType::kBF16).select(2, 1), mask, scale);
    ASSERT_LT(max_difference(rough, expected), 0.1) << round;
  }
}

Tensor run_attention(const Kernels& kernel, const Tensor& qkv, int64_t heads, const Tensor& mask) {
  AttentionTask task;
  const int64_t width = qkv.size(2) / 3 / heads;
  task.set_joint(qkv.raw(), qkv.size(0), qkv.size(1), heads, width, qkv.dtype());
  task.scale = 1 / std::sqrt(static_cast<float>(width));
  Tensor added;
  if (mask.defined()) {
    added = mask.expand({task.batch, heads, task.queries, task.keys}).clone();
    task.mask = added.data<float>();
    for (int64_t i = 0; i < 3; ++i) task.mask_strides[i] = added.stride(i);
  }
  const Tensor out = Tensor::empty({task.batch, task.queries, heads * width}, qkv.dtype());
  task.out = out.raw();
  // Leftover values of earlier heads in the scratch memory must not matter, not even NaN.
  std::vector<float> scratch(static_cast<size_t>(attention_scratch(task)), std::nanf(""));
  const int64_t pairs = task.batch * heads;
  kernel.attend(task, 0, pairs / 2, scratch.data());
  kernel.attend(task, pairs / 2, pairs, scratch.data());
  return out;
}

TEST(Kernels, AttendAsTheDefinition) {
  constexpr int64_t kBatch = 2, kHeads = 3;
  for (const int64_t tokens : {1, 5, 6, 7, 16, 17, 50}) {
    for (const int64_t width : {4, 20, 64}) {
      const Tensor qkv = random_tensor({kBatch, tokens, 3 * kHeads * width}, 12, 2);
      const Tensor left_out = Tensor::zeros({kBatch, 1, 1, tokens});  // the second without its last third
      left_out[1].slice(2, tokens - tokens / 3).fill(-kInfinity);
      const Tensor parts = qkv.view({kBatch, tokens, 3, kHeads, width});
      for (const Tensor& mask : {Tensor(), causal_mask(tokens), left_out + causal_mask(tokens)}) {
        const Tensor expected = slow_attention(parts.select(2, 0), parts.select(2, 1), parts.select(2, 2),
                                               mask, 1 / std::sqrt(static_cast<double>(width)));
        for (const Kernels& kernel : kernels()) {
          SCOPED_TRACE(std::string(kernel.name) + ", " + std::to_string(tokens) + " tokens of " +
                       std::to_string(width));
          // Scores of some 30 are 2e-6 apart in float, and so are the weights' logarithms.
          EXPECT_LT(max_difference(run_attention(kernel, qkv, kHeads, mask), expected), 3e-5);
          const Tensor rough = run_attention(kernel, qkv.to(DType::kBF16), kHeads, mask);
          EXPECT_LT(max_difference(rough, expected), 0.15);  // scores of some 30, of 8-bit mantissas
        }
      }
    }
  }
}

TEST(Kernels, ExtremeScoresStayFinite) {
  // One key far ahead of the others: weights of 1 and 0, though e^score would overflow.
  const Tensor qkv = Tensor::zeros({1, 20, 3 * 4});
  qkv.slice(2, 0, 4).fill(100);
  qkv[0][13].slice(0, 4, 8).fill(100);
  for (int64_t t = 0; t < 20; ++t) qkv[0][t].slice(0, 8, 12).fill(static_cast<float>(t));
  for (const Kernels& kernel : kernels()) {
    EXPECT_EQ(max_difference(run_attention(kernel, qkv, 1, {}), Tensor::full({1, 20, 4}, 13)), 0)
        << kernel.name;
  }
}

TEST(Kernels, NaNIsNotHidden) {
  const Tensor qkv = random_tensor({1, 9, 3 * 4}, 13);
  qkv[0][5].slice(0, 0, 1).fill(std::nanf(""));  // in one query
  const Tensor nothing_allowed = Tensor::full({9, 9}, -kInfinity);
  const auto nans = [](const Tensor& row) {
    return std::ranges::count_if(row.floats(), [](float value) { return std::isnan(value); });
  };
  for (const Kernels& kernel : kernels()) {
    const Tensor out = run_attention(kernel, qkv, 1, {});
    EXPECT_EQ(nans(out[0][5]), 4) << kernel.name;
    EXPECT_EQ(nans(out[0][4]), 0) << kernel.name;
    EXPECT_EQ(nans(run_attention(kernel, qkv, 1, nothing_allowed)), 36) << kernel.name;
  }
}

TEST(Kernels, NormalizeAsTheDefinition) {
  for (const int64_t width : {1, 3, 16, 24, 100, 768}) {
    // A mean a thousand times the spread: sums of squares in float would lose it.
    const Tensor x = random_tensor({5, width}, 11);
    for (int64_t row = 0; row < 5; ++row) {
      const std::span<float> values = x[row].floats();
      for (float& value : values) value += 1000.F * static_cast<float>(row);
    }
    const Tensor gain = random_tensor({width}, 12);
    const Tensor bias = random_tensor({width}, 13);
    for (const bool centered : {true, false}) {
      const Tensor expected = Tensor::empty({5, width}, DType::kF64);
      for (int64_t row = 0; row < 5; ++row) {
        double mean = 0;
        double square = 0;
        for (int64_t c = 0; c < width; ++c)
          mean += centered ? x.at({row, c}) / static_cast<double>(width) : 0;
        for (int64_t c = 0; c < width; ++c) square += std::pow(x.at({row, c}) - mean, 2);
        const double scale = 1 / std::sqrt(square / static_cast<double>(width) + 1e-5);
        for (int64_t c = 0; c < width; ++c) {
          expected.data<double>()[row * width + c] =
              (x.at({row, c}) - mean) * scale * gain.at({c}) + (centered ? bias.at({c}) : 0);
        }
      }
      for (const Kernels& kernel : kernels()) {
        SCOPED_TRACE(std::string(kernel.name) + ", width " + std::to_string(width));
        const auto run = [&](const Tensor& out) {
          NormTask task;
          task.rows = 5;
          task.width = width;
          task.x = x.data<float>();
          task.gain = gain.data<float>();
          task.bias = centered ? bias.data<float>() : nullptr;
          task.eps = 1e-5F;
          task.centered = centered;
          task.out_type = out.dtype();
          task.out = out.raw();
          kernel.normalize(task, 0, 4);
        };
        const Tensor out = Tensor::full({5, width}, 1e9);
        run(out);
        EXPECT_LT(max_difference(out[0], expected[0]), 1e-5);
        // Values near 4000 are 2.4e-4 apart, which limits the precision of the mean and so of any result.
        EXPECT_LT(max_difference(out.slice(0, 0, 4), expected.slice(0, 0, 4)), 2e-3);
        EXPECT_EQ(max_difference(out[4], Tensor::full({width}, 1e9)), 0);  // a row that was not asked for
        const Tensor rough = Tensor::zeros({5, width}).to(DType::kBF16);
        run(rough);
        EXPECT_EQ(max_difference(rough.slice(0, 0, 4), out.slice(0, 0, 4).to(DType::kBF16)), 0);
      }
    }
  }
}

// Every operation gives the same bits with threads.
TEST(Operations, MatchTheSlowLoops) {
  Workspace workspace(3);
  std::mt19937 random(5);
  for (int round = 0; round < 40; ++round) {
    const auto upto = [&](int64_t most) {
      return 1 + static_cast<int64_t>(random() % static_cast<uint32_t>(most));
    };
    const int64_t n = upto(3);
    const int64_t tokens = upto(9);
    const int64_t width = upto(70);
    const auto seed = static_cast<uint32_t>(10 * round);
    const Tensor x = random_tensor({n, tokens, width}, seed);
    const Tensor y = random_tensor({n, tokens, width}, seed + 1);
    const Tensor table = random_tensor({11, width}, seed + 2);
    const Tensor row = random_tensor({width}, seed + 3);
    Tensor ids = Tensor::full_integers({n, tokens}, 0);
    Tensor mask = Tensor::full_integers({n, tokens}, 1);
    for (int64_t& id : ids.integers()) id = static_cast<int64_t>(random() % 11);
    for (int64_t& kept : mask.integers()) kept = static_cast<int64_t>(random() % 2);
    Tensor places = Tensor::full_integers({n}, 0);
    for (int64_t& place : places.integers()) place = static_cast<int64_t>(random()) % tokens;

    const auto expect = [&](const Tensor& ours,
                            const std::function<double(int64_t, int64_t, int64_t)>& value) {
      ASSERT_EQ(ours.sizes(), (Shape{n, tokens, width}));
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t t = 0; t < tokens; ++t) {
          for (int64_t c = 0; c < width; ++c) ASSERT_NEAR(ours.at({i, t, c}), value(i, t, c), 1e-5);
        }
      }
    };
    for (Workspace* where : {static_cast<Workspace*>(nullptr), &workspace}) {
      const Tensor in = x.in(where);
      expect(in + y, [&](auto i, auto t, auto c) { return x.at({i, t, c}) + y.at({i, t, c}); });
      expect(in + table.slice(0, 0, 1), [&](auto i, auto t, auto c) {
        return x.at({i, t, c}) + table.at({0, c});
      });
      expect(in + y[0].slice(0, 0, 1).t().t(), [&](auto i, auto t, auto c) {
        return x.at({i, t, c}) + y.at({0, 0, c});
      });
      expect(in * y, [&](auto i, auto t, auto c) { return x.at({i, t, c}) * y.at({i, t, c}); });
      expect(in * 0.5, [&](auto i, auto t, auto c) { return x.at({i, t, c}) * 0.5; });
      expect(relu(in), [&](auto i, auto t, auto c) { return std::max(x.at({i, t, c}), 0.0); });
      expect(tanh(in), [&](auto i, auto t, auto c) { return std::tanh(x.at({i, t, c})); });
      expect(sigmoid(in), [&](auto i, auto t, auto c) { return 1 / (1 + std::exp(-x.at({i, t, c}))); });
      expect(embedding(table, ids.in(where)), [&](auto i, auto t, auto c) {
        return table.at({static_cast<int64_t>(ids.at({i, t})), c});
      });
      expect(pick_rows(table.in(where), ids), [&](auto i, auto t, auto c) {
        return table.at({static_cast<int64_t>(ids.at({i, t})), c});
      });
      const Tensor halves = table.to(DType::kBF16).in(where);
      expect(pick_rows(halves, ids), [&](auto i, auto t, auto c) {
        return halves.at({static_cast<int64_t>(ids.at({i, t})), c});
      });
      const Tensor taken = take_rows(in, places);
      const Tensor kept = gather_rows(in, places.view({n, 1}));
      const Tensor averaged = mean(in, 1);
      const Tensor most = largest(in, 1);
      const Tensor own = mean_of_kept(in, mask);
      const Tensor unit = normalize_rows(in);
      const Tensor products = row_products(in, table);
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t c = 0; c < width; ++c) {
          const auto place = static_cast<int64_t>(places.at({i}));
          ASSERT_EQ(taken.at({i, c}), x.at({i, place, c}));
          ASSERT_EQ(kept.at({i, 0, c}), x.at({i, place, c}));
          double sum = 0, top = -1e9, own_sum = 0, own_count = 0;
          for (int64_t t = 0; t < tokens; ++t) {
            sum += x.at({i, t, c});
            top = std::max(top, x.at({i, t, c}));
            own_sum += mask.at({i, t}) * x.at({i, t, c});
            own_count += mask.at({i, t});
          }
          ASSERT_NEAR(averaged.at({i, c}), sum / static_cast<double>(tokens), 1e-5);
          ASSERT_EQ(most.at({i, c}), top);
          ASSERT_NEAR(own.at({i, c}), own_sum / std::max(own_count, 1.0), 1e-5);
        }
        for (int64_t t = 0; t < tokens; ++t) {
          double square = 0, dot = 0;
          for (int64_t c = 0; c < width; ++c) {
            square += std::pow(x.at({i, t, c}), 2);
            dot += x.at({i, t, c}) * table.at({3, c});
          }
          ASSERT_NEAR(unit.at({i, t, 0}), x.at({i, t, 0}) / std::sqrt(square), 1e-5);
          ASSERT_NEAR(products.at({i, t, 3}), dot, 1e-5 * (1 + std::abs(dot)));
        }
      }
    }
  }
  EXPECT_EQ(max_difference(normalize_rows(Tensor::zeros({1, 3})), Tensor::zeros({1, 3})), 0);
}

TEST(Operations, ANaNStaysTheLargest) {
  for (const int64_t place : {0, 1, 2}) {
    const Tensor x = Tensor::full({3, 1}, 1);
    x[place].fill(std::nanf(""));
    EXPECT_TRUE(std::isnan(largest(x, 0).item())) << place;
  }
}

TEST(Patches, AreAConvolutionsWindows) {
  Workspace workspace(2);
  const Tensor pixels =
      random_tensor({2, 3, 11, 14}, 7).in(&workspace);  // 11 = 2 * 4 + 3: the rest is left out
  const Tensor ours = patches(pixels, 4);
  ASSERT_EQ(ours.sizes(), (Shape{2, 6, 48}));
  for (int64_t n = 0; n < 2; ++n) {
    for (int64_t p = 0; p < 6; ++p) {
      for (int64_t v = 0; v < 48; ++v) {
        EXPECT_EQ(ours.at({n, p, v}), pixels.at({n, v / 16, p / 3 * 4 + v % 16 / 4, p % 3 * 4 + v % 4}));
      }
    }
  }
}

TEST(Masks, AreZeroOrMinusInfinity) {
  const Tensor mask = padding_mask(Tensor::of(std::vector<int64_t>{1, 1, 0, 1, 0, 0}, {2, 3}));
  EXPECT_EQ(mask.sizes(), (Shape{2, 1, 1, 3}));
  const float expected[] = {0, 0, -kInfinity, 0, -kInfinity, -kInfinity};
  EXPECT_TRUE(std::ranges::equal(mask.floats(), expected));
  EXPECT_EQ(causal_mask(3).at({1, 1}), 0);
  EXPECT_EQ(causal_mask(3).at({1, 2}), -kInfinity);
}

TEST(Attention, WeightsAreTheSoftmax) {
  const Tensor qkv = random_tensor({2, 5, 3 * 8}, 8);
  const Tensor weights = attention_weights(qkv, 2, causal_mask(5));
  ASSERT_EQ(weights.sizes(), (Shape{2, 2, 5, 5}));
  const Tensor out = attention(qkv, 2, causal_mask(5));
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t h = 0; h < 2; ++h) {
      for (int64_t i = 0; i < 5; ++i) {
        double total = 0, mixed = 0;
        for (int64_t j = 0; j < 5; ++j) {
          total += weights.at({b, h, i, j});
          mixed += weights.at({b, h, i, j}) * qkv.at({b, j, 16 + h * 4});
        }
        EXPECT_NEAR(total, 1, 1e-6);
        EXPECT_NEAR(out.at({b, i, h * 4}), mixed, 1e-5);
      }
    }
  }
}

TEST(Rotary, TurnsPairsByTheirAngles) {
  Workspace workspace(2);
  const Tensor x = random_tensor({2, 3, 2, 8}, 9);
  const Rotary rotary(8, 100);
  const Tensor turned = x.clone().in(&workspace);
  Rotary::turn(turned, rotary.angles(5, 3));
  for (int64_t t = 0; t < 3; ++t) {
    for (int64_t i = 0; i < 4; ++i) {
      const double angle = static_cast<double>(5 + t) * std::pow(100.0, -2.0 * static_cast<double>(i) / 8);
      const double a = x.at({1, t, 1, i});
      const double b = x.at({1, t, 1, i + 4});
      EXPECT_NEAR(turned.at({1, t, 1, i}), a * std::cos(angle) - b * std::sin(angle), 1e-5);
      EXPECT_NEAR(turned.at({1, t, 1, i + 4}), b * std::cos(angle) + a * std::sin(angle), 1e-5);
    }
  }
  // Pairs of neighbours, by angles of their own.
  const Tensor cos = random_tensor({3, 8}, 10);
  const Tensor sin = random_tensor({3, 8}, 11);
  const Tensor beside = x.clone();
  turn_neighbours(beside, cos, sin);
  EXPECT_NEAR(beside.at({1, 2, 0, 6}),
              x.at({1, 2, 0, 6}) * cos.at({2, 6}) - x.at({1, 2, 0, 7}) * sin.at({2, 6}), 1e-5);
  EXPECT_NEAR(beside.at({1, 2, 0, 7}),
              x.at({1, 2, 0, 7}) * cos.at({2, 7}) + x.at({1, 2, 0, 6}) * sin.at({2, 7}), 1e-5);
}

}  // namespace
}  // namespace saccade::nn
