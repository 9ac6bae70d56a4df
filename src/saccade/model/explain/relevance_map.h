// Relevance maps of an image's score over the patches of a vision transformer.
#pragma once

#include <array>
#include <span>

#include "saccade/core/enum_names.h"
#include "saccade/core/error.h"
#include "saccade/map_method.h"
#include "saccade/matrix.h"

namespace saccade {

inline constexpr std::array<EnumName<MapMethod>, 2> kMapMethodNames{
    {{MapMethod::kLegrad, "legrad"}, {MapMethod::kChefer, "chefer"}}};
inline std::span<const EnumName<MapMethod>> enum_names(MapMethod) {
  return kMapMethodNames;
}

// Relevance of each patch to an image's score.
struct PictureMaps {
  int rows = 0;  // rows of patches, from the top
  int columns = 0;
  // Relevance values [pictures, rows * columns], row-major from the top left: 0 or more, larger is more
  // relevant. Only values of the same image are comparable.
  Matrix<float> relevance;
};

// Capability of encoders whose image tower is a transformer, and of heads on these.
class PictureMapper {
 public:
  virtual ~PictureMapper() = default;
  // Computes maps for pixels: [n, 3 * height * width] as written by `preprocess`. target: [dim], of length 1,
  // a text's embedding (or any other). The score is its cosine with the image's embedding, or with the
  // nearest of the image's rows. Returns kUsage for a target of another width. Cost: kLegrad one to two times
  // encode_images, kChefer two and a half to five times (docs/answers.md). The first call packs the tower's
  // weights a second time for the backward pass, and that memory stays allocated. Memory: kChefer keeps the
  // intermediate values of each block, for a few images at a time.
  [[nodiscard]] virtual Result<PictureMaps> map_pictures(MatrixView<const float> pixels,
                                                         std::span<const float> target, MapMethod method) = 0;
};

}  // namespace saccade
