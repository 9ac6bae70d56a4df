#include "saccade/image/icc_profile.h"

#include <algorithm>
#include <optional>
#include <string_view>

namespace saccade {
namespace {

constexpr size_t kHeaderBytes = 128;  // then the number of tags, then 12 bytes for each
constexpr size_t kTagBytes = 12;
constexpr size_t kMostTags = 1000;
constexpr size_t kMostDescription = 256;

std::optional<size_t> number_at(std::span<const std::byte> bytes, size_t at) {
  if (bytes.size() < 4 || at > bytes.size() - 4) return std::nullopt;
  size_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | std::to_integer<size_t>(bytes[at + i]);
  return value;
}

constexpr size_t signature(std::string_view name) {
  size_t value = 0;
  for (const char c : name) value = value << 8 | static_cast<unsigned char>(c);
  return value;
}

}  // namespace

std::string profile_description(std::span<const std::byte> profile) {
  const size_t tags = std::min(number_at(profile, kHeaderBytes).value_or(0), kMostTags);
  for (size_t i = 0; i < tags; ++i) {
    const size_t entry = kHeaderBytes + 4 + i * kTagBytes;
    if (number_at(profile, entry) != signature("desc")) continue;
    const size_t offset = number_at(profile, entry + 4).value_or(profile.size());
    const size_t size = number_at(profile, entry + 8).value_or(0);
    if (offset > profile.size() || size > profile.size() - offset) return {};
    const std::span<const std::byte> tag = profile.subspan(offset, size);
    // "desc" of version 2: a length, then ASCII. "mluc" of version 4: UTF-16 of the first language.
    size_t begin = 12;
    size_t length = number_at(tag, 8).value_or(0);
    if (number_at(tag, 0) == signature("mluc")) {
      length = number_at(tag, 20).value_or(0);
      begin = number_at(tag, 24).value_or(tag.size());
    } else if (number_at(tag, 0) != signature("desc")) {
      return {};
    }
    if (begin > tag.size()) return {};
    std::string text;
    for (const std::byte byte :
         tag.subspan(begin, std::min({length, tag.size() - begin, kMostDescription}))) {
      const auto c = std::to_integer<unsigned char>(byte);
      if (c >= ' ' && c < 0x7f) text.push_back(static_cast<char>(c));
    }
    return text;
  }
  return {};
}

bool is_srgb_profile(std::span<const std::byte> profile) {
  return profile_description(profile).starts_with("sRGB");
}

}  // namespace saccade
