#include "saccade/nn/token_pool.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "saccade/nn/kernels/kernels.h"
#include "saccade/nn/kernels/lanes.h"

namespace saccade::nn {
namespace {

constexpr int64_t kWidest = 16;      // lanes: rows of scratch are multiples of it, filled up with zeros
constexpr int64_t kGrain = 1 << 14;  // values that are worth waking a thread for

int64_t padded(int64_t count) {
  return (count + kWidest - 1) / kWidest * kWidest;
}

int64_t longest_of(const TokenPoolTask& task) {
  int64_t longest = 0;
  for (int64_t e = 0; e < task.entries; ++e) {
    const auto entry = static_cast<size_t>(e);
    longest = std::max(longest, task.begin[entry + 1] - task.begin[entry]);
  }
  return longest;
}

// Scratch memory in rows. Rows of a width are [.., stride], those of scores [heads, places].
struct Scratch {
  int64_t stride = 0;
  int64_t places = 0;
  float* units = nullptr;     // [tokens, stride]: u_k
  float* spreads = nullptr;   // [places]: 1 / standard deviation of x_k
  float* asked = nullptr;     // [heads, stride]: scale gain query_h
  float* weights = nullptr;   // [heads, places]: a_hk
  float* pooled = nullptr;    // [heads, stride]: sum_k a_hk u_k
  float* changes = nullptr;   // [heads, places]: of the scores
  float* wanted = nullptr;    // [heads, stride]: gain out_gradient_h
  float* answered = nullptr;  // [heads, stride]: sum_k changes_hk u_k
  float* change = nullptr;    // [stride]: of u_k, then of x_k

  static int64_t floats(const TokenPoolTask& task, bool gradient) {
    const int64_t tokens = longest_of(task);
    const int64_t places = padded(tokens);
    const int64_t stride = padded(task.width);
    const int64_t plain = tokens * stride + places + task.heads * (2 * stride + places);
    return gradient ? plain + task.heads * (2 * stride + places) + stride : plain;
  }

