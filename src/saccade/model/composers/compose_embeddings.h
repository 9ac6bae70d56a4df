// Combines an image embedding and a text embedding into one query: "this image, but ...". Nothing here
// is learned.
//
//   sum        a p + b t
//   slerp      on the great circle from p to t, b / (a + b) of the way (Shoemake, SIGGRAPH 1985)
//   direction  a p + b (t - w), w the embedding of a text that describes the image (arXiv 2502.07215)
//
// p and t have length 1, a and b are the weights of image and text, and the result is normalized to length 1.
#pragma once

#include <span>
#include <vector>

#include "saccade/compose.h"
#include "saccade/core/enum_names.h"
#include "saccade/core/error.h"

namespace saccade {

std::span<const EnumName<Compose>> enum_names(Compose);  // "sum", "slerp", "direction"

// Minimum length of a sum of rows of length 1. A shorter sum is of opposite directions, and only rounding is
// left.
inline constexpr double kShortestSum = 1e-4;

// Default description of the image if none is given.
inline constexpr const char* kAnyPicture = "a picture";

struct ComposeWeights {
  double picture = 1;
  double text = 1;
};
// Converts the text's share into weights. With kSum and kSlerp, 0 is the image alone and 1 the text alone;
// the sum of the weights stays that of the defaults. With kDirection it is the factor on t - w.
ComposeWeights compose_weights(Compose method, double weight);
// Returns the default weight: 0.5, or 1 for kDirection.
double default_weight(Compose method);

// Composes picture, text, was: [dim]; only kDirection reads `was`. Returns an embedding of length 1. Returns
// kUsage for weights that are not finite, and with kSlerp for negative ones. Returns kBadData for embeddings
// that cancel out, and with kSlerp for opposite ones. Cost: a few passes over a row.
Result<std::vector<float>> compose_rows(Compose method, ComposeWeights weights,
                                        std::span<const float> picture, std::span<const float> text,
                                        std::span<const float> was);

}  // namespace saccade
