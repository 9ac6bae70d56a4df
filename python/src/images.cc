#include <cstring>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <string>
#include <utility>

#include "bindings.h"
#include "conversions.h"

namespace saccade::python {
namespace {

using Pixels = nb::ndarray<const uint8_t, nb::ndim<3>, nb::device::cpu>;

PixelMode mode_of(int channels) {
  constexpr PixelMode kModes[] = {PixelMode::kGrey, PixelMode::kGreyAlpha, PixelMode::kRgb, PixelMode::kRgba};
  return kModes[channels - 1];
}

// Copies an array [height, width, channels] of any strides.
PyImage of_pixels(const Pixels& pixels) {
  Image image{.width = static_cast<int>(pixels.shape(1)),
              .height = static_cast<int>(pixels.shape(0)),
              .channels = static_cast<int>(pixels.shape(2))};
  image.mode = mode_of(image.channels);
  image.pixels.resize(pixels.size());
  const auto width = static_cast<int64_t>(pixels.shape(1));
  const auto channels = static_cast<int64_t>(pixels.shape(2));
  const int64_t row_bytes = width * channels;
  const bool whole_rows = pixels.stride(2) == 1 && pixels.stride(1) == channels;
  for (int64_t y = 0; y < image.height; ++y) {
    const uint8_t* from = pixels.data() + y * pixels.stride(0);
    uint8_t* to = image.pixels.data() + y * row_bytes;
    if (whole_rows) {
      std::memcpy(to, from, static_cast<size_t>(row_bytes));
      continue;
    }
    for (int64_t x = 0; x < width; ++x) {
      for (int64_t c = 0; c < channels; ++c) *to++ = from[x * pixels.stride(1) + c * pixels.stride(2)];
    }
  }
  return {std::move(image)};
}

// Takes Pillow's own bytes: rows without padding.
PyImage of_pillow(const nb::bytes& pixels, int width, int height, int channels, const std::string& mode) {
  Image image{.width = width, .height = height, .channels = channels, .mode = mode_of(channels)};
  if (mode == "P") image.mode = PixelMode::kPalette;
  if (mode == "1") image.mode = PixelMode::kBilevel;
  const auto* begin = reinterpret_cast<const uint8_t*>(pixels.c_str());
  image.pixels.assign(begin, begin + pixels.size());
  return {std::move(image)};
}

}  // namespace

void bind_images(nb::module_& module) {
  nb::class_<PyImage>(module, "ImageInput");
  module.def(
      "image_of_path", [](const nb::bytes& path) { return PyImage{raw(path)}; }, nb::arg("path"));
  module.def(
      "image_of_bytes", [](const nb::bytes& bytes) { return PyImage{ImageInput::bytes(raw(bytes))}; },
      nb::arg("data"));
  module.def("image_of_pixels", &of_pixels, nb::arg("pixels").noconvert());
  module.def("image_of_pillow", &of_pillow, nb::arg("pixels"), nb::arg("width"), nb::arg("height"),
             nb::arg("channels"), nb::arg("mode"));
  // Stands for an input that could not be made an image: it fails where images are read, with its index.
  module.def("no_image", [] { return PyImage{Image{}}; });
}

}  // namespace saccade::python
