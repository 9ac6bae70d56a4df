// Pictures of texts, by an engine: for sentences that no picture fits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/progress.h"
#include "saccade/imagegen/image_engine.h"
#include "saccade/image/image.h"

namespace saccade {

struct TextPicturesOptions {
  std::filesystem::path folder;  // made if need be; nothing else in it is touched
  uint64_t seed = 1;
  DecodeOptions decode;
  int64_t max_pixels = 64'000'000;  // of an answer
};

struct TextPicture {
  std::filesystem::path file;  // empty: there is none
  int width = 0;
  int height = 0;
  std::string error;  // why there is none
};

// One for each text: a file generated-KEY.png (jpg, webp), the key a hash of text, settings and seed; what is
// there is not asked for again. A failure is one picture's, and the rest goes on, as long as the engine does.
// kIo where a picture cannot be written, kCancelled; what was made stays.
Result<std::vector<TextPicture>> generate_text_pictures(std::span<const std::string> texts,
                                                        PictureEngine& engine,
                                                        const TextPicturesOptions& options,
                                                        const ProgressCallback& progress,
                                                        const std::stop_token& stop);

}  // namespace saccade
