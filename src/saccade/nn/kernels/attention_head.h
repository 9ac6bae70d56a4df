// One head of one batch entry in an attention task: shared code of all attention kernels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "saccade/nn/kernels/lanes.h"
#include "saccade/nn/kernels/tasks.h"

namespace saccade::nn {

// Pointers and strides of pair `pair` of entry and head, heads first.
template <typename T>
struct AttentionHead {
  int64_t entry;
  int64_t head;
  const T* query;  // first token's query, likewise key and value
  const T* key;
  const T* value;
  const float* mask;  // first query's mask; may be nullptr
};

template <typename T>
SACCADE_INLINE AttentionHead<T> head_of(const AttentionTask& task, int64_t pair) {
  const int64_t entry = pair / task.heads;
  const int64_t head = pair % task.heads;
  const int64_t key_head = head / (task.heads / task.key_heads);
  const auto of = [entry](const void* first, const HeadStrides& strides, int64_t number) {
    return static_cast<const T*>(first) + entry * strides.batch + number * strides.head;
  };
  const float* mask =
      task.mask == nullptr ? nullptr : task.mask + entry * task.mask_strides[0] + head * task.mask_strides[1];
  return {entry,
          head,
          of(task.query, task.query_strides, head),
          of(task.key, task.key_strides, key_head),
          of(task.value, task.value_strides, key_head),
          mask};
}

// Returns the number of leading keys that any of `count` queries can attend to. Later keys are -infinity in
// all of their masks, which begin at `mask` (may be nullptr). This halves the work of causal attention.
// Returns at least 1, even if all keys are masked.
SACCADE_INLINE int64_t visible_keys(const AttentionTask& task, const float* mask, int64_t count) {
  if (mask == nullptr) return task.keys;
  int64_t visible = 1;
  for (int64_t i = 0; i < count; ++i) {
    const float* row = mask + i * task.mask_strides[2];
    int64_t last = task.keys;
    while (last > visible && row[last - 1] == -std::numeric_limits<float>::infinity()) --last;
    visible = std::max(visible, last);
  }
  return visible;
}

// Prefetches a token's values for the next head. Its rows are short and far apart, so the hardware prefetcher
// misses them (waiting for them took a fifth of the time of attention over 77 tokens).
template <typename T>
SACCADE_INLINE void fetch_next(const AttentionTask& task, const AttentionHead<T>& at, int64_t token) {
  const auto fetch = [&](const T* first, const HeadStrides& strides) {
    constexpr int64_t kLine = 64 / sizeof(T);
    const T* row = first + token * strides.token + strides.head;
    for (int64_t c = 0; c < task.head_width; c += kLine) __builtin_prefetch(row + c);
  };
  fetch(at.query, task.query_strides);
  if (token >= task.keys) return;
  fetch(at.key, task.key_strides);
  fetch(at.value, task.value_strides);
}

}  // namespace saccade::nn
