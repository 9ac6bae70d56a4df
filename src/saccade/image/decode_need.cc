#include "saccade/image/decode_need.h"

#include <algorithm>
#include <fstream>
#include <unistd.h>

#include <fmt/format.h>

namespace saccade {
namespace {

constexpr int64_t kTables = int64_t{16} << 20;  // decoders' tables, and libraries that are loaded on demand
constexpr int64_t kFonts = int64_t{64} << 20;   // for texts in drawings
constexpr int64_t kLines = 256;                 // held by libvips at the stages of its pipeline

// Bytes for each pixel of the image that the decoder holds as a whole.
int64_t bytes_a_pixel(const DecodeHeader& header) {
  const int64_t pixel = int64_t{header.bands} * header.sample_bytes;
  if (header.format == "png") return header.interlaced ? pixel : 0;
  // Coefficients of 16 bits for every sample.
  if (header.format == "jpeg") return header.interlaced ? int64_t{2} * header.bands : 0;
  // A strip or a tile may be the whole image, compressed in a way that needs a second copy.
  if (header.format == "tiff") return 2 * pixel;
  // Canvas, the frame drawn on it, the frame before, libvips' copy and the file's own planes.
  if (header.format == "webp" || header.format == "gif") return 24;
  // Planes, reference frames of the video codec, and the interleaved copy.
  if (header.format == "heif" || header.format == "avif") return int64_t{16} * header.sample_bytes;
  // Surfaces of 4 bytes a pixel; filters and groups take some each.
  if (header.format == "svg") return 32;
  return pixel;
}

}  // namespace

int64_t working_bytes(const DecodeHeader& header) {
  const int64_t line = header.width * header.bands * header.sample_bytes;
  return kTables + (header.format == "svg" ? kFonts : 0) + kLines * line +
         header.width * header.height * bytes_a_pixel(header);
}

std::string describe(const DecodeHeader& header) {
  return fmt::format("{} x {} pixels, {} {} of {} bits{}", header.width, header.height, header.bands,
                     header.bands == 1 ? "band" : "bands", 8 * header.sample_bytes,
                     header.interlaced ? ", interlaced" : "");
}

int64_t default_decode_memory() {
  int64_t bytes = static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
  std::ifstream group("/sys/fs/cgroup/memory.max");  // of a container; "max" is no number
  if (int64_t limit = 0; group >> limit) bytes = std::min(bytes, limit);
  return bytes / 4;
}

}  // namespace saccade
