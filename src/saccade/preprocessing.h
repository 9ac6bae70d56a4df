// Preprocessing: turns a decoded image into the numbers a model reads, as the checkpoint's file describes.
//
// Resizing is bit-exact in uint8 with Pillow's (src/libImaging/Resample.c): separable, antialiased, 8-bit
// fixed point with 22 bits. Values are clipped to 8 bits between the horizontal and the vertical pass. The
// vertical pass is first if the height shrinks most, as since Pillow 13.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "saccade/image.h"
#include "saccade/result.h"

#pragma GCC visibility push(default)
namespace saccade {

// Interpolation of a resize.
enum class ResizeFilter {
  kNearest,   // Pillow's NEAREST
  kBilinear,  // Pillow's BILINEAR
  kBicubic,   // Pillow's BICUBIC
  kLanczos,   // Pillow's LANCZOS
  // TensorFlow's tf.image.resize(method="bilinear", antialias=False) rather than Pillow's. It reads four
  // pixels however much an image shrinks; float32, truncated to whole levels as big_vision does.
  kBilinearNoAntialias,
};

// Pillow's Image.resize of 8-bit pixels, all channels alike (alpha is not premultiplied here).
// width, height >= 1. Cost: about (in_height * width + width * height) * taps * channels multiply-adds. Thread-safe.
Image resize(const Image& image, int width, int height, ResizeFilter filter);

// Rule that chooses the size of a resized image.
enum class ResizeMode {
  kShortestEdge,  // shorter side to `resize_height`, longer = int(side * long / short); then a centre crop
  kSquash,        // exactly resize_height x resize_width, aspect ratio not kept
  kLongestEdge,   // as large as fits into resize_height x resize_width, rounded to even; then crop or pad
  kNone,          // not resized
};
// Rounding of the offset of a centre crop of size h from H pixels.
enum class CropRounding {
  kFloor,     // offset (H - h) / 2 rounded down: transformers
  kHalfEven,  // offset round((H - h) / 2) with ties to even: torchvision, OpenCLIP
};
// Point at which images become RGB.
enum class RgbOrder {
  kBeforeResize,  // transformers
  kAfterResize,   // OpenAI's and OpenCLIP's code: palette and bilevel images resized by nearest neighbour,
                  // alpha premultiplied around the resize
};
// Handling of transparency.
enum class AlphaPolicy {
  kDrop,       // the colour channels as they are: what reference pipelines do
  kComposite,  // over `background`: what a person sees
};

// The programs that read the same weights (SigLIP's) and treat images and texts differently.
enum class Pipeline {
  kHuggingFace,  // transformers: RGB first, then the filter its file names
  kOpenClip,     // bicubic, RGB afterwards
  kBigVision,    // RGB first, bilinear without antialiasing
};

// Settings of a checkpoint's image preprocessing. A value. Each pixel becomes
// (pixel * rescale_factor + rescale_offset - mean) / std, per channel.
struct Preprocessing {
  ResizeMode resize_mode = ResizeMode::kShortestEdge;  // how the size is chosen
  ResizeFilter filter = ResizeFilter::kBicubic;        // interpolation
  int resize_height = 224;                             // pixels; see ResizeMode
  int resize_width = 224;                              // pixels; see ResizeMode
  bool crop = true;  // centre crop to crop_height x crop_width, padded with `fill` if the image is smaller
  int crop_height = 224;                                // pixels
  int crop_width = 224;                                 // pixels
  CropRounding crop_rounding = CropRounding::kFloor;    // rounding of the crop's offset
  std::array<uint8_t, 3> fill = {0, 0, 0};              // color of padding, RGB
  RgbOrder rgb_order = RgbOrder::kBeforeResize;         // when the image becomes RGB
  AlphaPolicy alpha = AlphaPolicy::kDrop;               // handling of transparency
  std::array<uint8_t, 3> background = {255, 255, 255};  // color below transparent images, RGB
  float rescale_factor = 1.0F / 255.0F;                 // factor on 8-bit values
  float rescale_offset = 0.0F;                          // added after the factor
  std::array<float, 3> mean = {0, 0, 0};                // by channel, RGB
  std::array<float, 3> std = {1, 1, 1};                 // by channel, RGB

  // Pipeline requested by name. It overrides the filter and order in the checkpoint's file, and determines
  // the text's clean-up.
  std::optional<Pipeline> pipeline;

  // Height of the output, in pixels. Only kSquash has one without a crop; preprocessing refuses the other modes.
  [[nodiscard]] int output_height() const { return crop ? crop_height : resize_height; }
  // Width of the output, in pixels.
  [[nodiscard]] int output_width() const { return crop ? crop_width : resize_width; }
  // All fields in one line of words, for `model show` and run.json.
  [[nodiscard]] std::string describe() const;
};

// Returns the shorter side, in pixels, at which vector images are drawn before this preprocessing. It is twice the largest
// requested side, at most 4096, so that vector images get the same antialiased resize as raster images.
int vector_side(const Preprocessing& preprocessing);

// Up to the 8-bit pixels before rescaling: RGB, output_height x output_width. Only what the crop keeps is
// computed. kUsage for an image or sizes that contradict themselves. Thread-safe.
Result<Image> preprocess_pixels(const Image& image, const Preprocessing& preprocessing);
// Everything: out is [3, output_height, output_width], planar; kUsage if it has another size. Thread-safe.
Status preprocess(const Image& image, const Preprocessing& preprocessing, std::span<float> out);

}  // namespace saccade
#pragma GCC visibility pop
