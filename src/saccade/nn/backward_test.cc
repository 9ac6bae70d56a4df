// Tests of gradients without autograd against finite differences in double, and of kernels against slow sums.
#include "saccade/nn/backward.h"

#include <cmath>
#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include "saccade/nn/attention_gradient.h"
#include "saccade/nn/attention_pool.h"
#include "saccade/nn/kernels/kernels.h"
#include "saccade/nn/kernels/post_norm.h"
#include "saccade/nn/layers.h"
#include "saccade/nn/operations.h"
#include "saccade/nn/test_tensors.h"

namespace saccade::nn {
namespace {

using test::max_difference;
using test::random_tensor;
using test::RandomParameters;
using test::slow_activation;

using Doubles = std::vector<double>;

Doubles doubles(const Tensor& x) {
  const Tensor all = x.to(DType::kF64).contiguous();
  return {all.data<double>(), all.data<double>() + all.numel()};
}

// Computes central differences of a score in double, value by value.
Tensor slow_gradient(const Tensor& x, const std::function<double(const Doubles&)>& score) {
  constexpr double kStep = 1e-5;
  Doubles at = doubles(x);
  Tensor out = Tensor::empty(x.sizes());
  for (size_t i = 0; i < at.size(); ++i) {
    const double before = at[i];
    at[i] = before + kStep;
    const double up = score(at);
    at[i] = before - kStep;
    out.floats()[i] = static_cast<float>((up - score(at)) / (2 * kStep));
    at[i] = before;
  }
  return out;
}

double weighted(const Doubles& values, const Tensor& weights) {
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) sum += values[i] * weights.floats()[i];
  return sum;
}

TEST(Backward, LayerNormAsFiniteDifferences) {
  constexpr double kEps = 1e-5;
  Workspace workspace(2);
  const Tensor gain = random_tensor({7}, 1);
  const Tensor x = random_tensor({3, 5, 7}, 2);
  const Tensor change = random_tensor({3, 5, 7}, 3);
  const auto score = [&](const Doubles& at) {
    Doubles out(at.size());
    for (size_t row = 0; row < at.size(); row += 7) {
      double mean = 0;
      double square = 0;
      for (size_t i = 0; i < 7; ++i) mean += at[row + i] / 7;
      for (size_t i = 0; i < 7; ++i) square += (at[row + i] - mean) * (at[row + i] - mean) / 7;
      for (size_t i = 0; i < 7; ++i) {
        out[row + i] = (at[row + i] - mean) / std::sqrt(square + kEps) * gain.floats()[i];
      }
    }
    return weighted(out, change);
  };
  const Tensor expected = slow_gradient(x, score);
  for (Workspace* where : {static_cast<Workspace*>(nullptr), &workspace}) {
    EXPECT_LT(max_difference(layer_norm_backward(x.in(where), gain, kEps, change), expected), 1e-5);
  }
}

TEST(Backward, ActivationsAsFiniteDifferences) {
  const Tensor x = random_tensor({4, 9}, 5, 3);
  const Tensor change = random_tensor({4, 9}, 6);
  for (const Activation activation : {Activation::kNone, Activation::kGelu, Activation::kQuickGelu,
                                      Activation::kGeluTanh, Activation::kRelu, Activation::kSilu}) {
    const auto apply = [&](const Doubles& at) {
      Doubles out;
      for (const double value : at) out.push_back(slow_activation(value, activation));
      return out;
    };
    const Tensor expected = slow_gradient(x, [&](const Doubles& at) { return weighted(apply(at), change); });
    EXPECT_LT(max_difference(activation_backward(x, activation, change), expected), 1e-5)
        << activation_name(activation);
    const Doubles values = apply(doubles(x));
    const std::vector<float> floats(values.begin(), values.end());
    EXPECT_LT(max_difference(activate(x, activation), Tensor::of(floats, x.sizes())), 1e-5);
  }
}

// Attention weights of one head and their weighted sum of the values, for one query.
struct SlowRow {
  Doubles weights, changes;
};

SlowRow slow_row(const RelevanceInput& input, int64_t entry, int64_t query, int64_t head) {
  const int64_t depth = input.query.size(3);
  SlowRow row;
  double sum = 0;
  for (int64_t t = 0; t < input.key.size(1); ++t) {
    double score = 0;
    double change = 0;
    for (int64_t c = 0; c < depth; ++c) {
      score += input.query.at({entry, query, head, c}) * input.key.at({entry, t, head, c});
      change += input.gradient.at({entry, query, head * depth + c}) * input.value.at({entry, t, head, c});
    }
    row.weights.push_back(std::exp(score / std::sqrt(static_cast<double>(depth))));
    row.changes.push_back(change);
    sum += row.weights.back();
  }
  for (double& weight : row.weights) weight /= sum;
  return row;
}

TEST(Backward, RelevanceAsSlowSumsByEveryKernel) {
  Workspace workspace(3);
  for (const auto& [tokens, queries] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {5, 5}, {17, 1}, {40, 40}, {33, 8}}) {
    constexpr int64_t kHeads = 3;
    constexpr int64_t kDepth = 5;
    const Tensor qkv = random_tensor({2, tokens, 3 * kHeads * kDepth}, 8);
    for (const bool times_attention : {false, true}) {
      RelevanceInput input = relevance_input(qkv, kHeads);
      input.query = input.query.slice(1, 0, queries);
      input.gradient = random_tensor({2, queries, kHeads * kDepth}, 9);
      input.weights = activate(random_tensor({2, queries}, 10), Activation::kRelu);
      input.times_attention = times_attention;
      const Tensor expected = Tensor::zeros({2, tokens});
      for (int64_t entry = 0; entry < 2; ++entry) {
        for (int64_t q = 0; q < queries; ++q) {
          for (int64_t head = 0; head < kHeads; ++head) {
            const SlowRow row = slow_row(input, entry, q, head);
            for (int64_t t = 0; t < tokens; ++t) {
              const auto at = static_cast<size_t>(t);
              const double value = times_attention ? row.changes[at] * row.weights[at] : row.changes[at];
              expected[entry].floats()[at] +=
                  static_cast<float>(input.weights.at({entry, q}) * std::max(value, 0.0) / kHeads);
            }
          }
        }
      }
      for (Workspace* where : {static_cast<Workspace*>(nullptr), &workspace}) {
        RelevanceInput there = input;
        there.query = input.query.in(where);
        EXPECT_LT(max_difference(attention_relevance(there), expected), 2e-5) << tokens;
      }
      RelevanceTask task;
      task.batch = 2;
      task.queries = queries;
      task.keys = tokens;
      task.heads = kHeads;
      task.head_width = kDepth;
      task.scale = 1 / std::sqrt(static_cast<float>(kDepth));
      task.times_attention = times_attention;
      task.query = input.query.data<float>();
      task.key = input.key.data<float>();
      task.value = input.value.data<float>();
      task.query_strides = task.key_strides = task.value_strides = {qkv.stride(0), qkv.stride(1), kDepth};
      task.out_gradient = input.gradient.data<float>();
      task.weights = input.weights.data<float>();
      for (const Kernels& kernel : kernels()) {
        const Tensor each = Tensor::full({2, kHeads, tokens}, 7);
        task.out = each.data<float>();
        std::vector<float> scratch(static_cast<size_t>(relevance_scratch(task)), std::nanf(""));
        kernel.relate(task, 0, 2, scratch.data());
        kernel.relate(task, 2, 2 * kHeads, scratch.data());
        EXPECT_LT(max_difference(mean(each, 1), expected), 2e-5) << kernel.name;
      }
    }
  }
}

