// Test files that are small but cost an unprotected decoder gigabytes or minutes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <zlib.h>

#include "saccade/core/base64.h"

namespace saccade::test {

inline std::string little_endian(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i, value >>= 8) text.push_back(static_cast<char>(value));
  return text;
}

inline std::string big_endian(uint64_t value, int bytes) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) text.push_back(static_cast<char>(value >> (8 * i)));
  return text;
}

// One stream of zlib's; window_bits as deflateInit2 takes them (31: a gzip file, 15: as inside a PNG).
inline std::string deflated(std::string_view text, int window_bits) {
  z_stream stream = {};
  if (::deflateInit2(&stream, 9, Z_DEFLATED, window_bits, 9, Z_DEFAULT_STRATEGY) != Z_OK) return {};
  std::string out(::deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  (void)::deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  ::deflateEnd(&stream);
  return out;
}

inline std::string gzip(std::string_view text) {
  return deflated(text, 31);
}

// Returns a gzip file of `head`, then `mebibytes` copies of a mebibyte of spaces, then `tail`. The compressed
// bytes of the copies are identical, so gigabytes take no time to write.
inline std::string gzip_bomb(std::string_view head, int mebibytes, std::string_view tail) {
  const std::string spaces(size_t{1} << 20, ' ');
  // A piece of a raw stream that ends at a byte, knows nothing of what is
  // before, and may be followed by more.
  const auto piece = [](std::string_view text, int flush) {
    z_stream stream = {};
    (void)::deflateInit2(&stream, 9, Z_DEFLATED, -15, 9, Z_DEFAULT_STRATEGY);
    std::string out(::deflateBound(&stream, text.size()) + 64, '\0');
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    stream.avail_in = static_cast<uInt>(text.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    (void)::deflate(&stream, flush);
    out.resize(stream.total_out);
    ::deflateEnd(&stream);
    return out;
  };
  const auto checksum = [](std::string_view text) {
    return ::crc32(0, reinterpret_cast<const Bytef*>(text.data()), static_cast<uInt>(text.size()));
  };
  std::string file("\x1f\x8b\x08\0\0\0\0\0\0\x03", 10);
  file += piece(head, Z_FULL_FLUSH);
  uLong sum = checksum(head);
  const std::string middle = piece(spaces, Z_FULL_FLUSH);
  const uLong middle_sum = checksum(spaces);
  for (int i = 0; i < mebibytes; ++i) {
    file += middle;
    sum = ::crc32_combine(sum, middle_sum, static_cast<z_off_t>(spaces.size()));
  }
  file += piece(tail, Z_FINISH);
  sum = ::crc32_combine(sum, checksum(tail), static_cast<z_off_t>(tail.size()));
  const uint64_t length = head.size() + spaces.size() * static_cast<uint64_t>(mebibytes) + tail.size();
  return file + little_endian(sum, 4) + little_endian(length, 4);
}

// A white PNG of 1 bit a pixel: 1000 pixels and more a byte.
inline std::string flat_png(uint32_t width, uint32_t height) {
  const auto chunk = [](std::string_view kind, const std::string& data) {
    const std::string body = std::string(kind) + data;
    const uLong sum = ::crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
    return big_endian(data.size(), 4) + body + big_endian(sum, 4);
  };
  const size_t row = 1 + (size_t{width} + 7) / 8;
  std::string rows(row * height, '\xff');
  for (size_t y = 0; y < height; ++y) rows[y * row] = '\0';
  return std::string("\x89PNG\r\n\x1a\n") +
         chunk("IHDR", big_endian(width, 4) + big_endian(height, 4) + std::string("\x01\0\0\0\0", 5)) +
         chunk("IDAT", deflated(rows, 15)) + chunk("IEND", "");
}

inline std::string svg(std::string_view content, std::string_view attributes = "width='64' height='64'") {
  return "<svg xmlns='http://www.w3.org/2000/svg' xmlns:xlink='http://www.w3.org/1999/xlink' " +
         std::string(attributes) + ">" + std::string(content) + "</svg>";
}

inline std::string svg_with_picture(std::string_view kind, std::string_view picture) {
  return svg("<image width='64' height='64' xlink:href='data:" + std::string(kind) + ";base64," +
             encode_base64(picture) + "'/>");
}

// An entity of 100 kB that is named 20,000 times: 2 GB of text.
inline std::string svg_with_repeated_entity() {
  std::string uses;
  for (int i = 0; i < 20'000; ++i) uses += "&x;";
  return "<!DOCTYPE svg [<!ENTITY x '" + std::string(100'000, 'a') + "'>]>" +
         svg("<text>" + uses + "</text>");
}

// Groups of two copies of the group before, each transparent as a whole: 2^depth
// drawings on canvases of their own.
inline std::string svg_of_nested_groups(int depth) {
  std::string groups = "<defs><g id='g0'><rect width='64' height='64'/></g>";
  for (int i = 1; i <= depth; ++i) {
    const std::string before = "<use href='#g" + std::to_string(i - 1) + "' xlink:href='#g" +
                               std::to_string(i - 1) + "' opacity='0.9'/>";
    groups += "<g id='g" + std::to_string(i) + "' opacity='0.9'>" + before + before + "</g>";
  }
  return svg(groups + "</defs><use href='#g" + std::to_string(depth) + "' xlink:href='#g" +
             std::to_string(depth) + "'/>");
}

// Noise in layers, at every pixel: cost grows with the pixels and with `layers`.
inline std::string svg_of_noise(int layers) {
  std::string filter;
  for (int i = 0; i < layers; ++i) filter += "<feTurbulence baseFrequency='0.3' numOctaves='60'/>";
  return svg("<filter id='f'>" + filter + "</filter><rect width='64' height='64' filter='url(#f)'/>");
}

// Run-length coded, 200,000,000 x 1 pixels in some 3 KB: most are skipped.
inline std::string wide_bmp() {
  std::string codes;
  while (codes.size() < 2200) codes += std::string("\0\x02\xff\0", 4);  // 255 to the right
  codes += std::string("\0\x01", 2);
  const std::string palette(1024, '\x40');
  const uint64_t offset = 54 + palette.size();
  // In the last row, so that the picture counts as whole.
  return "BM" + little_endian(offset + codes.size(), 4) + little_endian(0, 4) + little_endian(offset, 4) +
         little_endian(40, 4) + little_endian(200'000'000, 4) + little_endian(1, 4) + little_endian(1, 2) +
         little_endian(8, 2) + little_endian(1, 4) + little_endian(codes.size(), 4) + little_endian(0, 16) +
         palette + codes;
}

// `jpeg` (progressive) with so many more scans of nothing before its end: each a walk over all blocks.
inline std::string with_empty_scans(std::string jpeg, int scans) {
  const size_t end = jpeg.rfind("\xff\xd9");
  std::string more;
  for (int i = 0; i < scans; ++i) more += std::string("\xff\xda\0\x08\x01\x01\0\x01\x3f\0", 10);
  return jpeg.insert(end, more);
}

}  // namespace saccade::test
