// Data augmentation of stored images: compositing, recolouring, shifting and cropping at random.
#pragma once

#include <array>
#include <span>

#include "lab/train/data/picture_store.h"
#include "lab/train/math/step_random.h"

namespace saccade::lab {

// Probabilities and ranges. With everything off, the result is the plain image on white.
struct Augmentation {
  // Probability of a new random colour, for images of one colour on transparency (line icons).
  float recolour = 0.4F;
  // Probability of a white background behind transparent images. The next is that of black or dark grey; the
  // rest get a random colour. Its luminance always differs enough from a one-colour image to keep that
  // visible.
  float white_ground = 0.65F;
  float dark_ground = 0.15F;
  // Zoom and stretch. The visible window is the whole image divided by a factor of this range; a side's
  // factor differs by up to `stretch`. It is shifted by up to `shift` of the side, and rotated by up to
  // `turn` radians.
  float zoom_low = 0.92F;
  float zoom_high = 1.15F;
  float stretch = 0.04F;
  float shift = 0.04F;
  float turn = 0.05F;
  // Maximum relative change of brightness and contrast, for images with many colours.
  float colour_jitter = 0.15F;
};

// Augments an image. out: [3, side, side] planar, (value / 255 - mean) / std. The same image, options and
// random key give the same numbers. Thread-safe.
void augment(const StoredPicture& picture, int side, const Augmentation& options,
             const std::array<float, 3>& mean, const std::array<float, 3>& std, KeyedRandom random,
             std::span<float> out);

}  // namespace saccade::lab
