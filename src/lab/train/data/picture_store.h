// Training images, decoded once and kept small. An epoch reads them instead of files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "lab/data/dataset.h"
#include "saccade/core/error.h"
#include "saccade/core/files/files.h"
#include "saccade/core/threads.h"
#include "saccade/image/image_codec.h"
#include "saccade/progress.h"

namespace saccade::lab {

// One image: side x side pixels of premultiplied RGBA, rows top to bottom.
struct StoredPicture {
  const uint8_t* pixels = nullptr;
  int side = 0;
  bool transparent = false;  // any pixel with alpha below 255
  bool one_colour =
      false;  // transparent, and every visible pixel of about the same colour: may be recoloured
};

// Immutable; safe to read from many threads.
class PictureStore {
 public:
  // Decodes every item's image to side x side (aspect ratio not kept, Pillow's bicubic over premultiplied
  // alpha). If keep() has left a file in the `cache` folder for the same images, by their names, sizes and
  // times, it is mapped instead. Writes nothing. An image that cannot be decoded is left out and reported.
  // `processes` is as in DecodeOptions. Memory: 4 * side^2 bytes per image, mapped if they come from the
  // cache.
  static Result<PictureStore> build(std::span<const DatasetItem> items, int side,
                                    const std::filesystem::path& cache, DecoderPool* processes,
                                    ThreadPool& pool, const ProgressCallback& progress, std::stop_token stop);

  // Writes the decoded images into build()'s cache folder, as one file. Does nothing if they came from there,
  // or if no folder was given.
  Status keep() const;

  [[nodiscard]] int side() const { return side_; }
  // Returns the SHA-256 over the images of items `begin` to `end` - 1, as they are trained on: pixels, and
  // which are present. Cost: reads them once, at about a gigabyte per second.
  [[nodiscard]] std::string sha256(int64_t begin, int64_t end) const;
  // Returns true if item i is present; its image.
  [[nodiscard]] bool has(int64_t i) const { return flags()[static_cast<size_t>(i)] != 0; }
  [[nodiscard]] StoredPicture picture(int64_t i) const;
  // "path: reason" for items left out; images that were missing in a cache have that as the reason.
  [[nodiscard]] const std::vector<std::string>& failures() const { return failures_; }

 private:
  [[nodiscard]] size_t picture_bytes() const {
    return static_cast<size_t>(side_) * static_cast<size_t>(side_) * 4;
  }
  [[nodiscard]] std::span<const uint8_t> bytes() const;
  [[nodiscard]] std::span<const uint8_t> flags() const { return bytes().subspan(pixel_bytes_); }

  int side_ = 0;
  size_t pixel_bytes_ = 0;
  std::filesystem::path file_to_keep_;  // empty if there is no file to write
  std::vector<uint8_t> memory_;         // pixels of all items, then one flag byte an item
  MappedFile file_;                     // or the same, mapped
  std::vector<std::string> failures_;
};

}  // namespace saccade::lab
