#include "saccade/collection/picture.h"

#include <cmath>

namespace saccade {
namespace {

constexpr std::array<uint8_t, 3> kWhite = {255, 255, 255};
constexpr std::array<uint8_t, 3> kDark = {32, 32, 32};

// Linear light of the 256 sRGB levels (IEC 61966-2-1).
std::array<double, 256> make_linear() {
  std::array<double, 256> linear{};
  for (size_t i = 0; i < linear.size(); ++i) {
    const double value = static_cast<double>(i) / 255.0;
    linear[i] = value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
  }
  return linear;
}

// Returns true if the resize takes means over the pixels that it shrinks. Only then is a smaller image as good.
bool averages(const Preprocessing& preprocessing) {
  return preprocessing.resize_mode != ResizeMode::kNone && preprocessing.filter != ResizeFilter::kNearest &&
         preprocessing.filter != ResizeFilter::kBilinearNoAntialias;
}

}  // namespace

std::array<uint8_t, 3> choose_background(const ImageView& image) {
  static const std::array<double, 256> linear = make_linear();
  const bool grey = image.channels == 2;
  if (!grey && image.channels != 4) return kWhite;
  const auto step = static_cast<size_t>(image.channels);
  double light = 0;
  double weight = 0;
  bool transparent = false;
  for (size_t i = 0; i + step <= image.pixels.size(); i += step) {
    const uint8_t* pixel = image.pixels.data() + i;
    const double alpha = pixel[step - 1] / 255.0;
    transparent = transparent || pixel[step - 1] != 255;
    const double luminance =
        grey ? linear[pixel[0]]
             : 0.2126 * linear[pixel[0]] + 0.7152 * linear[pixel[1]] + 0.0722 * linear[pixel[2]];
    light += alpha * luminance;
    weight += alpha;
  }
  if (!transparent || weight == 0) return kWhite;
  // WCAG 2 contrast of the mean against white: (1 + 0.05) / (luminance + 0.05).
  constexpr double kLeastContrast = 1.25;
  return 1.05 / (light / weight + 0.05) < kLeastContrast ? kDark : kWhite;
}

DecodeOptions picture_decode_options(const IngestSettings& settings, const Preprocessing& preprocessing,
                                     DecodeOptions limits) {
  limits.apply_orientation = settings.apply_orientation;
  limits.convert_to_srgb = settings.convert_to_srgb;
  limits.vector_side = vector_side(preprocessing);
  // 2.5 times the encoder's input. At twice, one of 2,100 aerial photographs had a cosine below 0.999 to its
  // exact embedding (docs/benchmarks.md, Large photographs). An image of 4 times the input is therefore not halved.
  limits.shrink_to_side = settings.fast_decode && averages(preprocessing) ? limits.vector_side * 5 / 4 : 0;
  return limits;
}

Status preprocess_picture(const ImageView& image, const Preprocessing& preprocessing,
                          const IngestSettings& settings, std::span<float> out) {
  if (settings.background == BackgroundPolicy::kCheckpoint) return preprocess(image, preprocessing, out);
  Preprocessing seen = preprocessing;
  seen.alpha = AlphaPolicy::kComposite;
  seen.background = settings.background == BackgroundPolicy::kByContrast ? choose_background(image) : kWhite;
  return preprocess(image, seen, out);
}

}  // namespace saccade
