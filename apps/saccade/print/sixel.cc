#include "print/sixel.h"

#include <cstdint>
#include <memory>
#include <vector>

#include "saccade/core/process/late_library.h"

namespace saccade::app {
namespace {

// Declarations of sixel.h that are used. They have been stable since version 1.5.
struct Output;
struct Dither;
struct SixelLibrary {
  int (*output_new)(Output**, int (*)(char*, int, void*), void*, void* allocator) = nullptr;
  void (*output_unref)(Output*) = nullptr;
  int (*dither_new)(Dither**, int colours, void* allocator) = nullptr;
  int (*dither_initialize)(Dither*, unsigned char* data, int width, int height, int format, int largest,
                           int representative, int quality) = nullptr;
  void (*dither_unref)(Dither*) = nullptr;
  int (*encode)(unsigned char* pixels, int width, int height, int depth, Dither*, Output*) = nullptr;
  bool there = false;
};

SixelLibrary load_sixel_library() {
  SixelLibrary sixel;
  LateLibrary library("libsixel.so.1");
  library.bind(sixel.output_new, "sixel_output_new");
  library.bind(sixel.output_unref, "sixel_output_unref");
  library.bind(sixel.dither_new, "sixel_dither_new");
  library.bind(sixel.dither_initialize, "sixel_dither_initialize");
  library.bind(sixel.dither_unref, "sixel_dither_unref");
  library.bind(sixel.encode, "sixel_encode");
  sixel.there = library.failure().empty();
  return sixel;
}

const SixelLibrary& sixel_library() {
  static const SixelLibrary sixel = load_sixel_library();
  return sixel;
}

// [height, width, 3]
std::vector<uint8_t> opaque(const Image& image, bool dark) {
  const int background = dark ? 0 : 255;
  const int colours = image.channels >= 3 ? 3 : 1;
  std::vector<uint8_t> pixels;
  pixels.reserve(image.pixels.size() / static_cast<size_t>(image.channels) * 3);
  for (size_t at = 0; at < image.pixels.size(); at += static_cast<size_t>(image.channels)) {
    const uint8_t* pixel = image.pixels.data() + at;
    const int alpha = image.channels % 2 == 0 ? pixel[image.channels - 1] : 255;
    for (int c = 0; c < 3; ++c) {
      const int value = pixel[colours == 3 ? c : 0];
      pixels.push_back(static_cast<uint8_t>((value * alpha + background * (255 - alpha) + 127) / 255));
    }
  }
  return pixels;
}

int append(char* data, int size, void* to) {
  static_cast<std::string*>(to)->append(data, static_cast<size_t>(size));
  return size;
}

}  // namespace

bool has_sixel_library() {
  return sixel_library().there;
}

Result<std::string> sixel_text(const Image& image, bool dark) {
  const SixelLibrary& sixel = sixel_library();
  if (!sixel.there) return fail(ErrorCode::kUnsupported, "libsixel (libsixel1) is not installed");
  constexpr int kColours = 256;
  constexpr int kRgb888 = 3;
  constexpr int kAutomatic = 0;
  constexpr int kBestColours = 1;  // SIXEL_QUALITY_HIGH
  std::vector<uint8_t> pixels = opaque(image, dark);
  std::string text;
  Output* output = nullptr;
  int failed = sixel.output_new(&output, append, &text, nullptr);
  const std::unique_ptr<Output, void (*)(Output*)> output_held(output, sixel.output_unref);
  Dither* dither = nullptr;
  if (failed == 0) failed = sixel.dither_new(&dither, kColours, nullptr);
  const std::unique_ptr<Dither, void (*)(Dither*)> dither_held(dither, sixel.dither_unref);
  if (failed == 0) {
    failed = sixel.dither_initialize(dither, pixels.data(), image.width, image.height, kRgb888, kAutomatic,
                                     kAutomatic, kBestColours);
  }
  if (failed == 0) {
    failed = sixel.encode(pixels.data(), image.width, image.height, kRgb888, dither, output);
  }
  if (failed != 0) return fail(ErrorCode::kInternal, "libsixel: error {:#x}", static_cast<unsigned>(failed));
  return text;
}

}  // namespace saccade::app
