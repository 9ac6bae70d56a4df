// Training pictures, decoded once and kept small: what an epoch reads instead of files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/files/files.h"
#include "saccade/progress.h"
#include "saccade/core/threads.h"
#include "lab/data/dataset.h"
#include "saccade/image/image.h"

namespace saccade::lab {

// One picture: side x side pixels of premultiplied RGBA, rows top to bottom.
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
  // alpha), or maps the file that keep() has left in the `cache` folder for the same images, by their names,
  // sizes and times. Writes nothing. An image that cannot be decoded is left out and reported. `processes`
  // decode, as in DecodeOptions. Memory: 4 * side^2 bytes an image, mapped where they come from the cache.
  static Result<PictureStore> build(std::span<const DatasetItem> items, int side,
                                    const std::filesystem::path& cache, DecoderPool* processes,
                                    ThreadPool& pool, const ProgressCallback& progress, std::stop_token stop);

  // Writes what was decoded into build()'s cache folder, one file; nothing where it came from there, or where
  // no folder was given.
  Status keep() const;

  [[nodiscard]] int side() const { return side_; }
  // SHA-256 over the pictures of items `begin` to `end` - 1, as they are trained on: pixels, and which are
  // there. Cost: reads them once, at a gigabyte a second or so.
  [[nodiscard]] std::string sha256(int64_t begin, int64_t end) const;
  // Whether item i is there, and its picture.
  [[nodiscard]] bool has(int64_t i) const { return flags()[static_cast<size_t>(i)] != 0; }
  [[nodiscard]] StoredPicture picture(int64_t i) const;
  // "path: reason" for items left out; what a cache left out has that for a reason.
  [[nodiscard]] const std::vector<std::string>& failures() const { return failures_; }

 private:
  [[nodiscard]] size_t picture_bytes() const {
    return static_cast<size_t>(side_) * static_cast<size_t>(side_) * 4;
  }
  [[nodiscard]] std::span<const uint8_t> bytes() const;
  [[nodiscard]] std::span<const uint8_t> flags() const { return bytes().subspan(pixel_bytes_); }

  int side_ = 0;
  size_t pixel_bytes_ = 0;
  std::filesystem::path file_to_keep_;  // empty: nothing to write
  std::vector<uint8_t> memory_;         // pixels of all items, then one flag byte an item
  MappedFile file_;                     // or the same, mapped
  std::vector<std::string> failures_;
};

}  // namespace saccade::lab
