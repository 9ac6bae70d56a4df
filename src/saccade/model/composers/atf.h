// Adaptive token fusion (ATF): our implementation of TMCIR (arXiv 2504.10995), which has no published code:
//
//   tokens   merged as in token_merge.h, from both towers' token states in the shared space
//   places   each token gets the encodings of its position in the image and of its position in the text; a
//            token without a partner gets the encoding "none" for the missing side (the paper's
//            "positional residuals")
//   pool     the mean, or attention whose query is learned or the sum of both embeddings
//   project  to the shared space, by one layer, by an MLP that also gets the sum of both embeddings, or by
//            CLIP4Cir's Combiner (combiner.h), which gets the pooled vector as its third input
//   row      that, or its sum with both embeddings (with the Combiner: their weighted mean); of length 1
//
// The defaults are the paper's own fusion: every pair at or above tau merged, weighted by similarity, the
// mean, one layer, nothing added. The paper names neither the form of the position encodings nor a norm;
// learned tables and the norm behind them are ours. Every choice is an option, and composers record all of
// theirs. docs/studies/composed-retrieval.md reports measurements.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "saccade/core/enum_names.h"
#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/model/composers/combiner.h"
#include "saccade/model/composers/kinds.h"
#include "saccade/model/composers/token_merge.h"
#include "saccade/nn/layers.h"
#include "saccade/nn/token_pool.h"

