// Windows bitmaps: libvips reads them through ImageMagick only, which is not built for files from anywhere.
//
//   offset  size  what (little-endian)
//   0       2     "BM"
//   10      4     where the pixels begin
//   14      4     size of the information header that starts here: 12 (OS/2) or 40, 52, 56, 64, 108, 124
//   18      4     width            (12-byte header: 2 bytes each, no compression field, palette of 3 bytes)
//   22      4     height, negative for rows from top to bottom
//   28      2     bits a pixel: 1, 2, 4, 8, 16, 24, 32
//   30      4     compression: 0 none, 1 RLE8, 2 RLE4, 3 bit fields, 6 bit fields with alpha
//   46      4     palette entries, 0 for as many as the bits allow
//   54      12-16 masks of red, green, blue (and alpha), where bit fields are used; then the palette, BGRX
// Rows are padded to 4 bytes. 5- and 6-bit channels widen as Pillow widens them: value * 255 / maximum.
#pragma once

#include <cstddef>
#include <span>

#include "saccade/core/error.h"
#include "saccade/image/decode/deadline.h"
#include "saccade/image/image_codec.h"

namespace saccade {

bool is_bmp(std::span<const std::byte> bytes);

struct BmpSize {
  int width = 0;
  int height = 0;
};

// Reads the size from the header alone; errors as below.
Result<BmpSize> bmp_size(std::span<const std::byte> bytes, int64_t max_pixels);

// Errors: kBadData (truncated or contradictory), kLimit (more than max_pixels, or past the deadline),
// kUnsupported (JPEG or PNG inside). The deadline is checked after each row.
Result<Image> decode_bmp(std::span<const std::byte> bytes, int64_t max_pixels, const Deadline& deadline);

}  // namespace saccade
