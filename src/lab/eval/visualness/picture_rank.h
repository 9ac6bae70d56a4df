// Whether texts still find their pictures: the rank of each text's own picture among those of all.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "saccade/matrix.h"

namespace saccade::lab {

// For every text with a picture (own[i] >= 0), in their order, the rank from 1 of pictures.row(own[i]) by dot
// product among the pictures that any of the texts has; pictures of equal scores count as before it. The mean
// of their reciprocals is the study's MRR. Cost: texts * pictures * dim.
std::vector<double> picture_ranks(MatrixView<const float> texts, MatrixView<const float> pictures,
                                  std::span<const int64_t> own);

}  // namespace saccade::lab
