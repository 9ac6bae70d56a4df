#include "saccade/nn/post_norm.h"

namespace saccade::nn {

template class PostNormAttentionOf<Tensor>;
template class PostNormCrossAttentionOf<Tensor>;
template class PostNormMlpOf<Tensor>;
template class PostNormBlockOf<Tensor>;

}  // namespace saccade::nn
