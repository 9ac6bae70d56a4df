// Tests of attention by native bfloat16 products, against float32 attention of the same values.
#include "saccade/nn/kernels/attention_bf16.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "saccade/nn/kernels/kernels.h"
#include "saccade/nn/operations.h"
#include "saccade/nn/test_tensors.h"

namespace saccade::nn {
namespace {

using test::max_difference;
using test::random_tensor;
using test::rounded;

// Returns true if this processor has the instructions.
bool has_them() {
  AttentionTask task;
  task.type = DType::kBF16;
  task.head_width = 64;
  return attends_in_bf16(task);
}
#define SACCADE_NEEDS_THEM() \
  if (!has_them())           \
  GTEST_SKIP() << "no attention in bfloat16 on this processor, or narrower kernels are asked for"

// Computes attention like attention(query, key, value, mask, scale) by emulated tiles, in scratch memory that was NaN.
// query: [batch, queries, heads, width] bfloat16; key, value: [batch or 1, keys, key heads, width]; mask: undefined, or
// [batch or 1, heads or 1, queries, keys]. All contiguous.
Tensor by_emulated_tiles(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask,
                         double scale) {
  AttentionTask task;
  task.batch = query.size(0);
  task.queries = query.size(1);
  task.heads = query.size(2);
  task.head_width = query.size(3);
  task.keys = key.size(1);
  task.key_heads = key.size(2);
  task.type = DType::kBF16;
  task.scale = static_cast<float>(scale);
  task.query = query.raw();
  task.key = key.raw();
  task.value = value.raw();
  const auto strides = [&](const Tensor& x) {
    const int64_t token = x.size(2) * x.size(3);
    return HeadStrides{x.size(0) == 1 ? 0 : x.size(1) * token, token, x.size(3)};
  };
  task.query_strides = strides(query);
  task.key_strides = task.value_strides = strides(key);
  if (mask.defined()) {
    const int64_t square = mask.size(2) * mask.size(3);
    task.mask = mask.data<float>();
    task.mask_strides[0] = mask.size(0) == 1 ? 0 : mask.size(1) * square;
    task.mask_strides[1] = mask.size(1) == 1 ? 0 : square;
    task.mask_strides[2] = mask.size(3);
  }
  const Tensor out = Tensor::empty({task.batch, task.queries, task.heads * task.head_width}, DType::kBF16);
  task.out = out.raw();
  std::vector<float> scratch(static_cast<size_t>(emulated_tiles_scratch(task)), std::nanf(""));
  attend_bf16_by_emulated_tiles(task, 0, task.batch * task.heads, scratch.data());
  return out;
}
// The same over qkv [batch, tokens, 3 * heads * width], at the usual scale. mask: of two dimensions or four.
Tensor by_emulated_tiles(const Tensor& qkv, int64_t heads, const Tensor& mask) {
  const int64_t tokens = qkv.size(1);
  const int64_t width = qkv.size(2) / 3 / heads;
  const Tensor parts = qkv.view({qkv.size(0), tokens, 3, heads, width});
  const auto part = [&](int64_t which) { return parts.select(2, which).contiguous(); };
  const Tensor whole =
      mask.defined() ? mask + Tensor::zeros({mask.dim() == 4 ? qkv.size(0) : 1, 1, tokens, tokens}) : mask;
  return by_emulated_tiles(part(0), part(1), part(2), whole, 1 / std::sqrt(static_cast<double>(width)));
}

TEST(AttentionBf16, IsNearTheFloatAttention) {
  SACCADE_NEEDS_THEM();
  Workspace workspace(3);
  for (const int64_t tokens : {1, 2, 5, 12, 16, 17, 50, 77, 257}) {
    for (const int64_t width : {2, 4, 32, 64, 72, 80, 256}) {
      const Tensor qkv = random_tensor({2, tokens, 3 * 3 * width}, static_cast<uint32_t>(tokens + width));
      const Tensor left_out = Tensor::zeros({2, 1, 1, tokens});  // the second without its last third
      left_out[1].slice(2, tokens - tokens / 3).fill(-std::numeric_limits<float>::infinity());
      for (const Tensor& mask : {Tensor(), causal_mask(tokens), left_out + causal_mask(tokens)}) {
        const Tensor expected = attention(rounded(qkv), 3, mask);
        const Tensor ours = attention(qkv.to(DType::kBF16).in(&workspace), 3, mask);
        ASSERT_EQ(ours.dtype(), DType::kBF16);
        // The weights and the result are rounded to 8 bits; values are at most about 4.
        EXPECT_LT(max_difference(ours, expected), 0.02) << tokens << " tokens of " << width;
        EXPECT_EQ(max_difference(attention(qkv.to(DType::kBF16), 3, mask), ours), 0) << "depends on threads";
        if (width > 80 && tokens > 80) continue;  // the emulation is slow
        const Tensor tiles = by_emulated_tiles(qkv.to(DType::kBF16), 3, mask);
        EXPECT_LT(max_difference(tiles, expected), 0.02) << tokens << " tokens of " << width;
      }
    }
  }
}

// More or fewer queries than keys, heads that share keys, keys of one entry for all, a scale.
TEST(AttentionBf16, TakesAllShapesOfTasks) {
  SACCADE_NEEDS_THEM();
  const Tensor query = random_tensor({3, 7, 4, 24}, 1);
  for (const int64_t batch : {1, 3}) {
    const Tensor key = random_tensor({batch, 33, 2, 24}, 2);
    const Tensor value = random_tensor({batch, 33, 2, 24}, 3);
    const Tensor mask = random_tensor({3, 1, 7, 33}, 4);
    const Tensor expected = attention(rounded(query), rounded(key), rounded(value), mask, 0.3);
    const Tensor ours =
        attention(query.to(DType::kBF16), key.to(DType::kBF16), value.to(DType::kBF16), mask, 0.3);
    EXPECT_LT(max_difference(ours, expected), 0.02) << batch;
    const Tensor tiles =
        by_emulated_tiles(query.to(DType::kBF16), key.to(DType::kBF16), value.to(DType::kBF16), mask, 0.3);
    EXPECT_LT(max_difference(tiles, expected), 0.02) << batch;
  }
}

// Leftover values of earlier heads in the scratch memory do not matter, not even NaN.
TEST(AttentionBf16, ReadsNothingThatItHasNotWritten) {
  SACCADE_NEEDS_THEM();
  for (const int64_t width : {2, 20, 64}) {
    for (const int64_t tokens : {1, 7, 50}) {
      const Tensor qkv = random_tensor({1, tokens, 3 * 2 * width}, 5).to(DType::kBF16);
      AttentionTask task;
      task.set_joint(qkv.raw(), 1, tokens, 2, width, DType::kBF16);
      task.scale = 1 / std::sqrt(static_cast<float>(width));
      const Tensor out = Tensor::empty({1, tokens, 2 * width}, DType::kBF16);
      task.out = out.raw();
      std::vector<float> scratch(static_cast<size_t>(attention_scratch(task)), std::nanf(""));
      attend_bf16(task, 0, 2, scratch.data());
      EXPECT_EQ(max_difference(out, attention(qkv, 2, {})), 0) << width << " x " << tokens;
    }
  }
}

TEST(AttentionBf16, NaNIsNotHidden) {
  SACCADE_NEEDS_THEM();
  const Tensor qkv = random_tensor({1, 9, 3 * 4}, 13);
  qkv[0][5].slice(0, 0, 1).fill(std::nanf(""));  // in one query
  const Tensor nothing = Tensor::full({9, 9}, -std::numeric_limits<float>::infinity());
  const Tensor halves = qkv.to(DType::kBF16);
  for (const bool tiles : {false, true}) {
    const Tensor out = tiles ? by_emulated_tiles(halves, 1, {}) : attention(halves, 1, {});
    const Tensor none = tiles ? by_emulated_tiles(halves, 1, nothing) : attention(halves, 1, nothing);
    for (int64_t c = 0; c < 4; ++c) {
      EXPECT_TRUE(std::isnan(out.at({0, 5, c}))) << tiles;
      EXPECT_FALSE(std::isnan(out.at({0, 4, c}))) << tiles;
      EXPECT_TRUE(std::isnan(none.at({0, 8, c}))) << tiles;
    }
  }
}

}  // namespace
}  // namespace saccade::nn