namespace saccade {

enum class AtfPlaces {
  kLearned,     // a learned table a side
  kSinusoidal,  // fixed (Vaswani et al. 2017, section 3.5); text positions follow those of the image
  kNone,
};
std::span<const EnumName<AtfPlaces>> enum_names(AtfPlaces);
enum class AtfPooling {
  kMean,
  kLearned,  // attention with a learned query
  kAsked,    // attention with the sum of both embeddings as query; its output is added to the sum
  kNone,     // the sum of both embeddings, no tokens: an ablation without fusion, otherwise unchanged
};
std::span<const EnumName<AtfPooling>> enum_names(AtfPooling);
enum class AtfProjection {
  kLinear,
  kMlp,       // two layers with GELU, over the concatenated pooled vector and sum of embeddings
  kBoth,      // the same, but with the pooled vector and both embeddings as separate inputs
  kCombiner,  // Combiner's networks and weighted mean, with the pooled vector as a third input
};
std::span<const EnumName<AtfProjection>> enum_names(AtfProjection);
enum class AtfResidual {
  kNone,
  kSum,  // the projection begins at 0 and is added to the sum of both rows: training begins at the plain sum
};
std::span<const EnumName<AtfResidual>> enum_names(AtfResidual);

struct AtfOptions {
  MergeOptions merge;
  AtfPlaces places = AtfPlaces::kLearned;
  AtfPooling pooling = AtfPooling::kMean;
  int64_t heads = 4;  // heads of attention pooling
  AtfProjection projection = AtfProjection::kLinear;
  int64_t hidden_width = 0;  // 0: four times the shared space's, of the Combiner's networks eight times
  AtfResidual residual = AtfResidual::kNone;
  int64_t picture_tokens = 0;  // number of tokens from the encoder
  int64_t text_places = 0;     // the encoder's context
};
// Returns the options of our own variant, which `train composed` calls atf-attention: mutually nearest tokens
// merged with equal weights, attention with the sum of both embeddings as query, an MLP, and its output added
// to that sum.
AtfOptions attention_atf_options();
// Returns kBadData for incompatible options.
Status check_atf_options(const AtfOptions& options);
// Parses the options. kBadData names the field.
Result<AtfOptions> atf_options_from_json(const Json& json);
Json atf_options_json(const AtfOptions& options);

// Returns fixed sinusoidal position encodings: [count, dim].
nn::Tensor sinusoidal_places(int64_t count, int64_t dim);

// Inputs of pooling. T: nn::Tensor or Variable; those with a (*) may be undefined.
template <typename T>
struct MergedPoolOf {
  T picture_tokens;  // [n, p, dim] float32
  T text_tokens;     // [n, longest, dim] float32
  const TokenMerge* merge = nullptr;
  MergeWeights weights = MergeWeights::kEqual;
  T share;           // (*) scalar: of MergeWeights::kLearned
  T picture_places;  // (*) [picture tokens + 1, dim]: the last is "none", as below
  T text_places;     // (*) [text places + 1, dim]
  T gain;            // [dim]: of the norm behind the places
  T bias;            // [dim]
  T query;           // (*) [n, heads * dim]; undefined for the mean, with one head
  int64_t heads = 1;
};
inline constexpr double kMergedNormEps = 1e-5;
// Merges tokens, adds position encodings, normalizes and pools: [n, heads * dim], in one pass over memory
// (nn/token_pool.h). Its twin for training, and an implementation from separate operations, are in
// lab/train/math/atf_operations.h.
nn::Tensor pool_merged(const MergedPoolOf<nn::Tensor>& pool);
// Returns the memory locations of the merged tokens for pool_merged. Contiguous float32; the position tables
// determine the row for "none".
std::vector<nn::PooledToken> pooled_tokens(const nn::Tensor& picture_tokens, const nn::Tensor& text_tokens,
                                           const TokenMerge& merge, MergeWeights weights, float share,
                                           int64_t picture_none, int64_t text_none);

// Returns the tokens that a merge plan is computed from, contiguous float32. Its twin and that of the next
// function are in lab/train/math/atf_operations.h.
nn::Tensor plain_values(const nn::Tensor& x);
// Returns a table in the form that operations with x accept, without gradients.
nn::Tensor constant_beside(const nn::Tensor& x, const nn::Tensor& table);

template <typename T>
class AtfOf {
 public:
  static Result<AtfOf> make(const AtfOptions& options, int64_t dim, nn::ParameterSourceOf<T>& source) {
    AtfOf atf;
    atf.options_ = options;
    atf.dim_ = dim;
    const double spread = 1 / std::sqrt(static_cast<double>(dim));
    const int64_t asked = options.heads * dim;
    const bool tokens = options.pooling != AtfPooling::kNone;
    if (tokens && options.merge.weights == MergeWeights::kLearned) {
      SACCADE_ASSIGN(atf.share_, source.take("share", {}, {}));
    }
    if (tokens && options.places == AtfPlaces::kLearned) {
      SACCADE_ASSIGN(atf.picture_places_,
                     source.take("picture_places", {options.picture_tokens + 1, dim}, {0, 0.02}));
      SACCADE_ASSIGN(atf.text_places_, source.take("text_places", {options.text_places + 1, dim}, {0, 0.02}));
    } else if (options.places == AtfPlaces::kSinusoidal) {
      atf.fixed_ = sinusoidal_places(options.picture_tokens + options.text_places + 2, dim);
    }
    if (tokens) {
      SACCADE_ASSIGN(atf.gain_, source.take("norm.weight", {dim}, {1, 0}));
      SACCADE_ASSIGN(atf.bias_, source.take("norm.bias", {dim}, {}));
    }
    if (options.pooling == AtfPooling::kLearned) {
      SACCADE_ASSIGN(atf.learned_query_, source.take("query", {1, asked}, {0, spread}));
    } else if (options.pooling == AtfPooling::kAsked) {
      SACCADE_ASSIGN(atf.query_, nn::LinearOf<T>::make(source, "query", dim, asked, spread));
    }
    if (tokens && options.pooling != AtfPooling::kMean) {
      SACCADE_ASSIGN(atf.answer_, nn::LinearOf<T>::make(source, "answer", asked, dim,
                                                        1 / std::sqrt(static_cast<double>(asked))));
    }
    if (options.projection == AtfProjection::kCombiner) {
      const int64_t wide = options.hidden_width > 0 ? options.hidden_width : combiner_shape(dim).hidden;
      // Embeddings are projected to half the networks' width, as published.
      const CombinerShape shape{.dim = dim, .projection = (wide + 1) / 2, .hidden = wide};
      SACCADE_ASSIGN(atf.combiner_, CombinerOf<T>::make(shape, source, true));
      return atf;
    }
    const bool mlp = options.projection != AtfProjection::kLinear;
    const int64_t hidden = !mlp ? dim : options.hidden_width > 0 ? options.hidden_width : 4 * dim;
    if (mlp) {
      const int64_t in = (options.projection == AtfProjection::kBoth ? 3 : 2) * dim;
      SACCADE_ASSIGN(atf.in_,
                     nn::LinearOf<T>::make(source, "in", in, hidden, 1 / std::sqrt(static_cast<double>(in))));
    }
    SACCADE_ASSIGN(atf.out_, nn::LinearOf<T>::make(source, "out", hidden, dim,
                                                   options.residual == AtfResidual::kSum
                                                       ? 0
                                                       : 1 / std::sqrt(static_cast<double>(hidden))));
    return atf;
  }

