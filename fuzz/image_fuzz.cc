// Fuzzer of images: a decoded image has the pixels it declares, whatever the bytes claimed, and can be
// preprocessed.
#include <vector>

#include "saccade/image/image_codec.h"
#include "saccade/image/preprocess.h"

#include "fuzz.h"

int fuzz_input(const uint8_t* data, size_t size) {
  using namespace saccade;
  DecodeOptions options;
  options.max_pixels = 1'000'000;
  options.max_bytes = 1 << 20;
  options.max_seconds = 5;
  options.vector_side = 64;
  const auto decoded = decode_image(std::as_bytes(std::span(data, size)), options);
  if (!decoded) {
    FUZZ_CHECK(!decoded.error().message.empty());
    return 0;
  }
  const Image& image = decoded->image;
  FUZZ_CHECK(image.width > 0 && image.height > 0 && image.channels >= 1 && image.channels <= 4);
  FUZZ_CHECK(int64_t{image.width} * image.height <= options.max_pixels);
  FUZZ_CHECK(image.pixels.size() == static_cast<size_t>(image.width) * static_cast<size_t>(image.height) *
                                        static_cast<size_t>(image.channels));
  Preprocessing preprocessing;
  preprocessing.resize_height = preprocessing.resize_width = 16;
  preprocessing.crop_height = preprocessing.crop_width = 16;
  std::vector<float> out(3 * 16 * 16);
  const Status status = preprocess(image, preprocessing, out);
  FUZZ_CHECK(status || !status.error().message.empty());
  return 0;
}
