// Tests of one-pass token pooling against its formulas in double, and of its gradient against finite
// differences.
#include "saccade/nn/token_pool.h"

#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace saccade::nn {
namespace {

using Numbers = std::vector<float>;

// Three entries of 1, 4 and 19 tokens, some of them averages.
struct Pool {
  int64_t width;
  int64_t heads;
  bool asked;
  Numbers rows, pictures, texts, gain, bias, query;
  float share = 0.3F;
  std::vector<int64_t> begin = {0, 1, 5, 24};

  Pool(int64_t width_, int64_t heads_, bool asked_) : width(width_), heads(heads_), asked(asked_) {
    std::mt19937 random(static_cast<uint32_t>(width * 10 + heads));
    std::normal_distribution<float> normal;
    for (auto [numbers, count] : {std::pair{&rows, 30 * width},
                                  {&pictures, 6 * width},
                                  {&texts, 4 * width},
                                  {&gain, width},
                                  {&bias, width},
                                  {&query, 3 * heads * width}}) {
      for (int64_t i = 0; i < count; ++i) numbers->push_back(normal(random));
    }
  }
  [[nodiscard]] std::vector<PooledToken> tokens() const {
    std::vector<PooledToken> tokens;
    for (int32_t k = 0; k < 24; ++k) {
      PooledToken& token = tokens.emplace_back();
      token.first = rows.data() + k * width;
      if (k % 3 == 1) {
        token.second = rows.data() + (k + 5) * width;
        token.share = share;
      }
      token.places = {k % 6, k % 4};
    }
    return tokens;
  }
  [[nodiscard]] TokenPoolTask task(const std::vector<PooledToken>& tokens, float* out) const {
    TokenPoolTask task;
    task.entries = 3;
    task.width = width;
    task.heads = heads;
    task.tokens = tokens;
    task.begin = begin;
    task.tables = {pictures.data(), texts.data()};
    task.gain = gain.data();
    task.bias = bias.data();
    if (asked) task.query = query.data();
    task.scale = 0.4F;
    task.out = out;
    return task;
  }
  // Computes the result for entry e and head h: [width].
  [[nodiscard]] std::vector<double> slow(int64_t e, int64_t h) const {
    const auto at = [&](const Numbers& from, int64_t row, int64_t i) {
      return double{from[static_cast<size_t>(row * width + i)]};
    };
    std::vector<std::vector<double>> ys;
    std::vector<double> scores;
    for (int64_t k = begin[static_cast<size_t>(e)]; k < begin[static_cast<size_t>(e) + 1]; ++k) {
      std::vector<double> x;
      double mean = 0;
      for (int64_t i = 0; i < width; ++i) {
        double value = at(rows, k, i);
        if (k % 3 == 1) value = (1 - double{share}) * value + double{share} * at(rows, k + 5, i);
        x.push_back(value + at(pictures, k % 6, i) + at(texts, k % 4, i));
        mean += x.back() / static_cast<double>(width);
      }
      double variance = 0;
      for (const double value : x) variance += (value - mean) * (value - mean) / static_cast<double>(width);
      double score = 0;
      for (int64_t i = 0; i < width; ++i) {
        double& value = x[static_cast<size_t>(i)];
        value = (value - mean) / std::sqrt(variance + 1e-5) * at(gain, 0, i) + at(bias, 0, i);
        score += asked ? value * at(query, e * heads + h, i) * 0.4F : 0;
      }
      scores.push_back(score);
      ys.push_back(x);
    }
    double all = 0;
    for (const double score : scores) all += std::exp(score);
    std::vector<double> out(static_cast<size_t>(width));
    for (size_t k = 0; k < ys.size(); ++k) {
      for (size_t i = 0; i < out.size(); ++i) out[i] += std::exp(scores[k]) / all * ys[k][i];
    }
    return out;
  }
};

struct Shape {
  int64_t width;
  int64_t heads;
  bool asked;
};
constexpr Shape kShapes[] = {{5, 1, false},  {16, 2, true},   {21, 3, true},
                             {192, 4, true}, {192, 1, false}, {33, 1, true}};

TEST(TokenPool, IsTheFormulasOnEveryInstructionSet) {
  ASSERT_EQ(token_pool_kernels().back().name, "portable");
  for (const auto& [width, heads, asked] : kShapes) {
    const Pool pool(width, heads, asked);
    const std::vector<PooledToken> tokens = pool.tokens();
    for (const TokenPoolKernels& kernels : token_pool_kernels()) {
      Numbers out(static_cast<size_t>(3 * heads * width), -7);
      const TokenPoolTask task = pool.task(tokens, out.data());
      Numbers scratch(static_cast<size_t>(token_pool_scratch(task, false)), 99);
      kernels.pool(task, 0, 2, scratch.data());
      kernels.pool(task, 2, 3, scratch.data());
      for (int64_t e = 0; e < 3; ++e) {
        for (int64_t h = 0; h < heads; ++h) {
          const std::vector<double> expected = pool.slow(e, h);
          for (int64_t i = 0; i < width; ++i) {
            ASSERT_NEAR(out[static_cast<size_t>((e * heads + h) * width + i)],
                        expected[static_cast<size_t>(i)], 3e-5)
                << kernels.name << " width " << width << " entry " << e;
          }
        }
      }
    }
  }
}

TEST(TokenPool, GradientsAreFiniteDifferencesOnEveryInstructionSet) {
  for (const Shape& shape : kShapes) {
    const int64_t width = shape.width;
    const int64_t heads = shape.heads;
    const bool asked = shape.asked;
    Pool pool(width, heads, asked);
    Numbers change;
    std::mt19937 random(3);
    for (int64_t i = 0; i < 3 * heads * width; ++i)
      change.push_back(std::normal_distribution<float>()(random));
    const auto loss = [&] {
      double sum = 0;
      for (int64_t e = 0; e < 3; ++e) {
        for (int64_t h = 0; h < heads; ++h) {
          const std::vector<double> out = pool.slow(e, h);
          for (int64_t i = 0; i < width; ++i) {
            sum += out[static_cast<size_t>(i)] * change[static_cast<size_t>((e * heads + h) * width + i)];
          }
        }
      }
      return sum;
    };
    for (const TokenPoolKernels& kernels : token_pool_kernels()) {
      const std::vector<PooledToken> tokens = pool.tokens();
      Numbers query(pool.query.size(), 99);
      Numbers pictures(pool.pictures.size());
      Numbers texts(pool.texts.size());
      Numbers gain(pool.gain.size());
      Numbers bias(pool.bias.size());
      Numbers share(1);
      TokenPoolGradientTask task;
      task.pool = pool.task(tokens, nullptr);
      task.out_gradient = change.data();
      task.query = query.data();
      task.tables = {pictures.data(), texts.data()};
      task.gain = gain.data();
      task.bias = bias.data();
      task.shares = share.data();
      Numbers scratch(static_cast<size_t>(token_pool_scratch(task.pool, true)), 99);
      kernels.pool_back(task, 0, 1, scratch.data());
      kernels.pool_back(task, 1, 3, scratch.data());
      const auto check = [&](const char* what, float& value, float found) {
        const float before = value;
        constexpr float kStep = 1e-2F;
        value = before + kStep;
        const double wide_above = loss();
        value = before - kStep;
        const double wide_below = loss();
        value = before + kStep / 2;
        const double above = loss();
        value = before - kStep / 2;
        const double below = loss();
        value = before;
        // Richardson extrapolation: the error decreases with the fourth power of the step, which float32
        // requires to be large.
        const double step = double{before + kStep} - double{before - kStep};
        const double half = double{before + kStep / 2} - double{before - kStep / 2};
        const double slope = (4 * (above - below) / half - (wide_above - wide_below) / step) / 3;
        ASSERT_NEAR(found, slope, 2e-3 * (1 + std::abs(slope)))
            << kernels.name << " " << what << " width " << width << " heads " << heads;
      };
      // Some forty of the long ones are enough.
      for (size_t i = 0; asked && i < query.size(); i += 1 + query.size() / 40)
        check("query", pool.query[i], query[i]);
      for (size_t i = 0; i < pictures.size(); i += 1 + pictures.size() / 40)
        check("picture places", pool.pictures[i], pictures[i]);
      for (size_t i = 0; i < texts.size(); i += 1 + texts.size() / 40)
        check("text places", pool.texts[i], texts[i]);
      for (size_t i = 0; i < gain.size(); i += 1 + gain.size() / 20) check("gain", pool.gain[i], gain[i]);
      for (size_t i = 0; i < bias.size(); i += 1 + bias.size() / 20) check("bias", pool.bias[i], bias[i]);
      check("share", pool.share, share[0]);
    }
  }
}

}  // namespace
}  // namespace saccade::nn
