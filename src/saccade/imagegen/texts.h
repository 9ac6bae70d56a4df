// Generation of images for texts, for sentences without a matching image.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/image/image_codec.h"
#include "saccade/imagegen/image_engine.h"
#include "saccade/progress.h"

namespace saccade {

struct TextPicturesOptions {
  std::filesystem::path folder;  // made if need be; nothing else in it is touched
  uint64_t seed = 1;
  DecodeOptions decode;
  int64_t max_pixels = 64'000'000;  // limit of a generated image
};

struct TextPicture {
  std::filesystem::path file;  // empty: there is none
  int width = 0;
  int height = 0;
  std::string error;  // why there is none
};

// Generates one image per text as a file generated-KEY.png (jpg, webp); the key is a hash of text, settings
// and seed. Existing files are not generated again. A failure affects only one image; the others continue as
// long as the engine works. Returns kIo if an image cannot be written, and kCancelled; finished images are
// kept.
Result<std::vector<TextPicture>> generate_text_pictures(std::span<const std::string> texts,
                                                        PictureEngine& engine,
                                                        const TextPicturesOptions& options,
                                                        const ProgressCallback& progress,
                                                        const std::stop_token& stop);

}  // namespace saccade
