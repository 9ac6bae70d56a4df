#include "saccade/model/composers/compose_embeddings.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "saccade/core/rows.h"

namespace saccade {

std::span<const EnumName<Compose>> enum_names(Compose) {
  static constexpr std::array<EnumName<Compose>, 3> kWords{
      {{Compose::kSum, "sum", "the sum of both embeddings"},
       {Compose::kSlerp, "slerp", "a point on the great circle between both embeddings"},
       {Compose::kDirection, "direction",
        "the image's embedding plus the difference between the text's embedding and that of the old words"}}};
  return kWords;
}

ComposeWeights compose_weights(Compose method, double weight) {
  if (method == Compose::kDirection) return {.picture = 1, .text = weight};
  return {.picture = 2 * (1 - weight), .text = 2 * weight};
}

double default_weight(Compose method) {
  return method == Compose::kDirection ? 1 : 0.5;
}

Result<std::vector<float>> compose_rows(Compose method, ComposeWeights weights,
                                        std::span<const float> picture, std::span<const float> text,
                                        std::span<const float> was) {
  if (!std::isfinite(weights.picture) || !std::isfinite(weights.text)) {
    return fail(ErrorCode::kUsage, "the parts' weights are {} and {}, expected finite numbers", weights.text,
                weights.picture);
  }
  double of_picture = weights.picture;
  double of_text = weights.text;
  if (method == Compose::kSlerp) {
    const double sum = of_picture + of_text;
    if (of_picture < 0 || of_text < 0 || sum <= 0) {
      return fail(ErrorCode::kUsage,
                  "slerp with the weights {} and {}: it lies between text and image, so neither can "
                  "be negative",
                  of_text, of_picture);
    }
    const double cosine = dot_product(picture, text);
    const double angle = std::acos(std::clamp(cosine, -1.0, 1.0));
    const double share = of_text / sum;
    if (std::sin(angle) > kShortestSum) {
      of_picture = std::sin((1 - share) * angle) / std::sin(angle);
      of_text = std::sin(share * angle) / std::sin(angle);
    } else if (cosine < 0) {
      return fail(ErrorCode::kBadData,
                  "the embeddings of the text and the image are opposite (cosine {:.6f}): no great circle is "
                  "the one between them",
                  cosine);
    }
  }
  std::vector<float> row(picture.size());
  for (size_t i = 0; i < row.size(); ++i) {
    double words = double{text[i]};
    if (method == Compose::kDirection) words -= double{was[i]};
    row[i] = static_cast<float>(of_picture * double{picture[i]} + of_text * words);
  }
  if (const double length = normalize_row(row, kShortestSum); !(length > kShortestSum)) {
    return fail(ErrorCode::kBadData,
                "the embeddings of the text and the image cancel out (sum of length {:.1e})", length);
  }
  return row;
}

}  // namespace saccade