  // Dropout applied to hidden values in training; empty means none.
  using Dropout = typename CombinerOf<T>::Dropout;

  // Computes the fused embeddings [n, dim], not normalized. `merge`, if not null, receives the merge plan.
  [[nodiscard]] T forward(const ComposerPartsOf<T>& parts, TokenMerge* merge = nullptr,
                          const Dropout& dropout = {}) const {
    const TokenMerge plan =
        plan_token_merge(plain_values(parts.picture_tokens), plain_values(parts.text_tokens),
                         parts.text_lengths, options_.merge);
    const T sum = parts.pictures + parts.texts;
    const T pooled = pool(parts, sum, plan);
    if (merge != nullptr) *merge = plan;
    if (options_.projection == AtfProjection::kCombiner) {
      return combiner_.forward(parts.pictures, parts.texts, dropout, &pooled);
    }
    std::vector<T> seen = {pooled};
    if (options_.projection == AtfProjection::kMlp) seen.push_back(sum);
    if (options_.projection == AtfProjection::kBoth) seen.insert(seen.end(), {parts.pictures, parts.texts});
    T hidden = pooled;
    if (options_.projection != AtfProjection::kLinear) {
      hidden = in_.forward(cat(seen, 1), nn::Activation::kGelu);
      if (dropout) hidden = dropout(hidden);
    }
    const T row = out_.forward(hidden);
    return options_.residual == AtfResidual::kSum ? sum + row : row;
  }

  void pack(DType dtype) {
    for (nn::LinearOf<T>* layer : {&query_, &answer_, &in_, &out_}) layer->pack(dtype);
    if (options_.projection == AtfProjection::kCombiner) combiner_.pack(dtype);
  }

 private:
  [[nodiscard]] T pool(const ComposerPartsOf<T>& parts, const T& sum, const TokenMerge& plan) const {
    if (options_.pooling == AtfPooling::kNone) return sum;
    MergedPoolOf<T> pool{.picture_tokens = parts.picture_tokens,
                         .text_tokens = parts.text_tokens,
                         .merge = &plan,
                         .weights = options_.merge.weights,
                         .share = share_,
                         .picture_places = picture_places_,
                         .text_places = text_places_,
                         .gain = gain_,
                         .bias = bias_,
                         .query = {}};
    if (options_.places == AtfPlaces::kSinusoidal) {
      const int64_t pictures = options_.picture_tokens + 1;
      pool.picture_places = constant_beside(sum, fixed_.slice(0, 0, pictures));
      pool.text_places = constant_beside(sum, fixed_.slice(0, pictures));
    }
    if (options_.pooling == AtfPooling::kMean) return pool_merged(pool);
    pool.heads = options_.heads;
    // All heads share one key and value, the tokens themselves. So no product of a token's width is computed
    // per token.
    pool.query = options_.pooling == AtfPooling::kAsked
                     ? query_.forward(sum)
                     : embedding(learned_query_, nn::Tensor::full_integers({sum.size(0)}, 0));
    const T answer = answer_.forward(pool_merged(pool));
    return options_.pooling == AtfPooling::kAsked ? sum + answer : answer;
  }

  AtfOptions options_;
  int64_t dim_ = 0;
  T share_, picture_places_, text_places_, gain_, bias_, learned_query_;
  nn::Tensor fixed_;
  nn::LinearOf<T> query_, answer_, in_, out_;
  CombinerOf<T> combiner_;  // used by AtfProjection::kCombiner
};

}  // namespace saccade