// sum(change * attention(q, k, v)) in double. parts: [tokens, 3, heads, depth] of one entry.
double slow_attention_score(const Doubles& qkv, int64_t tokens, int64_t heads, int64_t depth,
                            const Tensor& change) {
  double score = 0;
  const auto at = [&](int64_t token, int64_t part, int64_t head, int64_t c) {
    return qkv[static_cast<size_t>(((token * 3 + part) * heads + head) * depth + c)];
  };
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t q = 0; q < tokens; ++q) {
      Doubles weights;
      double sum = 0;
      for (int64_t t = 0; t < tokens; ++t) {
        double dot = 0;
        for (int64_t c = 0; c < depth; ++c) dot += at(q, 0, head, c) * at(t, 1, head, c);
        weights.push_back(std::exp(dot / std::sqrt(static_cast<double>(depth))));
        sum += weights.back();
      }
      for (int64_t t = 0; t < tokens; ++t) {
        for (int64_t c = 0; c < depth; ++c) {
          score += weights[static_cast<size_t>(t)] / sum * at(t, 2, head, c) *
                   change.floats()[static_cast<size_t>((q * heads + head) * depth + c)];
        }
      }
    }
  }
  return score;
}

TEST(Backward, AttentionAsFiniteDifferences) {
  constexpr int64_t kTokens = 7;
  constexpr int64_t kHeads = 2;
  constexpr int64_t kDepth = 4;
  Workspace workspace(2);
  const Tensor qkv = random_tensor({1, kTokens, 3 * kHeads * kDepth}, 11);
  const Tensor change = random_tensor({1, kTokens, kHeads * kDepth}, 12);
  const Tensor expected = slow_gradient(
      qkv, [&](const Doubles& at) { return slow_attention_score(at, kTokens, kHeads, kDepth, change); });
  for (Workspace* where : {static_cast<Workspace*>(nullptr), &workspace}) {
    EXPECT_LT(max_difference(attention_backward(qkv.in(where), kHeads, change), expected), 1e-5);
  }
  // Checks the same for separate queries, keys and values.
  const RelevanceInput parts = relevance_input(qkv, kHeads);
  const Tensor wanted = expected.view({1, kTokens, 3, kHeads, kDepth});
  for (Workspace* where : {static_cast<Workspace*>(nullptr), &workspace}) {
    const AttentionGradient alone = attention_gradient(parts.query.in(where), parts.key, parts.value, change);
    EXPECT_LT(max_difference(alone.query, wanted.select(2, 0).contiguous()), 1e-5);
    EXPECT_LT(max_difference(alone.key_value, wanted.slice(2, 1).contiguous()), 1e-5);
  }
  EXPECT_LT(max_difference(key_value_backward(parts.query, parts.key, parts.value, change),
                           wanted.slice(2, 1).contiguous()),
            1e-5);
}

