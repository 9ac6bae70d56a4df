// Pixels of a JPEG, by libjpeg-turbo itself.
//
// libvips hands libjpeg a file in pieces of 4 KiB, and near the end of a piece the library takes its careful
// way through the Huffman codes: most of the time. With the whole file before it, it decodes photographs a
// third faster, and nothing of libvips' own stands between its rows and the picture. The pixels are the same
// (the same library, the same settings; a test compares them).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "saccade/core/error.h"
#include "saccade/image/decode/deadline.h"

namespace saccade {

struct JpegShape {
  int width = 0;
  int height = 0;
  int channels = 0;  // 1 grey, 3 RGB
};

// Writes [height, width, channels] to `out`. kBadData, in libjpeg's words, for a broken or truncated file,
// and where it has another shape; kIo where memory runs out; kLimit past the deadline.
Status read_jpeg(std::span<const std::byte> bytes, const JpegShape& shape, const Deadline& deadline,
                 uint8_t* out);

}  // namespace saccade