  Scratch(const TokenPoolTask& task, bool gradient, float* memory) {
    const int64_t tokens = longest_of(task);
    stride = padded(task.width);
    places = padded(tokens);
    std::fill_n(memory, floats(task, gradient), 0.F);
    const auto take = [&](int64_t count) {
      float* here = memory;
      memory += count;
      return here;
    };
    units = take(tokens * stride);
    spreads = take(places);
    asked = take(task.heads * stride);
    weights = take(task.heads * places);
    pooled = take(task.heads * stride);
    if (!gradient) return;
    changes = take(task.heads * places);
    wanted = take(task.heads * stride);
    answered = take(task.heads * stride);
    change = take(stride);
  }
};

// --- over padded rows of scratch ------------------------------------------------------------------------

template <int W>
SACCADE_INLINE float dot(const float* a, const float* b, int64_t stride) {
  using Floats = typename Lanes<W>::Floats;
  Floats sums{}, x, y;
  for (int64_t i = 0; i < stride; i += W) {
    load(x, a + i);
    load(y, b + i);
    sums += x * y;
  }
  return sum_of<W>(sums);
}

// to += factor * from
template <int W>
SACCADE_INLINE void add(float factor, const float* from, int64_t stride, float* to) {
  using Floats = typename Lanes<W>::Floats;
  Floats x, y;
  for (int64_t i = 0; i < stride; i += W) {
    load(x, from + i);
    load(y, to + i);
    y += factor * x;
    store(to + i, y);
  }
}

// --- forward --------------------------------------------------------------------------------------------

// Writes u_k to `unit`, whose padding stays 0. Returns 1 / the standard deviation of x_k.
template <int W>
SACCADE_INLINE float unit_of(const TokenPoolTask& task, const PooledToken& token, float* unit) {
  using Floats = typename Lanes<W>::Floats;
  const int64_t width = task.width;
  const int64_t whole = width / W * W;
  const float* rows[2] = {nullptr, nullptr};
  for (size_t i = 0; i < 2; ++i) {
    if (task.tables[i] != nullptr) rows[i] = task.tables[i] + token.places[i] * width;
  }
  Floats sums{}, x, y;
  float sum = 0;
  for (int64_t i = 0; i < whole; i += W) {
    load(x, token.first + i);
    if (token.second != nullptr) {
      load(y, token.second + i);
      x += token.share * (y - x);
    }
    for (const float* row : rows) {
      if (row == nullptr) continue;
      load(y, row + i);
      x += y;
    }
    store(unit + i, x);
    sums += x;
  }
  for (int64_t i = whole; i < width; ++i) {
    float value = token.first[i];
    if (token.second != nullptr) value += token.share * (token.second[i] - value);
    for (const float* row : rows) value += row == nullptr ? 0 : row[i];
    unit[i] = value;
    sum += value;
  }
  const float mean = (sum + sum_of<W>(sums)) / static_cast<float>(width);
  Floats squares{};
  for (int64_t i = 0; i < whole; i += W) {
    load(x, unit + i);
    x -= mean;
    squares += x * x;
    store(unit + i, x);
  }
  float square = 0;
  for (int64_t i = whole; i < width; ++i) {
    unit[i] -= mean;
    square += unit[i] * unit[i];
  }
  square += sum_of<W>(squares);
  const float spread = 1 / std::sqrt(square / static_cast<float>(width) + task.eps);
  for (int64_t i = 0; i < whole; i += W) {
    load(x, unit + i);
    x *= spread;
    store(unit + i, x);
  }
  for (int64_t i = whole; i < width; ++i) unit[i] *= spread;
  return spread;
}

// Converts scores to weights in place; entries after the tokens become 0.
template <int W>
SACCADE_INLINE void softmax(float* scores, int64_t tokens, int64_t places) {
  using Floats = typename Lanes<W>::Floats;
  const float most = *std::max_element(scores, scores + tokens);
  std::fill(scores + tokens, scores + places, -std::numeric_limits<float>::infinity());
  Floats x, sums{};
  for (int64_t k = 0; k < places; k += W) {
    load(x, scores + k);
    x -= most;
    exp_of<W>(x);
    sums += x;
    store(scores + k, x);
  }
  const float share = 1 / sum_of<W>(sums);
  for (int64_t k = 0; k < places; k += W) {
    load(x, scores + k);
    x *= share;
    store(scores + k, x);
  }
}

// Computes units, spreads, asked, weights and pooled of an entry.
template <int W>
SACCADE_INLINE void pool_entry(const TokenPoolTask& task, int64_t entry, const Scratch& scratch) {
  const auto at = static_cast<size_t>(entry);
  const std::span<const PooledToken> tokens = task.tokens.subspan(
      static_cast<size_t>(task.begin[at]), static_cast<size_t>(task.begin[at + 1] - task.begin[at]));
  const auto count = static_cast<int64_t>(tokens.size());
  for (int64_t k = 0; k < count; ++k) {
    scratch.spreads[k] = unit_of<W>(task, tokens[static_cast<size_t>(k)], scratch.units + k * scratch.stride);
  }
  for (int64_t h = 0; h < task.heads; ++h) {
    float* weights = scratch.weights + h * scratch.places;
    if (task.query == nullptr) {
      std::fill_n(weights, count, 1 / static_cast<float>(count));
    } else {
      float* asked = scratch.asked + h * scratch.stride;
      const float* query = task.query + (entry * task.heads + h) * task.width;
      for (int64_t i = 0; i < task.width; ++i) asked[i] = task.scale * task.gain[i] * query[i];
      for (int64_t k = 0; k < count; ++k) {
        weights[k] = dot<W>(asked, scratch.units + k * scratch.stride, scratch.stride);
      }
      softmax<W>(weights, count, scratch.places);
    }
    float* pooled = scratch.pooled + h * scratch.stride;
    std::fill_n(pooled, scratch.stride, 0.F);
    for (int64_t k = 0; k < count; ++k) {
      add<W>(weights[k], scratch.units + k * scratch.stride, scratch.stride, pooled);
    }
  }
}

template <int W>
SACCADE_INLINE void pool(const TokenPoolTask& task, int64_t first, int64_t last, float* memory) {
  const Scratch scratch(task, false, memory);
  for (int64_t e = first; e < last; ++e) {
    pool_entry<W>(task, e, scratch);
    for (int64_t h = 0; h < task.heads; ++h) {
      float* out = task.out + (e * task.heads + h) * task.width;
      const float* pooled = scratch.pooled + h * scratch.stride;
      for (int64_t i = 0; i < task.width; ++i) out[i] = task.gain[i] * pooled[i] + task.bias[i];
    }
  }
}

// --- backward -------------------------------------------------------------------------------------------

// Computes the gradient of the loss with respect to the scores, and through them to the queries.
template <int W>
SACCADE_INLINE void ask_back(const TokenPoolGradientTask& task, int64_t entry, int64_t count,
                             const Scratch& scratch) {
  const TokenPoolTask& pool = task.pool;
  const int64_t stride = scratch.stride;
  for (int64_t h = 0; h < pool.heads; ++h) {
    const float* weights = scratch.weights + h * scratch.places;
    float* changes = scratch.changes + h * scratch.places;
    float mean = 0;
    for (int64_t k = 0; k < count; ++k) {
      changes[k] = dot<W>(scratch.wanted + h * stride, scratch.units + k * stride, stride);
      mean += weights[k] * changes[k];
    }
    float* answered = scratch.answered + h * stride;
    std::fill_n(answered, stride, 0.F);
    for (int64_t k = 0; k < count; ++k) {
      changes[k] = weights[k] * (changes[k] - mean);
      add<W>(changes[k], scratch.units + k * stride, stride, answered);
    }
    const int64_t at = (entry * pool.heads + h) * pool.width;
    for (int64_t i = 0; i < pool.width; ++i) {
      task.query[at + i] = pool.scale * pool.gain[i] * answered[i];
      if (task.gain != nullptr) task.gain[i] += pool.scale * pool.query[at + i] * answered[i];
    }
  }
}

// Propagates the gradient with respect to u_k, in scratch.change, to x_k and on to tables and shares.
template <int W>
SACCADE_INLINE void token_back(const TokenPoolGradientTask& task, const PooledToken& token, const float* unit,
                               float spread, float* change, int64_t stride) {
  using Floats = typename Lanes<W>::Floats;
  const int64_t width = task.pool.width;
  Floats x, y, sums{}, alongs{};
  for (int64_t i = 0; i < stride; i += W) {
    load(x, change + i);
    load(y, unit + i);
    sums += x;
    alongs += x * y;
  }
  const float mean = sum_of<W>(sums) / static_cast<float>(width);
  const float along = sum_of<W>(alongs) / static_cast<float>(width);
  // Values written to the padding here are not read.
  for (int64_t i = 0; i < stride; i += W) {
    load(x, change + i);
    load(y, unit + i);
    x = spread * (x - mean - y * along);
    store(change + i, x);
  }
  for (size_t side = 0; side < 2; ++side) {
    if (task.tables[side] == nullptr) continue;
    float* row = task.tables[side] + token.places[side] * width;
    const int64_t whole = width / W * W;
    add<W>(1, change, whole, row);
    for (int64_t i = whole; i < width; ++i) row[i] += change[i];
  }
  if (task.shares == nullptr || token.second == nullptr) return;
  float along_pair = 0;
  for (int64_t i = 0; i < width; ++i) along_pair += change[i] * (token.second[i] - token.first[i]);
  *task.shares += along_pair;
}

template <int W>
SACCADE_INLINE void pool_back(const TokenPoolGradientTask& task, int64_t first, int64_t last, float* memory) {
  const TokenPoolTask& pool = task.pool;
  const Scratch scratch(pool, true, memory);
  const int64_t stride = scratch.stride;
  for (int64_t e = first; e < last; ++e) {
    const auto begin = static_cast<size_t>(pool.begin[static_cast<size_t>(e)]);
    const int64_t count = pool.begin[static_cast<size_t>(e) + 1] - static_cast<int64_t>(begin);
    pool_entry<W>(pool, e, scratch);
    for (int64_t h = 0; h < pool.heads; ++h) {
      const float* out = task.out_gradient + (e * pool.heads + h) * pool.width;
      float* wanted = scratch.wanted + h * stride;
      const float* pooled = scratch.pooled + h * stride;
      for (int64_t i = 0; i < pool.width; ++i) {
        wanted[i] = pool.gain[i] * out[i];
        if (task.gain != nullptr) task.gain[i] += out[i] * pooled[i];
        if (task.bias != nullptr) task.bias[i] += out[i];
      }
    }
    if (pool.query != nullptr) ask_back<W>(task, e, count, scratch);
    for (int64_t k = 0; k < count; ++k) {
      std::fill_n(scratch.change, stride, 0.F);
      for (int64_t h = 0; h < pool.heads; ++h) {
        add<W>(scratch.weights[h * scratch.places + k], scratch.wanted + h * stride, stride, scratch.change);
        if (pool.query == nullptr) continue;
        add<W>(scratch.changes[h * scratch.places + k], scratch.asked + h * stride, stride, scratch.change);
      }
      token_back<W>(task, pool.tokens[begin + static_cast<size_t>(k)], scratch.units + k * stride,
                    scratch.spreads[k], scratch.change, stride);
    }
  }
}

// --- by instruction set ---------------------------------------------------------------------------------

SACCADE_FOR_EACH_WIDTH(void, pool, pool)
SACCADE_FOR_EACH_WIDTH(void, pool_back, pool_back)

constexpr TokenPoolKernels kAll[] = {
#if defined(__x86_64__)
    {"avx512", pool_avx512, pool_back_avx512},
    {"avx2", pool_avx2, pool_back_avx2},
#endif
    {"portable", pool_portable, pool_back_portable},
};

}  // namespace

int64_t token_pool_scratch(const TokenPoolTask& task, bool gradient) {
  return Scratch::floats(task, gradient);
}

std::span<const TokenPoolKernels> token_pool_kernels() {
  const TokenPoolKernels* first = std::begin(kAll);
  while (first->name != kernels().front().name) ++first;
  return {first, std::end(kAll)};
}

void pool_tokens(const TokenPoolTask& task, Workspace* workspace) {
  const auto bytes = static_cast<size_t>(token_pool_scratch(task, false)) * sizeof(float);
  const auto pool_some = token_pool_kernels().front().pool;
  if (workspace == nullptr) {
    std::vector<float> scratch(bytes / sizeof(float));
    pool_some(task, 0, task.entries, scratch.data());
    return;
  }
  const int64_t values = static_cast<int64_t>(task.tokens.size()) * task.width;
  const int64_t grain = 1 + kGrain * task.entries / std::max<int64_t>(1, values);
  workspace->workers().split(task.entries, grain, [&](int64_t first, int64_t last, int worker) {
    pool_some(task, first, last, static_cast<float*>(workspace->scratch(worker, bytes)));
  });
}

}  // namespace saccade::nn
