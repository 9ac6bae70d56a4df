// A whole image scaled to a given number of pixels, over white, for training on our own pixels and for
// sending to others.
#pragma once

#include "saccade/image/image_codec.h"
#include "saccade/image/image_view.h"

namespace saccade {

// side x side of premultiplied RGBA: the aspect ratio is not kept, Pillow's bicubic over premultiplied
// alpha; no colour is above its alpha.
Image premultiplied_square(const ImageView& image, int side);

// Premultiplied RGBA over white: RGB of the same size.
Image over_white(const ImageView& premultiplied);

// The whole picture as large as it fits into width x height, its aspect ratio
// kept, in the middle of white: RGB.
Image fitted_over_white(const ImageView& image, int width, int height);
// Composites the image over white, at its own size, or reduced so that its longer side fits `most`: RGB.
Image at_most_over_white(const ImageView& image, int most);

}  // namespace saccade
