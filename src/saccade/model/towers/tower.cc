#include "saccade/model/towers/tower.h"

namespace saccade {

const nn::BlockNames& hugging_face_block_names() {
  static const nn::BlockNames kNames{
      "layer_norm1",        "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
      "self_attn.out_proj", "layer_norm2",      "mlp.fc1",          "mlp.fc2"};
  return kNames;
}

Status check_tower(const char* tower, const nn::TransformerShape& shape) {
  constexpr int64_t kMaxSide = 65'536;
  const std::pair<const char*, int64_t> sides[] = {{"width", shape.width},
                                                   {"layers", shape.layers},
                                                   {"heads", shape.heads},
                                                   {"MLP width", shape.mlp_width}};
  for (const auto& [name, value] : sides) {
    if (value < 1 || value > kMaxSide) {
      return fail(ErrorCode::kBadData, "{} {} is {}, expected 1 to {}", tower, name, value, kMaxSide);
    }
  }
  if (shape.width % shape.heads != 0) {
    return fail(ErrorCode::kBadData, "{} width {} is not a multiple of {} heads", tower, shape.width,
                shape.heads);
  }
  if (!(shape.eps > 0 && shape.eps < 1)) {
    return fail(ErrorCode::kBadData, "{} layer_norm_eps is {}, expected above 0 and below 1", tower,
                shape.eps);
  }
  return {};
}

}  // namespace saccade
