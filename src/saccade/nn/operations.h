// Tensor operations of the models other than their layers' matrix products. Results are new tensors, float32
// unless stated otherwise, in the workspace of the first argument that has one. Arguments may have any
// strides unless stated to be contiguous.
//
// Architectures that are also trained (layers.h) are written over the functions marked with (*). Each of
// these has a twin for tensors with gradients (lab/train/math/variable.h).
#pragma once

#include <optional>
#include <vector>

#include "saccade/nn/tensor.h"

namespace saccade::nn {

// (*) Returns true if gradients are needed for results computed from x; otherwise shortcuts are taken.
inline bool wants_gradients(const Tensor&) {
  return false;
}

// (*) Adds float32 tensors; dimensions of 1 and missing leading dimensions are broadcast.
Tensor operator+(const Tensor& a, const Tensor& b);
// Multiplies elementwise. a, b: of the same shape and type, float32 or bfloat16; the result has that type.
Tensor operator*(const Tensor& a, const Tensor& b);
Tensor operator*(const Tensor& a, double factor);
Tensor tanh(const Tensor& x);  // (*)
Tensor sigmoid(const Tensor& x);
Tensor relu(const Tensor& x);

// (*) Concatenates tensors of one type along a dimension.
Tensor cat(const std::vector<Tensor>& tensors, int64_t dimension = 0);
// (*) Looks up rows of table [rows, width], of any floating type, by ids (int64, of any shape): [..., width].
Tensor embedding(const Tensor& table, const Tensor& ids);
// (*) Selects rows of x [rows, width], of any type, by `which` (int64, of any shape): [..., width] of x's
// type.
Tensor pick_rows(const Tensor& x, const Tensor& which);
// (*) Selects row positions[i] of entry i of x: [n, tokens, width], of any type. positions: [n] int64; result
// [n, width].
Tensor take_rows(const Tensor& x, const Tensor& positions);
// (*) Selects rows of each entry of x: [n, tokens, width]. which: [n, kept] int64; result [n, kept, width].
Tensor gather_rows(const Tensor& x, const Tensor& which);
// (*) Cuts images into patches of patch x patch: [batch, channels, height, width] to [batch, (height / patch)
// * (width / patch), channels * patch * patch], in row-major order. Ignores a remainder at the right and
// bottom edges, as a convolution of that stride does (384 = 27 * 14 + 6).
Tensor patches(const Tensor& pixels, int64_t patch);

// Computes the mean over one dimension, which is removed.
Tensor mean(const Tensor& x, int64_t dimension);
// Computes the mean over the tokens whose mask is not 0: [n, width], or 0 if there are none. x: [n, tokens,
// width]; mask: [n, tokens] int64.
Tensor mean_of_kept(const Tensor& x, const Tensor& mask);
// (*) Normalizes rows (the last dimension) to L2 norm 1.
Tensor normalize_rows(const Tensor& rows);
// Computes the dot products of all rows of a [..., width] with all rows of b [n, width]: [..., n]. Sums in
// double; meant for checks, not for search.
Tensor row_products(const Tensor& a, const Tensor& b);
// Computes the maximum along a dimension, which is removed.
Tensor largest(const Tensor& x, int64_t dimension);

// (*) Normalizes over the last dimension, with gain and bias [width]; the result has `dtype`. x: [..., width]
// float32.
Tensor layer_norm(const Tensor& x, const Tensor& gain, const Tensor& bias, double eps, DType dtype);
// Normalizes by the root mean square: x / sqrt(mean(x^2) + eps) * gain.
Tensor rms_norm(const Tensor& x, const Tensor& gain, double eps, DType dtype);

// Computes softmax(scale q k^T + mask) v per head. query: [batch, queries, heads, head_width]; key, value:
// [batch or 1, keys, key_heads, head_width], with each head's values contiguous. heads is a multiple of
// key_heads: each key head serves heads / key_heads neighboring query heads. mask: undefined, or float32
// broadcast to [batch, heads, queries, keys]. scale: 1 / sqrt(head_width) by default. Result: [batch,
// queries, heads * head_width] in query's dtype, float32 or bfloat16; the softmax is in float32.
Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask,
                 std::optional<double> scale = std::nullopt);
// (*) Computes self-attention of qkv: [batch, tokens, 3 * width].
Tensor attention(const Tensor& qkv, int64_t heads, const Tensor& mask,
                 std::optional<double> scale = std::nullopt);
// Computes only the softmax, for inspection: [batch, heads, tokens, tokens] float32, rows of sum 1.
Tensor attention_weights(const Tensor& qkv, int64_t heads, const Tensor& mask);

// Returns a causal mask [tokens, tokens]: 0 on and below the diagonal, -infinity above.
Tensor causal_mask(int64_t tokens);
// Converts an attention_mask [batch, tokens] int64 into a mask to add to attention scores: [batch, 1, 1,
// tokens] float32, 0 for tokens to attend to and -infinity for others. An entry without any token gives NaN.
Tensor padding_mask(const Tensor& attention_mask);

}  // namespace saccade::nn
