// Pooling tokens by attention where a token is a sum of rows that stand elsewhere, in one pass over memory,
// with its gradient: what fusing a picture's tokens with a text's is made of (model/composers/atf.h). Written
// operation by operation, every step of it copies all tokens; here a token is made, normalized, asked and
// counted while it lies in the cache.
//
//   x_k = (1 - s_k) first_k + s_k second_k + tables_0[places_k0] + tables_1[places_k1]
//   u_k = (x_k - mean(x_k)) / sqrt(var(x_k) + eps),  y_k = gain u_k + bias
//   out_h = sum_k a_hk y_k,  a_h = softmax_k(scale query_h y_k); without queries a_k = 1 / (number of tokens)
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "saccade/nn/workspace.h"

namespace saccade::nn {

struct PooledToken {
  const float* first = nullptr;   // [width]
  const float* second = nullptr;  // [width]; nullptr: the first alone
  float share = 0;                // the second's
  std::array<int32_t, 2> places = {0, 0};
};

struct TokenPoolTask {
  int64_t entries = 0;
  int64_t width = 0;
  int64_t heads = 1;
  std::span<const PooledToken> tokens;
  std::span<const int64_t> begin;  // [entries + 1]: each entry's tokens, one at least
  std::array<const float*, 2> tables = {nullptr, nullptr};  // [rows, width] each; nullptr: none
  const float* gain = nullptr;                              // [width]
  const float* bias = nullptr;                              // [width]
  float eps = 1e-5F;
  const float* query = nullptr;  // [entries, heads, width]; nullptr: the mean, and heads is 1
  float scale = 1;
  float* out = nullptr;  // [entries, heads, width]
};

// What a loss changes with all but the tokens' own rows, from what it changes with `out`.
struct TokenPoolGradientTask {
  TokenPoolTask pool;  // `out` is not used: everything is computed anew
  const float* out_gradient = nullptr;
  float* query = nullptr;  // [entries, heads, width], written
  // Added to; nullptr where nobody asks.
  std::array<float*, 2> tables = {nullptr, nullptr};
  float* gain = nullptr;
  float* bias = nullptr;
  float* shares = nullptr;  // one number for the shares of all tokens with a second row
};

// Entries [first, last). `scratch`: token_pool_scratch(task, whether with the gradient) floats for each
// caller at a time. An entry's result does not depend on what it is computed beside.
struct TokenPoolKernels {
  std::string_view name;  // as Kernels::name
  void (*pool)(const TokenPoolTask& task, int64_t first, int64_t last, float* scratch) = nullptr;
  void (*pool_back)(const TokenPoolGradientTask& task, int64_t first, int64_t last, float* scratch) = nullptr;
};
int64_t token_pool_scratch(const TokenPoolTask& task, bool gradient);
// Those that this processor can run, fastest first; the last is always "portable".
std::span<const TokenPoolKernels> token_pool_kernels();

// The whole task by the fastest kernel, on the workspace's threads; on the
// caller's alone where it is nullptr.
void pool_tokens(const TokenPoolTask& task, Workspace* workspace);

}  // namespace saccade::nn