TEST(Backward, LinearGivesBackByItsOwnWeights) {
  Workspace workspace(2);
  for (const DType dtype : {DType::kF32, DType::kI8, DType::kBF16}) {
    if (!multiplies(dtype)) continue;
    RandomParameters source(20);
    Linear layer = Linear::make_joint(source, {"a", "b"}, 37, 11, 0.2).value();
    layer.pack(dtype);
    const Tensor change = random_tensor({3, 5, 22}, 21).in(&workspace);
    const Tensor weights = cat({source.parameters().at("a.weight"), source.parameters().at("b.weight")});
    const Tensor expected = row_products(change.view({15, 22}), weights.t().contiguous()).view({3, 5, 37});
    // Runs before and after a forward pass: packing must not discard the weights.
    for (int pass = 0; pass < 2; ++pass) {
      EXPECT_LT(max_difference(layer.backward(change), expected), dtype == DType::kBF16 ? 0.05 : 1e-4);
      (void)layer.forward(random_tensor({2, 37}, 22));
    }
  }
}

TransformerShape small_shape(Activation activation) {
  return {.width = 12, .layers = 1, .heads = 3, .mlp_width = 20, .activation = activation, .eps = 1e-5};
}

// A block's own float32 pass is too inexact for differences of single values, so random directions are used.
template <typename Forward>
void expect_directional(const Tensor& x, const Tensor& change, const Tensor& gradient,
                        const Forward& forward) {
  constexpr float kStep = 1e-2F;
  for (uint32_t seed = 100; seed < 106; ++seed) {
    const Tensor direction = random_tensor(x.sizes(), seed);
    const double predicted = weighted(doubles(gradient), direction);
    const auto score = [&](float step) { return weighted(doubles(forward(x + direction * step)), change); };
    EXPECT_NEAR((score(kStep) - score(-kStep)) / (2 * kStep), predicted, 0.01 * (1 + std::abs(predicted)));
  }
}

