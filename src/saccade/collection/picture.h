// Preprocessing of an image for the encoder, the same for indexed images and query images.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "saccade/collection/catalog/catalog.h"
#include "saccade/core/error.h"
#include "saccade/image/image_codec.h"
#include "saccade/image/image_view.h"
#include "saccade/image/preprocess.h"

namespace saccade {

// Chooses the background of a transparent image: white, or dark grey (32, 32, 32). Grey is chosen if the
// visible pixels' mean luminance is so high that they would vanish on white (WCAG contrast below 1.25).
// Opaque images get white.
std::array<uint8_t, 3> choose_background(const ImageView& image);

// Returns `limits` completed by the collection's settings and the encoder's input size: orientation, the size
// at which vector images are rendered, shrinking while decoding (IngestSettings::fast_decode). A JPEG whose shorter side
// has at least 5, 10 or 20 times the pixels of the encoder's input is then decoded at a half, a quarter or an eighth of its
// size, so that at least 2.5 times the input are left. JPEGs that are smaller, and all other formats, are decoded whole.
// Nothing is shrunk for encoders that do not resize, or whose resize reads single pixels without averaging.
DecodeOptions picture_decode_options(const IngestSettings& settings, const Preprocessing& preprocessing,
                                     DecodeOptions limits = {});

// preprocess() with the collection's background. out: [3, height, width]. Thread-safe.
Status preprocess_picture(const ImageView& image, const Preprocessing& preprocessing,
                          const IngestSettings& settings, std::span<float> out);

}  // namespace saccade
