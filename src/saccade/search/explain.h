// Why a picture of late interaction is a hit: which of its patches each row of the text met.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/image/preprocess.h"
#include "saccade/index/patch_pool.h"

namespace saccade {

// A part of a picture, in fractions of its width and height.
struct PictureBox {
  float x = 0;
  float y = 0;
  float width = 0;
  float height = 0;
};

// What one row of a text met in a picture.
struct TokenMatch {
  int64_t token = 0;          // which of the text's rows, from 0
  std::optional<int32_t> id;  // its token's id, where rows and tokens are one to one
  float dot = 0;              // the largest dot product; the text's add up to its score
  // The patches of the row it is with, and where they lie in the picture; nothing where the row stands for no
  // place, and no box where the patches show padding alone.
  std::optional<PatchBlock> patches;
  std::optional<PictureBox> box;
};

// Where patches of `grid` lie in a picture of width x height pixels that went through `preprocessing`: within
// a pixel of what the encoder reads. Nothing where they lie outside the picture.
std::optional<PictureBox> patch_box(const Preprocessing& preprocessing, int64_t width, int64_t height,
                                    PatchGrid grid, const PatchBlock& patches);

}  // namespace saccade
