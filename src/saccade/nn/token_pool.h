// Attention pooling over tokens that are sums of table rows, in one pass over memory, with its gradient. It
// fuses an image's tokens with a text's (model/composers/atf.h). Separate operations would copy all tokens at
// every step; here a token is built, normalized, scored and accumulated while it is in the cache.
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
  const float* second = nullptr;  // [width]; nullptr to use only the first
  float share = 0;                // the second's
  std::array<int32_t, 2> places = {0, 0};
};

struct TokenPoolTask {
  int64_t entries = 0;
  int64_t width = 0;
  int64_t heads = 1;
  std::span<const PooledToken> tokens;
  std::span<const int64_t> begin;  // [entries + 1]: each entry's tokens, one at least
  std::array<const float*, 2> tables = {nullptr, nullptr};  // [rows, width] each, or nullptr
  const float* gain = nullptr;                              // [width]
  const float* bias = nullptr;                              // [width]
  float eps = 1e-5F;
  const float* query = nullptr;  // [entries, heads, width]; nullptr for the mean, with one head
  float scale = 1;
  float* out = nullptr;  // [entries, heads, width]
};

// Gradient of a loss with respect to all inputs except the tokens' own rows, given that with respect to
// `out`.
struct TokenPoolGradientTask {
  TokenPoolTask pool;  // `out` is not used: everything is computed anew
  const float* out_gradient = nullptr;
  float* query = nullptr;  // [entries, heads, width], written
  // Gradients to add to; nullptr if not wanted.
  std::array<float*, 2> tables = {nullptr, nullptr};
  float* gain = nullptr;
  float* bias = nullptr;
  float* shares = nullptr;  // one number for the shares of all tokens with a second row
};

// Kernels over entries [first, last). `scratch` has token_pool_scratch(task, with gradient) floats and serves
// one caller at a time. An entry's result does not depend on the rest of the batch.
struct TokenPoolKernels {
  std::string_view name;  // as Kernels::name
  void (*pool)(const TokenPoolTask& task, int64_t first, int64_t last, float* scratch) = nullptr;
  void (*pool_back)(const TokenPoolGradientTask& task, int64_t first, int64_t last, float* scratch) = nullptr;
};
int64_t token_pool_scratch(const TokenPoolTask& task, bool gradient);
// Returns the kernels that this processor can run, fastest first; the last is always "portable".
std::span<const TokenPoolKernels> token_pool_kernels();

// Run the whole task by the fastest kernel, on the workspace's threads, or only on the caller's if
// `workspace` is nullptr.
void pool_tokens(const TokenPoolTask& task, Workspace* workspace);

}  // namespace saccade::nn
