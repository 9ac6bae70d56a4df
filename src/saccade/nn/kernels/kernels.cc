// Kernels from one source for all instruction sets (lanes.h). The widest supported one is chosen at run time.
#include "saccade/nn/kernels/kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "saccade/core/half.h"
#include "saccade/nn/kernels/attention_bf16.h"
#include "saccade/nn/kernels/attention_head.h"
#include "saccade/nn/kernels/lanes.h"

namespace saccade::nn {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Number of queries per step of a head: with two vectors of keys, 12 sums, which fit 16 registers.
constexpr int64_t kQueries = 6;
// Padding of keys and head widths in scratch memory: the widest whole vector.
constexpr int64_t kPadding = 16;

constexpr int64_t padded(int64_t count, int64_t unit = kPadding) {
  return (count + unit - 1) / unit * unit;
}

SACCADE_INLINE float read(const float* value) {
  return *value;
}
SACCADE_INLINE float read(const uint16_t* value) {
  return bf16_to_float(*value);
}
SACCADE_INLINE void write(float* to, float value) {
  *to = value;
}
SACCADE_INLINE void write(uint16_t* to, float value) {
  *to = float_to_bf16(value);
}

// --- layer normalization --------------------------------------------------------------------------------

template <typename T>
SACCADE_INLINE void write_normalized(const NormTask& task, const float* x, float mean, float scale, T* out) {
  if (task.bias == nullptr) {
    for (int64_t i = 0; i < task.width; ++i) write(out + i, (x[i] - mean) * scale * task.gain[i]);
    return;
  }
  for (int64_t i = 0; i < task.width; ++i) {
    write(out + i, (x[i] - mean) * scale * task.gain[i] + task.bias[i]);
  }
}

template <int W>
SACCADE_INLINE void normalize_rows_with(const NormTask& task, int64_t first, int64_t last) {
  using Floats = typename Lanes<W>::Floats;
  const int64_t width = task.width;
  const int64_t whole = width / W * W;
  for (int64_t row = first; row < last; ++row) {
    const float* x = task.x + row * width;
    Floats v;
    Floats sums{};
    for (int64_t i = 0; i < whole; i += W) {
      load(v, x + i);
      sums += v;
    }
    float sum = sum_of<W>(sums);
    for (int64_t i = whole; i < width; ++i) sum += x[i];
    const float mean = task.centered ? sum / static_cast<float>(width) : 0.F;

    // The variance is computed in a second pass from differences, so a large mean costs no precision.
    Floats squares{};
    for (int64_t i = 0; i < whole; i += W) {
      load(v, x + i);
      v -= mean;
      squares += v * v;
    }
    float square = sum_of<W>(squares);
    for (int64_t i = whole; i < width; ++i) square += (x[i] - mean) * (x[i] - mean);
    const float scale = 1 / std::sqrt(square / static_cast<float>(width) + task.eps);

    if (task.out_type == DType::kF32) {
      write_normalized(task, x, mean, scale, static_cast<float*>(task.out) + row * width);
    } else {
      write_normalized(task, x, mean, scale, static_cast<uint16_t*>(task.out) + row * width);
    }
  }
}

// --- attention ------------------------------------------------------------------------------------------

// out = a b for kQueries rows of a and kVectors vectors of
// columns of b. a: rows `a_stride` apart, depth long.
template <int W, int kVectors>
SACCADE_INLINE void multiply_tile(const float* a, int64_t a_stride, const float* b, int64_t b_stride,
                                  int64_t depth, float* out, int64_t out_stride) {
  using Floats = typename Lanes<W>::Floats;
  Floats sums[kQueries][kVectors] = {};
  for (int64_t k = 0; k < depth; ++k) {
    Floats columns[kVectors];
    for (int j = 0; j < kVectors; ++j) load(columns[j], b + k * b_stride + j * W);
    for (int64_t i = 0; i < kQueries; ++i) {
      const float factor = a[i * a_stride + k];
      for (int j = 0; j < kVectors; ++j) sums[i][j] += factor * columns[j];
    }
  }
  for (int64_t i = 0; i < kQueries; ++i) {
    for (int j = 0; j < kVectors; ++j) store(out + i * out_stride + j * W, sums[i][j]);
  }
}

// Multiplies `columns` of them, a multiple of W.
template <int W>
SACCADE_INLINE void multiply(const float* a, int64_t a_stride, const float* b, int64_t b_stride,
                             int64_t columns, int64_t depth, float* out, int64_t out_stride) {
  int64_t c = 0;
  for (; c + 2 * W <= columns; c += 2 * W) {
    multiply_tile<W, 2>(a, a_stride, b + c, b_stride, depth, out + c, out_stride);
  }
  if (c < columns) multiply_tile<W, 1>(a, a_stride, b + c, b_stride, depth, out + c, out_stride);
}

// Converts scores [keys, padded to W] in place to e^(score - largest), 0 in the padding. Returns 1 / their
// sum.
template <int W>
SACCADE_INLINE float exponents(float* scores, const float* mask, int64_t keys) {
  using Floats = typename Lanes<W>::Floats;
  if (mask != nullptr) {
    for (int64_t t = 0; t < keys; ++t) scores[t] += mask[t];
  }
  const int64_t columns = padded(keys, W);
  for (int64_t t = keys; t < columns; ++t) scores[t] = -kInfinity;
  Floats v;
  Floats largest_lanes;
  load(largest_lanes, scores);
  for (int64_t t = W; t < columns; t += W) {
    load(v, scores + t);
    largest_lanes = v > largest_lanes ? v : largest_lanes;
  }
  float lanes[W];
  std::memcpy(lanes, &largest_lanes, sizeof lanes);
  const float largest = *std::max_element(lanes, lanes + W);
  if (largest == -kInfinity) return std::numeric_limits<float>::quiet_NaN();
  Floats sums{};
  for (int64_t t = 0; t < columns; t += W) {
    load(v, scores + t);
    v -= largest;
    exp_of<W>(v);
    store(scores + t, v);
    sums += v;
  }
  return 1 / sum_of<W>(sums);
}

template <int W, typename T>
SACCADE_INLINE void attend_heads(const AttentionTask& task, int64_t first, int64_t last, float* scratch) {
  const int64_t tokens = task.keys;
  const int64_t depth = task.head_width;
  const int64_t columns = padded(tokens);
  const int64_t depth_columns = padded(depth);
  const float scale = task.scale;

  float* keys = scratch;                             // [depth, columns]: transposed
  float* values = keys + depth * columns;            // [tokens, depth_columns]
  float* queries = values + tokens * depth_columns;  // [kQueries, depth]
  float* scores = queries + kQueries * depth;        // [kQueries, columns]
  float* mixed = scores + kQueries * columns;        // [kQueries, depth_columns]
  std::fill(keys, scores, 0.F);  // the padding must be finite; what is not padding is written below

  for (int64_t pair = first; pair < last; ++pair) {
    const AttentionHead<T> at = head_of<T>(task, pair);
    const bool fetches = pair + 1 < last && at.head + 1 < task.heads;
    // Blocks of tokens: rows are so far apart that more of them would evict each other from the cache.
    for (int64_t block = 0; block < tokens; block += kPadding) {
      const int64_t end = std::min(block + kPadding, tokens);
      for (int64_t c = 0; c < depth; ++c) {
        for (int64_t t = block; t < end; ++t)
          keys[c * columns + t] = read(at.key + t * task.key_strides.token + c);
      }
    }
    for (int64_t t = 0; t < tokens; ++t) {
      const T* row = at.value + t * task.value_strides.token;
      for (int64_t c = 0; c < depth; ++c) values[t * depth_columns + c] = read(row + c);
    }
    for (int64_t begin = 0; begin < task.queries; begin += kQueries) {
      const int64_t count = std::min(kQueries, task.queries - begin);
      for (int64_t i = 0; i < count; ++i) {
        const T* row = at.query + (begin + i) * task.query_strides.token;
        for (int64_t c = 0; c < depth; ++c) queries[i * depth + c] = scale * read(row + c);
        if (fetches) fetch_next(task, at, begin + i);
      }
      const float* masks = at.mask == nullptr ? nullptr : at.mask + begin * task.mask_strides[2];
      const int64_t visible = visible_keys(task, masks, count);
      multiply<W>(queries, depth, keys, columns, padded(visible, W), depth, scores, columns);
      float factors[kQueries];
      for (int64_t i = 0; i < count; ++i) {
        const float* row_mask = masks == nullptr ? nullptr : masks + i * task.mask_strides[2];
        factors[i] = exponents<W>(scores + i * columns, row_mask, visible);
      }
      multiply<W>(scores, columns, values, depth_columns, depth_columns, visible, mixed, depth_columns);
      for (int64_t i = 0; i < count; ++i) {
        T* out = static_cast<T*>(task.out) +
                 ((at.entry * task.queries + begin + i) * task.heads + at.head) * depth;
        for (int64_t c = 0; c < depth; ++c) write(out + c, factors[i] * mixed[i * depth_columns + c]);
      }
    }
  }
}

template <int W>
SACCADE_INLINE void attend_heads_with(const AttentionTask& task, int64_t first, int64_t last,
                                      float* scratch) {
  if (task.type == DType::kF32) {
    attend_heads<W, float>(task, first, last, scratch);
  } else {
    attend_heads<W, uint16_t>(task, first, last, scratch);
  }
}

// Offsets of the parts of a head's gradient in scratch memory. Rows are padded to whole blocks of kQueries,
// columns to whole vectors; the padding is always 0.
struct GradientLayout {
  int64_t rows, columns, depth, depth_columns;
  int64_t by_depth, by_token, square;  // floats of [rows, depth_columns], [depth, columns], [rows, columns]

