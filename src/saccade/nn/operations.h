// What models do with tensors beside their layers' products. Results are new tensors, float32 unless it is
// said otherwise, in the workspace of the first argument that has one. Arguments may lie in any way in memory
// unless it is said that they must be contiguous.
//
// Architectures that are also trained (layers.h) are written over the functions marked with (*), each of
// which has a twin for tensors with gradients (lab/train/math/variable.h).
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "saccade/nn/tensor.h"

namespace saccade::nn {

// (*) Whether gradients will be asked of what is computed from x: shortcuts are taken where they are not.
inline bool wants_gradients(const Tensor&) {
  return false;
}

// (*) The sum of float32 tensors; sides of 1, and dimensions that one lacks in front, are repeated.
Tensor operator+(const Tensor& a, const Tensor& b);
// Products value by value. a, b: of the same shape and type, float32 or bfloat16; result of that type.
Tensor operator*(const Tensor& a, const Tensor& b);
Tensor operator*(const Tensor& a, double factor);
Tensor tanh(const Tensor& x);  // (*)
Tensor sigmoid(const Tensor& x);
Tensor relu(const Tensor& x);

// (*) One behind the other along a dimension; of one type.
Tensor cat(const std::vector<Tensor>& tensors, int64_t dimension = 0);
// (*) The rows of table [rows, width], of any floating type, that ids (int64, of
// any shape) name: [..., width].
Tensor embedding(const Tensor& table, const Tensor& ids);
// (*) The rows of x [rows, width], of any type, that `which` (int64, of any shape) names: [..., width]
// of x's type.
Tensor pick_rows(const Tensor& x, const Tensor& which);
// (*) x: [n, tokens, width], of any type; row positions[i] of entry i: [n, width]. positions: [n] int64.
Tensor take_rows(const Tensor& x, const Tensor& positions);
// (*) x: [n, tokens, width]; which: [n, kept] int64, rows of each entry: [n, kept, width].
Tensor gather_rows(const Tensor& x, const Tensor& which);
// (*) Pictures cut into squares of patch x patch: [batch, channels, height, width] to
// [batch, (height / patch) * (width / patch), channels * patch * patch], rows of patches first. What is left
// at the right and at the bottom is not looked at, as a convolution of that stride has it (384 = 27 * 14 +
// 6).
Tensor patches(const Tensor& pixels, int64_t patch);

// The mean over one dimension, which goes.
Tensor mean(const Tensor& x, int64_t dimension);
// x: [n, tokens, width]; mask: [n, tokens] int64. The mean over the tokens whose mask is not 0: [n, width], 0
// where there are none.
Tensor mean_of_kept(const Tensor& x, const Tensor& mask);
// (*) Rows (the last dimension) of length 1 (L2), by division with the norm.
Tensor normalize_rows(const Tensor& rows);
// The dot products of all rows of a [..., width] with all of b [n, width]: [..., n]. Sums in double: for
// looking at answers, not for search.
Tensor row_products(const Tensor& a, const Tensor& b);
// The largest value along a dimension, which goes.
Tensor largest(const Tensor& x, int64_t dimension);

// (*) Over the last dimension, with gain and bias [width]; the result is of `dtype`. x: [..., width] float32.
Tensor layer_norm(const Tensor& x, const Tensor& gain, const Tensor& bias, double eps, DType dtype);
// By the root mean square alone: x / sqrt(mean(x^2) + eps) * gain.
Tensor rms_norm(const Tensor& x, const Tensor& gain, double eps, DType dtype);

// softmax(scale q k^T + mask) v per head. query: [batch, queries, heads, head_width]; key, value: [batch or
// 1, keys, key_heads, head_width], heads a multiple of key_heads: each serves heads / key_heads neighbours;
// each head's numbers in a row. mask: undefined, or float32 broadcast to [batch, heads, queries, keys].
// scale: 1 / sqrt(head_width) unless it is given. Result [batch, queries, heads * head_width], of query's
// dtype, which is float32 or bfloat16; the softmax is in float32.
Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask,
                 std::optional<double> scale = std::nullopt);
// (*) The same for qkv: [batch, tokens, 3 * width].
Tensor attention(const Tensor& qkv, int64_t heads, const Tensor& mask,
                 std::optional<double> scale = std::nullopt);
// The softmax alone, for people to look at: [batch, heads, tokens, tokens] float32, rows of sum 1.
Tensor attention_weights(const Tensor& qkv, int64_t heads, const Tensor& mask);

// [tokens, tokens]: 0 on and below the diagonal, -infinity above.
Tensor causal_mask(int64_t tokens);
// What to add to attention scores for an attention_mask [batch, tokens] int64: [batch, 1, 1, tokens] float32,
// 0 where it is not 0, -infinity where it is. An entry without any token gives NaN.
Tensor padding_mask(const Tensor& attention_mask);

}  // namespace saccade::nn
