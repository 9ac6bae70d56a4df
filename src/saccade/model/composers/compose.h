// How a picture's row and a text's row become the row of one query: "this picture, but
// ...". Nothing here is learned.
//
//   sum        a p + b t
//   slerp      on the great circle from p to t, b / (a + b) of the way (Shoemake, SIGGRAPH 1985)
//   direction  a p + b (t - w), w the row of what the picture shows now, in words (arXiv 2502.07215)
//
// p and t have length 1, a and b are the weights of picture and text, and the result is brought to length 1.
#pragma once

#include <span>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/compose.h"
#include "saccade/core/enum_names.h"

namespace saccade {

std::span<const EnumName<Compose>> enum_names(Compose);  // "sum", "slerp", "direction"

// A sum of rows of length 1 that is this short is of opposite directions: what is left is rounding.
inline constexpr double kShortestSum = 1e-4;

// What stands for the picture in words where nobody has said what it shows.
inline constexpr const char* kAnyPicture = "a picture";

struct ComposeWeights {
  double picture = 1;
  double text = 1;
};
// A share of the text as weights: of kSum and kSlerp 0 is the picture alone and 1 the text alone, and their
// sum stays that of the defaults; of kDirection it is the factor on t - w.
ComposeWeights compose_weights(Compose method, double weight);
// What weight is taken where none is given: 0.5, of kDirection 1.
double default_weight(Compose method);

// picture, text, was: [dim]; `was` is read by kDirection alone. A row of length 1. kUsage for weights that
// are not finite, and of kSlerp for negative ones; kBadData for rows that cancel out, and of kSlerp for
// opposite ones. Cost: a few passes over a row.
Result<std::vector<float>> compose_rows(Compose method, ComposeWeights weights,
                                        std::span<const float> picture, std::span<const float> text,
                                        std::span<const float> was);

}  // namespace saccade
