// Retrieval by visual texts: the rank of each text's own image among the images of all texts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "saccade/matrix.h"

namespace saccade::lab {

// Returns, for every text with an image (own[i] >= 0), in their order, the rank of pictures.row(own[i]) from
// 1. The ranking is by dot product among the images that any of the texts has; ties count as before it. The
// mean of the reciprocal ranks is the study's MRR. Cost: texts * pictures * dim.
std::vector<double> picture_ranks(MatrixView<const float> texts, MatrixView<const float> pictures,
                                  std::span<const int64_t> own);

}  // namespace saccade::lab