  explicit GradientLayout(const AttentionTask& task)
      : rows(padded(task.queries, kQueries)),
        columns(padded(std::max(task.queries, rows))),
        depth(task.head_width),
        depth_columns(padded(task.head_width)),
        by_depth(rows * depth_columns),
        by_token(depth * columns),
        square(rows * columns) {}

  [[nodiscard]] int64_t floats() const {
    return 4 * by_depth + 2 * by_token + 4 * square + kQueries * depth_columns;
  }
};

// Copies [tokens, depth] of one head into rows, and into columns on request.
template <typename T>
SACCADE_INLINE void load_head(const T* from, int64_t token_stride, int64_t tokens, float factor,
                              const GradientLayout& layout, float* rows, float* transposed) {
  for (int64_t t = 0; t < tokens; ++t) {
    const T* token = from + t * token_stride;
    float* row = rows + t * layout.depth_columns;
    for (int64_t c = 0; c < layout.depth; ++c) row[c] = factor * read(token + c);
    if (transposed != nullptr) {
      for (int64_t c = 0; c < layout.depth; ++c) transposed[c * layout.columns + t] = row[c];
    }
  }
}

// Computes out[t] = factor * (a b)[t] for each token: a [rows, columns], b [columns, depth_columns].
template <int W, typename T>
SACCADE_INLINE void store_product(const float* a, const float* b, int64_t tokens, float factor,
                                  const GradientLayout& layout, float* block, T* out, int64_t token_stride) {
  for (int64_t begin = 0; begin < tokens; begin += kQueries) {
    multiply<W>(a + begin * layout.columns, layout.columns, b, layout.depth_columns, layout.depth_columns,
                tokens, block, layout.depth_columns);
    for (int64_t i = 0; i < std::min(kQueries, tokens - begin); ++i) {
      T* token = out + (begin + i) * token_stride;
      for (int64_t c = 0; c < layout.depth; ++c)
        write(token + c, factor * block[i * layout.depth_columns + c]);
    }
  }
}

// Computes the gradient of attention. With P = softmax(scale q k' + mask), out = P v: dv = P' dout, dP = dout
// v', dS = P (dP - rowsum(P dP)), dq = scale dS k, dk = scale dS' q.
template <int W, typename T>
SACCADE_INLINE void attend_back_heads(const AttentionGradientTask& task, int64_t first, int64_t last,
                                      float* scratch) {
  const AttentionTask& forward = task.attention;
  const GradientLayout layout(forward);
  const int64_t tokens = forward.queries;
  const int64_t columns = layout.columns;
  const int64_t part = forward.heads * forward.head_width;

  float* queries = scratch;  // scaled
  float* keys = queries + layout.by_depth;
  float* values = keys + layout.by_depth;
  float* out_gradient = values + layout.by_depth;
  float* keys_across = out_gradient + layout.by_depth;
  float* values_across = keys_across + layout.by_token;
  float* weights = values_across + layout.by_token;
  float* scores = weights + layout.square;  // their gradient
  float* weights_across = scores + layout.square;
  float* scores_across = weights_across + layout.square;
  float* block = scores_across + layout.square;
  std::fill(scratch, scratch + layout.floats(), 0.F);

  for (int64_t pair = first; pair < last; ++pair) {
    const int64_t entry = pair / forward.heads;
    const int64_t head = pair % forward.heads;
    const int64_t at = entry * tokens * 3 * part + head * forward.head_width;
    const T* qkv = static_cast<const T*>(forward.query) + at;
    load_head(qkv, 3 * part, tokens, forward.scale, layout, queries, nullptr);
    load_head(qkv + part, 3 * part, tokens, 1.F, layout, keys, keys_across);
    load_head(qkv + 2 * part, 3 * part, tokens, 1.F, layout, values, values_across);
    load_head(static_cast<const T*>(task.out_gradient) + entry * tokens * part + head * forward.head_width,
              part, tokens, 1.F, layout, out_gradient, nullptr);
    const float* mask = nullptr;
    if (forward.mask != nullptr) {
      mask = forward.mask + entry * forward.mask_strides[0] + head * forward.mask_strides[1];
    }

    for (int64_t begin = 0; begin < tokens; begin += kQueries) {
      float* block_weights = weights + begin * columns;
      float* block_scores = scores + begin * columns;
      multiply<W>(queries + begin * layout.depth_columns, layout.depth_columns, keys_across, columns, columns,
                  layout.depth, block_weights, columns);
      multiply<W>(out_gradient + begin * layout.depth_columns, layout.depth_columns, values_across, columns,
                  columns, layout.depth, block_scores, columns);
      for (int64_t i = 0; i < kQueries; ++i) {
        float* p = block_weights + i * columns;
        float* s = block_scores + i * columns;
        const int64_t row = begin + i;
        if (row >= tokens) {
          std::fill(p, p + columns, 0.F);
          std::fill(s, s + columns, 0.F);
          continue;
        }
        const float factor =
            exponents<W>(p, mask == nullptr ? nullptr : mask + row * forward.mask_strides[2], tokens);
        float dot = 0;
        for (int64_t t = 0; t < tokens; ++t) {
          p[t] *= factor;
          dot += p[t] * s[t];
        }
        std::fill(p + tokens, p + columns, 0.F);
        for (int64_t t = 0; t < tokens; ++t) s[t] = p[t] * (s[t] - dot);
        std::fill(s + tokens, s + columns, 0.F);
        for (int64_t t = 0; t < tokens; ++t) {
          weights_across[t * columns + row] = p[t];
          scores_across[t * columns + row] = s[t];
        }
      }
    }
    T* gradient = static_cast<T*>(task.qkv_gradient) + at;
    store_product<W>(scores, keys, tokens, forward.scale, layout, block, gradient, 3 * part);
    store_product<W>(scores_across, queries, tokens, 1.F, layout, block, gradient + part, 3 * part);
    store_product<W>(weights_across, out_gradient, tokens, 1.F, layout, block, gradient + 2 * part, 3 * part);
  }
}

template <int W>
SACCADE_INLINE void attend_back_with(const AttentionGradientTask& task, int64_t first, int64_t last,
                                     float* scratch) {
  if (task.attention.type == DType::kF32) {
    attend_back_heads<W, float>(task, first, last, scratch);
  } else {
    attend_back_heads<W, uint16_t>(task, first, last, scratch);
  }
}

// --- relevance -----------------------------------------------------------------------------------------

template <int W>
SACCADE_INLINE void relate_heads(const RelevanceTask& task, int64_t first, int64_t last, float* scratch) {
  const int64_t depth = task.head_width;
  const int64_t columns = padded(task.keys);
  float* values = scratch;                  // [depth, columns]
  float* keys = values + depth * columns;   // [depth, columns]
  float* changes = keys + depth * columns;  // [kQueries, columns]: of the weights
  float* scores = changes + kQueries * columns;
  float* rows = scores + kQueries * columns;  // [kQueries, depth]
  const auto across = [&](const float* from, const HeadStrides& strides, int64_t entry, int64_t head,
                          float* to) {
    from += entry * strides.batch + head * strides.head;
    for (int64_t c = 0; c < depth; ++c) {
      for (int64_t t = 0; t < task.keys; ++t) to[c * columns + t] = from[t * strides.token + c];
      std::fill(to + c * columns + task.keys, to + (c + 1) * columns, 0.F);
    }
  };
  for (int64_t pair = first; pair < last; ++pair) {
    const int64_t entry = pair / task.heads;
    const int64_t head = pair % task.heads;
    float* out = task.out + pair * task.keys;
    std::fill(out, out + task.keys, 0.F);
    across(task.value, task.value_strides, entry, head, values);
    if (task.times_attention) across(task.key, task.key_strides, entry, head, keys);
    for (int64_t begin = 0; begin < task.queries; begin += kQueries) {
      const int64_t count = std::min(kQueries, task.queries - begin);
      // A last partial block is padded with zeros, because `multiply` computes whole blocks.
      const auto load_rows = [&](const float* from, int64_t stride, float factor) {
        for (int64_t i = 0; i < kQueries; ++i) {
          for (int64_t c = 0; c < depth; ++c)
            rows[i * depth + c] = i < count ? factor * from[i * stride + c] : 0;
        }
      };
      load_rows(task.out_gradient + ((entry * task.queries + begin) * task.heads + head) * depth,
                task.heads * depth, 1.F);
      multiply<W>(rows, depth, values, columns, padded(task.keys, W), depth, changes, columns);
      if (task.times_attention) {
        const HeadStrides& q = task.query_strides;
        load_rows(task.query + entry * q.batch + begin * q.token + head * q.head, q.token, task.scale);
        multiply<W>(rows, depth, keys, columns, padded(task.keys, W), depth, scores, columns);
      }
      for (int64_t i = 0; i < count; ++i) {
        float factor = task.weights[entry * task.queries + begin + i];
        float* row = scores + i * columns;
        if (task.times_attention) factor *= exponents<W>(row, nullptr, task.keys);
        const float* change = changes + i * columns;
        for (int64_t t = 0; t < task.keys; ++t) {
          const float positive = change[t] > 0 ? change[t] : 0.F;
          out[t] += factor * (task.times_attention ? positive * row[t] : positive);
        }
      }
    }
  }
}

// --- one function an instruction set --------------------------------------------------------------------

SACCADE_FOR_EACH_WIDTH(void, normalize, normalize_rows_with)
SACCADE_FOR_EACH_WIDTH(void, attend, attend_heads_with)
SACCADE_FOR_EACH_WIDTH(void, attend_back, attend_back_with)
SACCADE_FOR_EACH_WIDTH(void, relate, relate_heads)

}  // namespace

