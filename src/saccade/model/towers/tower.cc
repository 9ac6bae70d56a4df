#include "saccade/model/towers/tower.h"

namespace saccade {
namespace {

using nn::BlockNames;
using nn::TransformerBlock;
using nn::TransformerShape;
using torch::Tensor;

const BlockNames& hugging_face_names() {
  static const BlockNames kNames{
      "layer_norm1",        "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
      "self_attn.out_proj", "layer_norm2",      "mlp.fc1",          "mlp.fc2"};
  return kNames;
}

}  // namespace

Result<std::vector<TransformerBlock>> make_blocks(nn::ParameterSource& source, const std::string& tower,
                                                  const nn::TransformerShape& shape) {
  std::vector<TransformerBlock> blocks;
  for (int64_t i = 0; i < shape.layers; ++i) {
    const std::string prefix = fmt::format("{}.encoder.layers.{}.", tower, i);
    SACCADE_ASSIGN(blocks.emplace_back(),
                   TransformerBlock::make(source, prefix, hugging_face_names(), shape));
  }
  return blocks;
}

Tensor run_blocks(const std::vector<TransformerBlock>& blocks, size_t count, Tensor x, const Tensor& mask,
                  at::ScalarType dtype, TowerTrace* trace) {
  for (size_t i = 0; i < count; ++i) {
    x = blocks[i].forward(std::move(x), mask, dtype);
    if (trace != nullptr && i == 0) trace->hidden_1 = x.clone();
  }
  return x;
}

Tensor run_blocks_to(const Tensor& positions, const std::vector<TransformerBlock>& blocks, Tensor x,
                     const Tensor& mask, at::ScalarType dtype) {
  x = run_blocks(blocks, blocks.size() - 1, std::move(x), mask, dtype, nullptr);
  return blocks.back().forward_at(x, mask, dtype, positions);
}

bool only_pooled(const TowerTrace* trace) {
  return trace == nullptr && !at::GradMode::is_enabled();
}

Status check_tower(const char* tower, const TransformerShape& shape) {
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
