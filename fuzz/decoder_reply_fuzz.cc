// Fuzzer of a decoder's answers: a process that an image has taken over may write any bytes.
#include <algorithm>
#include <cstring>

#include "saccade/image/decode/process/decoder_messages.h"

#include "fuzz.h"

int fuzz_input(const uint8_t* data, size_t size) {
  using namespace saccade;
  // The first byte selects the request.
  if (size == 0) return 0;
  DecodeOptions options;
  options.max_pixels = 10'000;
  options.size_only_above = (data[0] & 1) != 0 ? 100 : 0;
  DecodeReply bytes;
  std::memcpy(&bytes, data + 1, std::min(size - 1, sizeof bytes));
  const auto reply = read_reply(bytes, options);
  if (!reply) {
    const std::string& message = reply.error().message;
    FUZZ_CHECK(!message.empty() && message.size() <= kDecodeMessageBytes + 100);
    for (const char c : message) FUZZ_CHECK(static_cast<unsigned char>(c) >= ' ' && c != '\x7f');
    return 0;
  }
  const Image& image = reply->picture.image;
  FUZZ_CHECK(image.width > 0 && image.height > 0 && image.channels >= 1 && image.channels <= 4);
  FUZZ_CHECK(int64_t{image.width} * image.height <= options.max_pixels);
  const size_t whole = static_cast<size_t>(image.width) * static_cast<size_t>(image.height) *
                       static_cast<size_t>(image.channels);
  const bool size_only =
      options.size_only_above > 0 && int64_t{image.width} * image.height > options.size_only_above;
  FUZZ_CHECK(reply->pixels == (size_only ? 0 : whole));
  FUZZ_CHECK(image.pixels.empty() && !reply->picture.format.empty());
  return 0;
}