void AttentionTask::set_joint(const void* qkv, int64_t batch_size, int64_t tokens, int64_t head_count,
                              int64_t width, DType element) {
  batch = batch_size;
  queries = tokens;
  keys = tokens;
  heads = head_count;
  key_heads = head_count;
  head_width = width;
  type = element;
  const int64_t part = head_count * width;
  const auto at = [&](int64_t which) {
    return static_cast<const std::byte*>(qkv) + which * part * dtype_size(element);
  };
  query = at(0);
  key = at(1);
  value = at(2);
  query_strides = key_strides = value_strides = {tokens * 3 * part, 3 * part, width};
}

int64_t attention_scratch(const AttentionTask& task) {
  const int64_t columns = padded(task.keys);
  const int64_t depth_columns = padded(task.head_width);
  const int64_t floats = task.head_width * columns + task.keys * depth_columns +
                         kQueries * (task.head_width + 2 * columns + depth_columns);
  return attends_in_bf16(task) ? std::max(floats, attention_bf16_scratch(task)) : floats;
}

int64_t attention_gradient_scratch(const AttentionTask& task) {
  return GradientLayout(task).floats();
}

int64_t relevance_scratch(const RelevanceTask& task) {
  const int64_t columns = padded(task.keys);
  return 2 * task.head_width * columns + kQueries * (2 * columns + task.head_width);
}

