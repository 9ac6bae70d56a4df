// Ways to make one query of an image and a text.
#pragma once

namespace saccade {

// Methods to combine an image and a text into one query. p and t are their embeddings; w is the embedding of
// a description of the image.
enum class Compose {
  kSum,        // a p + b t, the weighted sum
  kSlerp,      // spherical interpolation from p to t (Shoemake, SIGGRAPH 1985)
  kDirection,  // a p + b (t - w): the image, moved by the difference between two texts (arXiv 2502.07215)
};

}  // namespace saccade
