// Pixels of a JPEG, by libjpeg-turbo itself.
//
// libvips passes a file to libjpeg in pieces of 4 KiB. Near the end of a piece, which is most of the time,
// the library uses its slow path for Huffman codes. With the whole file in memory it decodes photographs a
// third faster, and libvips adds no copy between its rows and the image. The pixels are the same (same
// library, same settings; a test compares them).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "saccade/core/error.h"
#include "saccade/image/decode/deadline.h"

namespace saccade {

// Size of what is written.
struct JpegShape {
  int width = 0;
  int height = 0;
  int channels = 0;  // 1 grey, 3 RGB
  // 1, 2, 4 or 8: a pixel stands for that many of the file's each way, so that width and height are the file's,
  // divided and rounded up. libjpeg computes so few from each block's lowest frequencies, and leaves the others
  // out.
  int shrink = 1;
};

// Writes [height, width, channels] to `out`. kBadData, with libjpeg's message, for a broken or truncated
// file, and if it has another shape. kIo if memory runs out; kLimit past the deadline.
Status read_jpeg(std::span<const std::byte> bytes, const JpegShape& shape, const Deadline& deadline,
                 uint8_t* out);

}  // namespace saccade
