#include "saccade/model/families/clip.h"

#include <algorithm>

#include "saccade/model/towers/picture_tower.h"

namespace saccade {

nn::Tensor clip_end_positions(const nn::Tensor& ids, std::optional<int64_t> end_id) {
  const nn::Tensor rows = ids.contiguous();
  nn::Tensor ends = nn::Tensor::empty({ids.size(0)}, DType::kI64);
  for (int64_t i = 0; i < ids.size(0); ++i) {
    const std::span<const int64_t> row = rows[i].integers();
    const auto found =
        end_id ? std::find(row.begin(), row.end(), *end_id) : std::max_element(row.begin(), row.end());
    // A text without an end token is read at its beginning, like the references' argmax.
    ends.integers()[static_cast<size_t>(i)] = found == row.end() ? 0 : found - row.begin();
  }
  return ends;
}

template <>
PictureTower ClipModelOf<nn::Tensor>::picture_tower(DType dtype) const {
  PictureTower tower;
  tower.embed = [this, dtype](const nn::Tensor& pixels) { return embed_images(pixels, dtype, {}); };
  for (const nn::TransformerBlock& block : vision_blocks_) tower.blocks.push_back(crossed(block, dtype));
  tower.pool = [this](const nn::Tensor& tokens, const StateChange& change, PoolingWish) {
    return pool_first(post_norm_, tokens, change);
  };
  tower.projection = &visual_projection_;
  tower.rows = tower.columns = static_cast<int>(config_.image_size / config_.patch_size);
  return tower;
}

template class ClipModelOf<nn::Tensor>;

}  // namespace saccade
