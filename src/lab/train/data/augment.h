// A stored picture to a training example: composited, recoloured, moved and cropped at random.
#pragma once

#include <array>
#include <span>

#include "lab/train/data/picture_store.h"
#include "lab/train/math/step_random.h"

namespace saccade::lab {

// Probabilities and ranges; all off gives the plain picture on white.
struct Augmentation {
  // Pictures of one colour on transparency (line icons): a new random colour.
  float recolour = 0.4F;
  // Transparent pictures: white ground with this probability, else black or dark grey with the next, else a
  // random colour. Always so far in luminance from a one-colour picture that it stays visible.
  float white_ground = 0.65F;
  float dark_ground = 0.15F;
  // Zoom and stretch: the window seen is the whole divided by a factor of this range, a side's factor off by
  // up to `stretch`; moved by up to `shift` of the side; turned by up to `turn` radians.
  float zoom_low = 0.92F;
  float zoom_high = 1.15F;
  float stretch = 0.04F;
  float shift = 0.04F;
  float turn = 0.05F;
  // Pictures with many colours: brightness and contrast by up to this share.
  float colour_jitter = 0.15F;
};

// out: [3, side, side] planar, (value / 255 - mean) / std. The same picture, options and random key give the
// same numbers. Thread-safe.
void augment(const StoredPicture& picture, int side, const Augmentation& options,
             const std::array<float, 3>& mean, const std::array<float, 3>& std, KeyedRandom random,
             std::span<float> out);

}  // namespace saccade::lab
