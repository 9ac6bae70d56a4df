// Attention pooling with one learned query ("MAP head": Zhai et al. 2022, "Scaling Vision Transformers",
// section 2.3, after Lee et al. 2019, "Set Transformer"). The query attends to all tokens; an MLP follows.
#pragma once

#include <string>

#include "saccade/core/error.h"
#include "saccade/nn/layers.h"
#include "saccade/nn/parameters.h"

namespace saccade::nn {

class AttentionPool {
 public:
  // Loads the parameters below `name`: probe [1, 1, width], attention.in_proj_weight [3 * width, width] and
  // in_proj_bias, attention.out_proj, layernorm, mlp.fc1 and mlp.fc2. Ignores `shape.layers`.
  static Result<AttentionPool> make(ParameterSource& source, const std::string& name,
                                    const TransformerShape& shape);
  // Pools x: [batch, tokens, width] float32 into [batch, width] float32.
  [[nodiscard]] Tensor forward(const Tensor& x, DType dtype) const;
  void pack(DType dtype);

  // Intermediate values of a forward pass, for the gradient of a score with respect to the tokens. Inference
  // only, without autograd (backward.h).
  struct Trace {
    Tensor query;       // [batch, 1, heads, head_width] float32
    Tensor key_value;   // [batch, tokens, 2, heads, head_width] float32
    Tensor before_mlp;  // [batch, width]
  };
  [[nodiscard]] Tensor forward_traced(const Tensor& x, DType dtype, Trace& trace) const;
  // Propagates the score's gradient from the result, [batch, width], to the attention output: [batch, 1,
  // width].
  [[nodiscard]] Tensor backward_to_attention(const Trace& trace, const Tensor& gradient) const;
  // Propagates the gradient from the attention output to x.
  [[nodiscard]] Tensor backward_from_attention(const Trace& trace, const Tensor& mixed) const;
  [[nodiscard]] static RelevanceInput relevance_input(const Trace& trace);

 private:
  int64_t heads_ = 0;
  Activation activation_ = Activation::kGelu;
  Tensor probe_;
  Linear query_, key_value_, output_, mlp_in_, mlp_out_;
  LayerNorm norm_;
};

}  // namespace saccade::nn
