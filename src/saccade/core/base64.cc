#include "saccade/core/base64.h"

#include <cstdint>

#include <openssl/evp.h>

namespace saccade {

std::string encode_base64(std::string_view bytes) {
  // Block size, in whole groups of three bytes. OpenSSL counts in int, and terminates its output with a zero
  // byte.
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

Result<std::string> decode_base64(std::string_view text) {
  const size_t length = text.size();
  for (int padding = 0; padding < 2 && text.ends_with('='); ++padding) text.remove_suffix(1);
  const bool padded = text.size() < length;
  if (text.size() % 4 == 1 || (padded && length % 4 != 0)) {
    return fail(ErrorCode::kBadData, "base64 of {} characters, which no bytes have", length);
  }
  std::string out;
  out.reserve(text.size() / 4 * 3 + 2);
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    uint32_t digit = 0;
    if (c >= 'A' && c <= 'Z') {
      digit = static_cast<uint32_t>(c - 'A');
    } else if (c >= 'a' && c <= 'z') {
      digit = static_cast<uint32_t>(c - 'a') + 26;
    } else if (c >= '0' && c <= '9') {
      digit = static_cast<uint32_t>(c - '0') + 52;
    } else if (c == '+' || c == '/') {
      digit = c == '+' ? 62 : 63;
    } else {
      return fail(ErrorCode::kBadData, "not base64");
    }
    bits = bits << 6 | digit;
    if (++count % 4 == 1) continue;
    out += static_cast<char>(bits >> (6 - 2 * ((count - 1) % 4)));
  }
  return out;
}

Result<std::string> decode_picture_text(std::string_view text) {
  constexpr std::string_view kBase64 = ";base64,";
  if (text.starts_with("data:")) {
    const size_t comma = text.substr(0, 256).find(kBase64);
    if (comma == std::string_view::npos) {
      return fail(ErrorCode::kBadData, "a data: address that is not \"data:image/...;base64,...\"");
    }
    text.remove_prefix(comma + kBase64.size());
  }
  std::string joined;
  // Two searches for one character each are many times as fast as one for both.
  if (text.find('\n') != std::string_view::npos || text.find('\r') != std::string_view::npos) {
    joined = text;
    std::erase_if(joined, [](char c) { return c == '\r' || c == '\n'; });
    text = joined;
  }
  if (text.empty()) return fail(ErrorCode::kBadData, "an empty image");
  return decode_base64(text);
}

}  // namespace saccade
