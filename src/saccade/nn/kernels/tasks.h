// Tasks of the kernels in kernels.h: sizes, strides and memory. All memory is borrowed.
#pragma once

#include <cstdint>

#include "saccade/core/files/safetensors.h"

namespace saccade::nn {

struct NormTask {
  int64_t rows = 0;
  int64_t width = 0;
  const float* x = nullptr;     // [rows, width]
  const float* gain = nullptr;  // [width]
  const float* bias = nullptr;  // [width], or nullptr
  float eps = 0;
  bool centered = true;  // false: the mean is not taken away (root mean square alone)
  DType out_type = DType::kF32;
  void* out = nullptr;  // [rows, width]
};

// Strides of a query, key or value: element [batch][token][head][0] is this many elements from the first.
// Each head's values are contiguous.
struct HeadStrides {
  int64_t batch = 0;  // 0: one for all
  int64_t token = 0;
  int64_t head = 0;
};

struct AttentionTask {
  int64_t batch = 0;
  int64_t queries = 0;
  int64_t keys = 0;
  int64_t heads = 0;
  int64_t key_heads = 0;  // heads is a multiple of it: each serves heads / key_heads neighbours
  int64_t head_width = 0;
  DType type = DType::kF32;  // type of query, key, value and out
  float scale = 1;           // factor on the scores, before the mask; usually 1 / sqrt(head_width)
  const void* query = nullptr;
  const void* key = nullptr;
  const void* value = nullptr;
  HeadStrides query_strides, key_strides, value_strides;
  // Mask [batch, heads, queries, keys] added to the scores, or nullptr. The strides are those of its first
  // three dimensions (0 if broadcast); the last has stride 1. A row with only -infinity gives NaN, as softmax
  // does.
  const float* mask = nullptr;
  int64_t mask_strides[3] = {0, 0, 0};
  void* out = nullptr;  // [batch, queries, heads, head_width]

  // Sets query, key and value from one tensor: [batch, tokens, 3, heads, head_width].
  void set_joint(const void* qkv, int64_t batch_size, int64_t tokens, int64_t head_count, int64_t width,
                 DType element);
};

// Gradient of a loss with respect to qkv, from its gradient with respect to the attention output.
struct AttentionGradientTask {
  AttentionTask attention;             // set_joint; `out` is not used: the weights are computed anew
  const void* out_gradient = nullptr;  // [batch, tokens, heads, head_width]
  void* qkv_gradient = nullptr;        // [batch, tokens, 3, heads, head_width]
};

// Relevance of the keys to a score, from its gradient with respect to the attention weights A. For each key:
// the sum over queries of weight * max(0, dS/dA), or of weight * max(0, dS/dA * A). dS/dA = out_gradient
// value'.
struct RelevanceTask {
  int64_t batch = 0;
  int64_t queries = 0;
  int64_t keys = 0;
  int64_t heads = 0;
  int64_t head_width = 0;
  float scale = 1;
  bool times_attention = false;
  const float* query = nullptr;  // read, like `key`, only if A is
  const float* key = nullptr;
  const float* value = nullptr;
  HeadStrides query_strides, key_strides, value_strides;
  const float* out_gradient = nullptr;  // [batch, queries, heads, head_width]
  const float* weights = nullptr;       // [batch, queries]
  float* out = nullptr;                 // [batch, heads, keys]
};

}  // namespace saccade::nn
