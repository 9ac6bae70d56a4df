#include "saccade/core/uuid.h"

#include <array>
#include <charconv>

#include <fmt/format.h>
#include <openssl/evp.h>

namespace saccade {

std::string name_uuid(std::string_view space, std::string_view name) {
  std::string bytes;
  std::string digits;
  for (const char c : space) {
    if (c != '-') digits += c;
  }
  for (size_t i = 0; i + 1 < digits.size(); i += 2) {
    unsigned char byte = 0;
    std::from_chars(digits.data() + i, digits.data() + i + 2, byte, 16);
    bytes += static_cast<char>(byte);
  }
  bytes += name;
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha1(), nullptr);
  digest[6] = static_cast<unsigned char>((digest[6] & 0x0FU) | 0x50U);
  digest[8] = static_cast<unsigned char>((digest[8] & 0x3FU) | 0x80U);
  std::string uuid;
  for (size_t i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) uuid += '-';
    uuid += fmt::format("{:02x}", digest[i]);
  }
  return uuid;
}

}  // namespace saccade