std::span<const Kernels> kernels() {
  static const std::vector<Kernels> kKernels = kernels_for_cpu<Kernels>({
#if defined(__x86_64__)
    {"avx512", CpuLevel::kAvx512, normalize_avx512, attend_avx512, attend_back_avx512, relate_avx512},
        {"avx2", CpuLevel::kAvx2, normalize_avx2, attend_avx2, attend_back_avx2, relate_avx2},
#endif
        {"portable",      CpuLevel::kPortable,  normalize_portable,
         attend_portable, attend_back_portable, relate_portable},
  });
  return kKernels;
}

void normalize(const NormTask& task, Workspace* workspace) {
  const Kernels& fastest = kernels().front();
  // Below some 16,000 values, waking a thread costs more than the work.
  const int64_t grain = 1 + (int64_t{1} << 14) / std::max<int64_t>(task.width, 1);
  split(workspace, task.rows, grain,
        [&](int64_t first, int64_t last) { fastest.normalize(task, first, last); });
}

namespace {

// Calls body(first, last, scratch) for all pairs of an entry and a head, on the workspace's threads.
template <typename Body>
void for_pairs(int64_t pairs, int64_t scratch, Workspace* workspace, const Body& body) {
  if (workspace == nullptr) {
    std::vector<float> memory(static_cast<size_t>(scratch));
    return body(int64_t{0}, pairs, memory.data());
  }
  workspace->workers().split(pairs, 1, [&](int64_t first, int64_t last, int worker) {
    void* memory = workspace->scratch(worker, static_cast<size_t>(scratch) * sizeof(float));
    body(first, last, static_cast<float*>(memory));
  });
}

}  // namespace

void attend(const AttentionTask& task, Workspace* workspace) {
  const int64_t pairs = task.batch * task.heads;
  if (pairs == 0 || task.queries == 0) return;
  const auto kernel = attends_in_bf16(task) ? attend_bf16 : kernels().front().attend;
  for_pairs(pairs, attention_scratch(task), workspace,
            [&](int64_t first, int64_t last, float* scratch) { kernel(task, first, last, scratch); });
}

void attend_back(const AttentionGradientTask& task, Workspace* workspace) {
  const int64_t pairs = task.attention.batch * task.attention.heads;
  if (pairs == 0 || task.attention.queries == 0) return;
  for_pairs(pairs, attention_gradient_scratch(task.attention), workspace,
            [&](int64_t first, int64_t last, float* scratch) {
              kernels().front().attend_back(task, first, last, scratch);
            });
}

void relate(const RelevanceTask& task, Workspace* workspace) {
  const int64_t pairs = task.batch * task.heads;
  if (pairs == 0) return;
  for_pairs(pairs, relevance_scratch(task), workspace, [&](int64_t first, int64_t last, float* scratch) {
    kernels().front().relate(task, first, last, scratch);
  });
}

}  // namespace saccade::nn
