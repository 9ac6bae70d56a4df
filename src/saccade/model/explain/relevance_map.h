// Where in a picture its score comes from: a map over the patches that a transformer cuts it into.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "saccade/core/error.h"
#include "saccade/matrix.h"
#include "saccade/core/enum_names.h"

namespace saccade {

enum class MapMethod {
  // LeGrad (Bousselham et al. 2024, arXiv 2404.03214): of each block the gradient of the score that the
  // block's own states give, with respect to that block's attention; its positive part, averaged over heads
  // and queries, summed over blocks.
  kLegrad,
  // Gradient-weighted attention (Chefer et al. 2021, arXiv 2103.15679): R = R + mean over heads of (gradient
  // * A)+ R over all blocks, with the gradient of the final score.
  kChefer,
};
inline constexpr std::array<EnumName<MapMethod>, 2> kMapMethodNames{
    {{MapMethod::kLegrad, "legrad"}, {MapMethod::kChefer, "chefer"}}};
inline std::span<const EnumName<MapMethod>> enum_names(MapMethod) {
  return kMapMethodNames;
}

// What each patch has to do with a picture's score.
struct PictureMaps {
  int rows = 0;  // of patches, from the top
  int columns = 0;
  // [pictures, rows * columns], row by row from the top left: 0 or more; larger is more. Only values of one
  // picture compare with each other.
  Matrix<float> relevance;
};

// The capability of encoders whose picture tower is a transformer, and of heads on these.
class PictureMapper {
 public:
  virtual ~PictureMapper() = default;
  // pixels: [n, 3 * height * width] as `preprocess` writes them. target: [dim], of length 1, a text's row (or
  // any other): the score is its cosine with the picture's row, or with that of a picture's rows that is
  // nearest to it. kUsage for a target of another width. Cost: kLegrad one to two times encode_images,
  // kChefer two and a half to five times (docs/answers.md); the first call packs the tower's weights a second
  // time, to go through them backwards, and that memory stays. Memory: kChefer keeps what each block traces,
  // for a few pictures at a time.
  [[nodiscard]] virtual Result<PictureMaps> map_pictures(MatrixView<const float> pixels,
                                                         std::span<const float> target, MapMethod method) = 0;
};

}  // namespace saccade
