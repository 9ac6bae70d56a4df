// Memory that decoding an image takes, estimated from its header before any of it is taken.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace saccade {

struct DecodeNeed {
  int64_t working = 0;  // bytes of the decoder's own memory
  int64_t output = 0;   // bytes of the pixels that it hands over
};

// Facts from a file's header on which the memory depends.
struct DecodeHeader {
  std::string_view format;  // as DecodedImage::format
  int64_t width = 0;
  int64_t height = 0;
  int bands = 0;
  int sample_bytes = 1;  // 2 for 16 bits a sample
  // True if the decoder holds the whole image before its first row: interlaced PNG, progressive JPEG.
  bool interlaced = false;
};

// Returns bytes of working memory, the pixels that are handed over left out. It is rather too large than too
// small; a decoder that needs more gets a second try (DecoderPool::decode).
int64_t working_bytes(const DecodeHeader& header);

// Returns "14000 x 14000 pixels, 4 bands of 16 bits, interlaced".
std::string describe(const DecodeHeader& header);

// Returns bytes: a quarter of the machine's memory, or of the limit of the control group this runs in.
int64_t default_decode_memory();

}  // namespace saccade
