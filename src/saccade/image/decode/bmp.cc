#include "saccade/image/decode/bmp.h"

#include <array>
#include <bit>
#include <cstdlib>

namespace saccade {
namespace {

enum Compression : uint32_t {
  kNone = 0,
  kRle8 = 1,
  kRle4 = 2,
  kBitFields = 3,
  kJpeg = 4,
  kPng = 5,
  kAlphaBitFields = 6
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  [[nodiscard]] size_t size() const { return bytes_.size(); }
  // Zero past the end: headers are checked for length once, before their fields count.
  [[nodiscard]] uint32_t u8(size_t at) const {
    return at < bytes_.size() ? std::to_integer<uint32_t>(bytes_[at]) : 0;
  }
  [[nodiscard]] uint32_t u16(size_t at) const { return u8(at) | u8(at + 1) << 8; }
  [[nodiscard]] uint32_t u32(size_t at) const { return u16(at) | u16(at + 2) << 16; }

 private:
  std::span<const std::byte> bytes_;
};

struct Header {
  int width = 0;
  int height = 0;
  bool top_down = false;
  uint32_t bits = 0;
  uint32_t compression = kNone;
  size_t pixels_at = 0;
  std::array<uint32_t, 4> masks = {0, 0, 0, 0};  // red, green, blue, alpha
  std::vector<std::array<uint8_t, 3>> palette;   // RGB
};

Result<Header> read_header(const Reader& in, int64_t max_pixels) {
  const uint32_t size = in.u32(14);
  const bool old = size == 12;
  if (size != 12 && size != 40 && size != 52 && size != 56 && size != 64 && size != 108 && size != 124) {
    return fail(ErrorCode::kBadData, "BMP: information header of {} bytes, known are 12 to 124", size);
  }
  if (in.size() < 14 + size_t{size}) return fail(ErrorCode::kBadData, "BMP: cut off within its header");
  Header header;
  const int64_t width = old ? int64_t{in.u16(18)} : int64_t{static_cast<int32_t>(in.u32(18))};
  const int64_t height = old ? int64_t{in.u16(20)} : int64_t{static_cast<int32_t>(in.u32(22))};
  header.bits = in.u16(old ? 24 : 28);
  header.compression = old ? uint32_t{kNone} : in.u32(30);
  header.pixels_at = in.u32(10);
  header.top_down = height < 0;
  const int64_t rows = std::abs(height);
  if (width <= 0 || rows == 0) return fail(ErrorCode::kBadData, "BMP: size {} x {}", width, height);
  if (rows > max_pixels / width) {
    return fail(ErrorCode::kLimit, "{} x {} pixels; the limit is {} pixels", width, rows, max_pixels);
  }
  header.width = static_cast<int>(width);
  header.height = static_cast<int>(rows);

  const uint32_t bits = header.bits;
  const uint32_t compression = header.compression;
  if (compression == kJpeg || compression == kPng) {
    return fail(ErrorCode::kUnsupported, "BMP: holds a {} image, not pixels",
                compression == kJpeg ? "JPEG" : "PNG");
  }
  const bool fields = compression == kBitFields || compression == kAlphaBitFields;
  const bool fits = (compression == kNone && (bits == 1 || bits == 2 || bits == 4 || bits == 8 ||
                                              bits == 16 || bits == 24 || bits == 32)) ||
                    (compression == kRle8 && bits == 8) || (compression == kRle4 && bits == 4) ||
                    (fields && (bits == 16 || bits == 32));
  if (!fits) return fail(ErrorCode::kBadData, "BMP: {} bits a pixel with compression {}", bits, compression);

  size_t after_header = 14 + size_t{size};
  if (fields) {
    // Headers of 52 bytes and more hold the masks at the same place where they follow one of 40.
    const bool has_alpha = size >= 56 || compression == kAlphaBitFields;
    for (size_t i = 0; i < (has_alpha ? 4 : 3); ++i) header.masks[i] = in.u32(54 + 4 * i);
    if (size == 40) after_header += compression == kAlphaBitFields ? 16 : 12;
  } else if (bits == 16) {
    header.masks = {0x7c00, 0x3e0, 0x1f, 0};
  } else if (bits == 32) {
    header.masks = {0xff0000, 0xff00, 0xff, 0};
  }
  if (bits <= 8) {
    const uint32_t room = 1U << bits;
    const uint32_t stated = old ? 0 : in.u32(46);
    const size_t entry = old ? 3 : 4;
    header.palette.resize(stated == 0 || stated > room ? room : stated);
    if (in.size() < after_header + entry * header.palette.size()) {
      return fail(ErrorCode::kBadData, "BMP: cut off within its palette");
    }
    for (size_t i = 0; i < header.palette.size(); ++i) {
      const size_t at = after_header + entry * i;
      header.palette[i] = {static_cast<uint8_t>(in.u8(at + 2)), static_cast<uint8_t>(in.u8(at + 1)),
                           static_cast<uint8_t>(in.u8(at))};
    }
  }
  if (header.pixels_at < 14 + size_t{size} || header.pixels_at > in.size()) {
    return fail(ErrorCode::kBadData, "BMP: pixels at byte {} of {}", header.pixels_at, in.size());
  }
  return header;
}

// Palette indices of a run-length coded picture, rows as stored. Pixels that the code skips stay 0.
Result<std::vector<uint8_t>> read_rle(const Reader& in, const Header& header, const Deadline& deadline) {
  const auto width = static_cast<size_t>(header.width);
  const auto height = static_cast<size_t>(header.height);
  std::vector<uint8_t> indices(width * height);
  size_t x = 0;
  size_t y = 0;
  const bool nibbles = header.compression == kRle4;
  const auto put = [&](uint32_t index) {
    if (x < width && y < height) indices[y * width + x] = static_cast<uint8_t>(index);
    ++x;
  };
  const auto nibble = [](uint32_t byte, size_t i) { return i % 2 == 0 ? byte >> 4 : byte & 15U; };
  for (size_t at = header.pixels_at; at + 1 < in.size();) {
    const uint32_t count = in.u8(at);
    const uint32_t value = in.u8(at + 1);
    at += 2;
    if (count > 0) {
      for (size_t i = 0; i < count; ++i) put(nibbles ? nibble(value, i) : value);
    } else if (value == 0) {  // end of row
      SACCADE_TRY(deadline.check());
      x = 0;
      ++y;
    } else if (value == 1) {  // end of picture
      return indices;
    } else if (value == 2) {  // move right and on
      x += in.u8(at);
      y += in.u8(at + 1);
      at += 2;
    } else {  // `value` pixels as they are, padded to 2 bytes
      const size_t bytes = nibbles ? (value + 1) / 2 : value;
      if (at + bytes > in.size()) break;
      for (size_t i = 0; i < value; ++i) put(nibbles ? nibble(in.u8(at + i / 2), i) : in.u8(at + i));
      at += (bytes + 1) / 2 * 2;
    }
    if (y >= height && !(y == height && x == 0)) {
      return fail(ErrorCode::kBadData, "BMP: run-length code past the last of {} rows", height);
    }
  }
  if (y >= height || (y + 1 == height && x >= width)) return indices;  // the end marker alone is missing
  return fail(ErrorCode::kBadData, "BMP: run-length code ends in row {} of {}", y, height);
}

// A mask's field of `value`, widened to 8 bits.
struct Field {
  uint32_t mask = 0;
  int shift = 0;
  uint64_t most = 0;

