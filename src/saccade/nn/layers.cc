#include "saccade/nn/layers.h"

namespace saccade::nn {

template class LinearOf<Tensor>;
template class LayerNormOf<Tensor>;
template class TransformerBlockOf<Tensor>;

}  // namespace saccade::nn
