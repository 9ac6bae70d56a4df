// CLIP4Cir's Combiner (Baldrati et al. 2022, "Conditioned and composed image retrieval combining and
// partially fine-tuning CLIP-based features", CVPR workshops). Both embeddings are projected and
// concatenated. A small network computes a residual, and a second one computes the weights of a mean of the
// two embeddings. The result is the sum of both.
//
//   t' = relu(P_t t), p' = relu(P_p p), c = [t', p']
//   row = W_o relu(W_c c) + s t + (1 - s) p,   s = sigmoid(w relu(W_s c))
//
// The paper uses the towers' unnormalized outputs; here embeddings have length 1, as everywhere. Adaptive
// token fusion adds a third input, appended to c (atf.h).
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/json.h"
#include "saccade/nn/layers.h"
#include "saccade/nn/parameters.h"

namespace saccade {

struct CombinerShape {
  int64_t dim = 0;         // width of embeddings
  int64_t projection = 0;  // width of each projected embedding; published: 4 dim
  int64_t hidden = 0;      // hidden width of both networks; published: 8 dim
};
// Returns the published widths for embeddings of that width.
CombinerShape combiner_shape(int64_t dim);
// Parses a composer's "options"; kBadData names an impossible one.
Result<CombinerShape> combiner_shape_from_json(int64_t dim, const Json& options);
Json combiner_options(const CombinerShape& shape);

// Computes share * a + (1 - share) * b with share = sigmoid(logits). logits: [n, 1]; a, b: [n, dim]. Its twin
// for training is in lab/train/math/composer_peers.h.
nn::Tensor gated_mean(const nn::Tensor& logits, const nn::Tensor& a, const nn::Tensor& b);

template <typename T>
class CombinerOf {
 public:
  // Dropout applied to hidden values in training; empty means none.
  using Dropout = std::function<T(const T&)>;

  // Makes a Combiner; with `third`, it has a third input.
  static Result<CombinerOf> make(const CombinerShape& shape, nn::ParameterSourceOf<T>& source,
                                 bool third = false) {
    // Initialized like torch's linear layers: uniform in +-1 / sqrt(in), a standard deviation of 1 / sqrt(3
    // in).
    const auto layer = [&](const char* name, int64_t in, int64_t out) {
      return nn::LinearOf<T>::make(source, name, in, out, 1 / std::sqrt(3.0 * static_cast<double>(in)));
    };
    CombinerOf made;
    SACCADE_ASSIGN(made.text_, layer("text_projection", shape.dim, shape.projection));
    SACCADE_ASSIGN(made.picture_, layer("picture_projection", shape.dim, shape.projection));
    if (third) {
      SACCADE_ASSIGN(made.third_, layer("third_projection", shape.dim, shape.projection));
    }
    const int64_t seen = (third ? 3 : 2) * shape.projection;
    SACCADE_ASSIGN(made.combine_, layer("combine", seen, shape.hidden));
    SACCADE_ASSIGN(made.out_, layer("out", shape.hidden, shape.dim));
    SACCADE_ASSIGN(made.weigh_, layer("weigh", seen, shape.hidden));
    SACCADE_ASSIGN(made.share_, layer("share", shape.hidden, 1));
    return made;
  }

  // Combines pictures, texts: [n, dim], of length 1, into [n, dim], of any length. third: likewise, of any
  // length, if the Combiner has a third input.
  [[nodiscard]] T forward(const T& pictures, const T& texts, const Dropout& dropout = {},
                          const T* third = nullptr) const {
    const auto dropped = [&](const T& x) { return dropout ? dropout(x) : x; };
    const T text = dropped(text_.forward(texts, nn::Activation::kRelu));
    const T picture = dropped(picture_.forward(pictures, nn::Activation::kRelu));
    std::vector<T> seen = {text, picture};
    if (third != nullptr) seen.push_back(dropped(third_.forward(*third, nn::Activation::kRelu)));
    const T both = cat(seen, 1);
    const T combined = dropped(combine_.forward(both, nn::Activation::kRelu));
    const T logits = share_.forward(dropped(weigh_.forward(both, nn::Activation::kRelu)));
    return out_.forward(combined) + gated_mean(logits, texts, pictures);
  }

  void pack(DType dtype) {
    for (nn::LinearOf<T>* layer : {&text_, &picture_, &third_, &combine_, &out_, &weigh_, &share_}) {
      layer->pack(dtype);
    }
  }

 private:
  nn::LinearOf<T> text_, picture_, third_, combine_, out_, weigh_, share_;
};

}  // namespace saccade