  explicit Field(uint32_t field_mask) : mask(field_mask) {
    if (mask == 0) return;
    shift = std::countr_zero(mask);
    most = mask >> shift;
  }
  [[nodiscard]] uint8_t of(uint32_t value) const {
    return most == 0 ? uint8_t{0} : static_cast<uint8_t>(uint64_t{(value & mask) >> shift} * 255 / most);
  }
};

Status read_true_colour(const Reader& in, const Header& header, const Deadline& deadline, Image& image) {
  const size_t pixel_bytes = header.bits / 8;
  const size_t stride = (static_cast<size_t>(header.width) * pixel_bytes + 3) / 4 * 4;
  const size_t last =
      stride * static_cast<size_t>(header.height - 1) + static_cast<size_t>(header.width) * pixel_bytes;
  if (in.size() - header.pixels_at < last) {
    return fail(ErrorCode::kBadData, "BMP: {} bytes of pixels, {} needed", in.size() - header.pixels_at,
                last);
  }
  const Field red(header.masks[0]);
  const Field green(header.masks[1]);
  const Field blue(header.masks[2]);
  const Field alpha(header.masks[3]);
  image.channels = header.masks[3] != 0 ? 4 : 3;
  image.mode = image.channels == 4 ? PixelMode::kRgba : PixelMode::kRgb;
  image.pixels.resize(static_cast<size_t>(header.width) * static_cast<size_t>(header.height) *
                      static_cast<size_t>(image.channels));
  uint8_t* out = image.pixels.data();
  for (int y = 0; y < header.height; ++y) {
    const int stored = header.top_down ? y : header.height - 1 - y;
    size_t at = header.pixels_at + static_cast<size_t>(stored) * stride;
    SACCADE_TRY(deadline.check());
    for (int x = 0; x < header.width; ++x, at += pixel_bytes) {
      if (pixel_bytes == 3) {
        *out++ = static_cast<uint8_t>(in.u8(at + 2));
        *out++ = static_cast<uint8_t>(in.u8(at + 1));
        *out++ = static_cast<uint8_t>(in.u8(at));
        continue;
      }
      const uint32_t value = pixel_bytes == 2 ? in.u16(at) : in.u32(at);
      *out++ = red.of(value);
      *out++ = green.of(value);
      *out++ = blue.of(value);
      if (image.channels == 4) *out++ = alpha.of(value);
    }
  }
  return {};
}

Status read_palette_picture(const Reader& in, const Header& header, const Deadline& deadline, Image& image) {
  const auto width = static_cast<size_t>(header.width);
  const auto height = static_cast<size_t>(header.height);
  const size_t stride = (width * header.bits + 31) / 32 * 4;
  const bool runs = header.compression == kRle8 || header.compression == kRle4;
  std::vector<uint8_t> indices;
  if (runs) {
    // 255 pixels from 2 bytes is the best that run-length coding does; skips aside, a header that promises
    // much more is no picture, and gets no memory. A skip of 255 rows takes 4 bytes.
    if (width * height / 65536 > in.size()) {
      return fail(ErrorCode::kBadData, "BMP: {} x {} pixels from {} bytes", width, height, in.size());
    }
    SACCADE_ASSIGN(indices, read_rle(in, header, deadline));
  } else if (in.size() - header.pixels_at < stride * (height - 1) + (width * header.bits + 7) / 8) {
    return fail(ErrorCode::kBadData, "BMP: {} bytes of pixels, {} needed", in.size() - header.pixels_at,
                stride * height);
  }
  image.mode = PixelMode::kPalette;
  image.channels = 3;
  const std::array<uint8_t, 3> black = {0, 0, 0};
  const std::array<uint8_t, 3> white = {255, 255, 255};
  if (header.bits == 1 && header.palette.size() == 2 && header.palette[0] == black &&
      header.palette[1] == white) {
    image.mode = PixelMode::kBilevel;
    image.channels = 1;
  }
  const auto channels = static_cast<size_t>(image.channels);
  image.pixels.resize(width * height * channels);
  uint8_t* out = image.pixels.data();
  for (size_t y = 0; y < height; ++y) {
    const size_t stored = header.top_down ? y : height - 1 - y;
    SACCADE_TRY(deadline.check());
    for (size_t x = 0; x < width; ++x) {
      uint32_t index = 0;
      if (runs) {
        index = indices[stored * width + x];
      } else {
        const size_t bit = x * header.bits;
        index = in.u8(header.pixels_at + stored * stride + bit / 8) >> (8 - header.bits - bit % 8);
        index &= (1U << header.bits) - 1;
      }
      // Indices past a short palette are black, as in Pillow.
      const std::array<uint8_t, 3>& colour = index < header.palette.size() ? header.palette[index] : black;
      for (size_t c = 0; c < channels; ++c) *out++ = colour[c];
    }
  }
  return {};
}

}  // namespace

bool is_bmp(std::span<const std::byte> bytes) {
  // The header's size tells pictures from the texts that also begin with "BM".
  if (bytes.size() < 26 || bytes[0] != std::byte{'B'} || bytes[1] != std::byte{'M'}) return false;
  const uint32_t size = Reader(bytes).u32(14);
  return size >= 12 && size <= 124;
}

Result<BmpSize> bmp_size(std::span<const std::byte> bytes, int64_t max_pixels) {
  SACCADE_ASSIGN(const Header header, read_header(Reader(bytes), max_pixels));
  return BmpSize{header.width, header.height};
}

Result<Image> decode_bmp(std::span<const std::byte> bytes, int64_t max_pixels, const Deadline& deadline) {
  const Reader in(bytes);
  SACCADE_ASSIGN(const Header header, read_header(in, max_pixels));
  Image image;
  image.width = header.width;
  image.height = header.height;
  SACCADE_TRY(header.bits <= 8 ? read_palette_picture(in, header, deadline, image)
                               : read_true_colour(in, header, deadline, image));
  return image;
}

}  // namespace saccade
