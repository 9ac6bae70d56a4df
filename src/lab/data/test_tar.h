// Small tar archives for tests.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace saccade::lab {

// Returns a header of 512 bytes with its checksum.
inline std::string tar_header(std::string_view name, int64_t size, char type = '0') {
  std::string header(512, '\0');
  const auto put = [&](size_t at, std::string_view text) { header.replace(at, text.size(), text); };
  put(0, name.substr(0, 100));
  put(100, "0000644");
  put(124, fmt::format("{:011o}", size));
  put(136, "00000000000");
  put(148, "        ");
  header[156] = type;
  put(257, std::string_view("ustar\00000", 8));
  int64_t sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  put(148, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
  return header;
}

inline std::string tar_member(std::string_view name, std::string_view content, char type = '0') {
  std::string member = tar_header(name, static_cast<int64_t>(content.size()), type);
  member += content;
  member.resize((member.size() + 511) / 512 * 512, '\0');
  return member;
}

inline std::string tar_end() {
  return std::string(1024, '\0');
}

}  // namespace saccade::lab
