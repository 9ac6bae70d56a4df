#include "saccade/model/towers/qformer.h"

namespace saccade {

nn::BlockNames qformer_attention_names(const std::string& part) {
  return {part + ".output.LayerNorm",
          part + ".attention.query",
          part + ".attention.key",
          part + ".attention.value",
          part + ".output.dense",
          "",
          "",
          ""};
}

nn::BlockNames qformer_mlp_names(const std::string& suffix) {
  nn::BlockNames names;
  names.mlp_in = "intermediate" + suffix + ".dense";
  names.mlp_out = "output" + suffix + ".dense";
  names.norm2 = "output" + suffix + ".LayerNorm";
  return names;
}

template class QFormerOf<nn::Tensor>;

}  // namespace saccade
