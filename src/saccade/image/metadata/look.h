// Compact features of an image's look: a perceptual hash, and whether it is a photograph.
#pragma once

#include <bit>
#include <cstdint>

#include "saccade/image/image_view.h"

namespace saccade {

struct PictureLook {
  // Perceptual hash: 64 signs of the lowest frequencies of a 32 x 32 grey image. Scaled, recompressed or
  // brighter copies differ in few bits (pHash: Zauner, "Implementation and Benchmarking of Perceptual Image
  // Hash Functions", 2010, section 3.2).
  uint64_t hash = 0;
  // Share of neighbouring pixels that differ: near 1 in photographs, near 0 in drawings. Transparent pixels
  // count as equal.
  double grain = 0;
};

// Bits in which two hashes differ, 0 to 64; about 32 for unrelated pictures.
inline int hash_distance(uint64_t a, uint64_t b) {
  return std::popcount(a ^ b);
}

// Grain from which an image counts as a photograph; look_test.cc measures the error rate.
inline constexpr double kPhotographGrain = 0.6;
inline bool is_photograph(double grain) {
  return grain >= kPhotographGrain;
}

// Computes the features from at most 512 x 512 pixels, evenly spread. Thread-safe. Cost: under 2 ms.
PictureLook look_of(const ImageView& image);

}  // namespace saccade