TEST(Backward, ABlockAsFiniteDifferences) {
  for (const Activation activation : {Activation::kGelu, Activation::kQuickGelu}) {
    RandomParameters source(30);
    const BlockNames names{"n1", "q", "k", "v", "o", "n2", "up", "down"};
    TransformerBlock block = TransformerBlock::make(source, "block.", names, small_shape(activation)).value();
    block.pack(DType::kF32);
    const Tensor x = random_tensor({2, 5, 12}, 31);
    const Tensor change = random_tensor({2, 5, 12}, 32);
    BlockTrace trace;
    const Tensor traced = block.forward_traced(x, DType::kF32, trace);
    EXPECT_LT(max_difference(traced, block.forward(x.clone(), {}, DType::kF32)), 1e-6);
    const BlockGradient middle = block.backward_to_attention(trace, change);
    expect_directional(x, change, block.backward_from_attention(trace, middle),
                       [&](const Tensor& at) { return block.forward(at.clone(), {}, DType::kF32); });
    // After the attention, tokens do not interact, so the gradient of the first ones alone is the same.
    const BlockGradient first = block.backward_to_attention(trace, change.slice(1, 0, 2).contiguous());
    EXPECT_LT(max_difference(first.mixed, middle.mixed.slice(1, 0, 2)), 1e-6);
  }
}

TEST(Backward, PoolingAsFiniteDifferences) {
  RandomParameters source(40);
  AttentionPool pool = AttentionPool::make(source, "pool", small_shape(Activation::kGeluTanh)).value();
  pool.pack(DType::kF32);
  const Tensor x = random_tensor({2, 6, 12}, 41);
  const Tensor change = random_tensor({2, 12}, 42);
  AttentionPool::Trace trace;
  EXPECT_LT(max_difference(pool.forward_traced(x, DType::kF32, trace), pool.forward(x, DType::kF32)), 1e-6);
  const Tensor gradient = pool.backward_from_attention(trace, pool.backward_to_attention(trace, change));
  expect_directional(x, change, gradient, [&](const Tensor& at) { return pool.forward(at, DType::kF32); });
}

TEST(Backward, PostNormMlpAsFiniteDifferences) {
  RandomParameters source(50);
  BlockNames names;
  names.mlp_in = "up";
  names.mlp_out = "down";
  names.norm2 = "norm";
  PostNormMlp mlp = PostNormMlp::make(source, "m.", names, small_shape(Activation::kGelu)).value();
  mlp.pack(DType::kF32);
  const Tensor x = random_tensor({4, 12}, 51);
  const Tensor change = random_tensor({4, 12}, 52);
  expect_directional(x, change, mlp.backward(x, change),
                     [&](const Tensor& at) { return mlp.forward(at.clone(), DType::kF32); });
}

TEST(Backward, CrossAttentionTracedAsItRuns) {
  RandomParameters source(60);
  const BlockNames names{"n1", "q", "k", "v", "o", "", "", ""};
  PostNormCrossAttention cross =
      PostNormCrossAttention::make(source, "c.", names, small_shape(Activation::kGelu), 10).value();
  cross.pack(DType::kF32);
  const Tensor x = random_tensor({2, 4, 12}, 61);
  const Tensor memory = random_tensor({2, 9, 10}, 62);
  PostNormCrossAttention::Trace trace;
  const Tensor expected = cross.forward(x.clone(), memory, DType::kF32);
  EXPECT_LT(max_difference(cross.forward_traced(x, memory, DType::kF32, trace), expected), 1e-6);
  EXPECT_EQ(trace.key_value.sizes(), (Shape{2, 9, 2, 3, 4}));
}

}  // namespace
}  // namespace saccade::nn
