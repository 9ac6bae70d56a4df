#include "saccade/core/base64.h"

#include <openssl/evp.h>

namespace saccade {

std::string encode_base64(std::string_view bytes) {
  // Whole groups of three bytes at a time: OpenSSL counts in int, and ends what it writes with a zero.
  constexpr size_t kBlock = size_t{3} << 20;
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');
  size_t size = 0;
  for (size_t begin = 0; begin < bytes.size(); begin += kBlock) {
    const std::string_view block = bytes.substr(begin, kBlock);
    size += static_cast<size_t>(::EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()) + size,
                                                  reinterpret_cast<const unsigned char*>(block.data()),
                                                  static_cast<int>(block.size())));
  }
  text.resize(size);
  return text;
}

}  // namespace saccade
