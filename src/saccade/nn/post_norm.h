// The transformer block as first published (Vaswani et al. 2017, "Attention Is All You Need", section 3.1),
// which BERT and what was made from it kept: each part's result is added to its input and the sum is
// normalized. The two parts stand alone too, for models that put something between them.
//
// Precision and packing are those of layers.h: states between
// the parts are float32, products are made in `dtype`.
#pragma once

#include <string>

#include "saccade/core/error.h"
#include "saccade/nn/layers.h"
#include "saccade/nn/parameters.h"

namespace saccade::nn {

// norm1(x + output(attention(x))).
class PostNormAttention {
 public:
  // Of `names`: query, key, value, output, norm1.
  static Result<PostNormAttention> make(ParameterSource& source, const std::string& prefix,
                                        const BlockNames& names, const TransformerShape& shape);
  // x: [batch, tokens, width] float32 (consumed when packed); mask: undefined, or float32 added to the
  // attention scores, broadcast to [batch, heads, tokens, tokens]. Where `weights` is given it gets the
  // attention's weights, [batch, heads, tokens, tokens] float32, at the cost of computing them twice.
  [[nodiscard]] Tensor forward(Tensor x, const Tensor& mask, DType dtype, Tensor* weights = nullptr) const;
  // The rows of forward(x) at one position an entry. positions: [batch] int64; result [batch, width] float32.
  [[nodiscard]] Tensor forward_at(const Tensor& x, const Tensor& mask, DType dtype,
                                  const Tensor& positions) const;
  void pack(DType dtype);

 private:
  int64_t heads_ = 0;
  Linear query_key_value_, output_;
  LayerNorm norm_;
};

// norm1(x + output(attention of x over a memory)): queries
// are made of x, keys and values of what another tower wrote.
class PostNormCrossAttention {
 public:
  // Of `names`: query, key, value, output, norm1. memory_width: of a row of the memory.
  static Result<PostNormCrossAttention> make(ParameterSource& source, const std::string& prefix,
                                             const BlockNames& names, const TransformerShape& shape,
                                             int64_t memory_width);
  // x: [batch, tokens, width] float32 (consumed when packed); memory: [batch, rows, memory_width] float32,
  // or [1, rows, memory_width]: one for all, worked through once.
  [[nodiscard]] Tensor forward(Tensor x, const Tensor& memory, DType dtype) const;
  void pack(DType dtype);

 private:
  int64_t heads_ = 0;
  Linear query_, key_value_, output_;
  LayerNorm norm_;
};

// norm2(x + mlp_out(activation(mlp_in(x)))).
class PostNormMlp {
 public:
  // Of `names`: mlp_in, mlp_out, norm2.
  static Result<PostNormMlp> make(ParameterSource& source, const std::string& prefix, const BlockNames& names,
                                  const TransformerShape& shape);
  // x: [..., width] float32 (consumed when packed).
  [[nodiscard]] Tensor forward(Tensor x, DType dtype) const;
  void pack(DType dtype);

 private:
  Activation activation_ = Activation::kGelu;
  Linear in_, out_;
  LayerNorm norm_;
};

// Attention, then MLP. Arguments and results are those of TransformerBlock.
class PostNormBlock {
 public:
  static Result<PostNormBlock> make(ParameterSource& source, const std::string& prefix,
                                    const BlockNames& names, const TransformerShape& shape);
  [[nodiscard]] Tensor forward(Tensor x, const Tensor& mask, DType dtype, Tensor* weights = nullptr) const;
  [[nodiscard]] Tensor forward_at(const Tensor& x, const Tensor& mask, DType dtype,
                                  const Tensor& positions) const;
  void pack(DType dtype);

 private:
  PostNormAttention attention_;
  PostNormMlp mlp_;
};

}  // namespace saccade::nn
