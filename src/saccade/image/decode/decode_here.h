// Decoding on the calling thread: what decode_image does without processes, and what the processes do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "saccade/core/error.h"
#include "saccade/image/decode_need.h"
#include "saccade/image/image_codec.h"

namespace saccade {

struct RawPicture;  // raw.h

struct DecodeHere {
  // Allocator of a buffer for so many bytes of pixels; it returns `nullptr` if there is no room. If set,
  // pixels are written there and the image is returned without them.
  std::function<uint8_t*(size_t)> room = {};
  // True in a process whose purpose is decoding (decoder_process.h). It may crash on an image, and the kernel
  // ends it when its time is over, so no cost has to be estimated beforehand.
  bool in_own_process = false;
  // Asks for memory before it is taken, for the image that `what` describes; an error if there is less. May be
  // called several times for one image, each time with all that it needs. Empty: everything is granted.
  std::function<Status(const DecodeNeed& need, const std::string& what)> claim = {};
  // Reads RAW files (raw.h); nullptr: they are not read.
  Result<RawPicture> (*raw)(std::span<const std::byte>, const DecodeOptions&) = nullptr;
};

// Errors that need no look at the bytes: of options, kUsage; of an empty file, kBadData; of its size, kLimit.
Status check_decode_input(std::span<const std::byte> bytes, const DecodeOptions& options);

// Decodes like decode_image, on this thread; `options.processes` is ignored. `bytes` have passed the check
// above.
Result<DecodedImage> decode_here(std::span<const std::byte> bytes, const DecodeOptions& options,
                                 const DecodeHere& here = {});

// Calls `claim`, if there is one.
Status claim_memory(const DecodeHere& here, const DecodeNeed& need, const std::string& what);

// Puts the pixels where `here` wants them, or leaves them away where `options` asks
// for the size of so many alone.
Status hand_over(Image& image, const DecodeOptions& options, const DecodeHere& here);

// Words by which libraries say that they got no memory.
bool speaks_of_memory(std::string_view text);

}  // namespace saccade
