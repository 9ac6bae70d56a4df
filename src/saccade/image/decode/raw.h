// Photographs as the camera's sensor saw them: known by their first bytes, shown by the
// picture that the camera put inside.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "saccade/core/error.h"
#include "saccade/image/decode/decode_here.h"
#include "saccade/image/image_codec.h"

namespace saccade {

// Format name of such images, for all makes of camera.
inline constexpr std::string_view kRawFormat = "raw";

// Returns true for the bytes of a RAW file. Formats with a signature are recognized by it. TIFF-based formats
// (DNG, CR2, NEF, ARW, ...) are recognized by tags that no other TIFF has. Reads at most 16 directories, and
// never beyond the bytes.
bool is_raw(std::span<const std::byte> bytes);

// Returns true for a RAW file's extension (case-insensitive).
bool has_raw_extension(const std::filesystem::path& path);
// Returns true if this build has LibRaw. Without it RAW files are not recognized as images by their names
// (has_image_extension), and decoding their bytes fails.
bool reads_raw_files();

// Result of LibRaw: the camera's embedded JPEG as a whole, or pixels developed at half their size.
struct RawPicture {
  std::string jpeg;
  Image image;    // where jpeg is empty; turned as asked
  int width = 0;  // of the sensor's picture, turned as asked
  int height = 0;
};

// Reads one, in the process that decodes (raw_libraw.cc). Throws nothing. Errors as decode_image.
Result<RawPicture> read_raw(std::span<const std::byte> bytes, const DecodeOptions& options);

// decode_here() for a file that is_raw(): kIo outside a process for it, kUnsupported where the build cannot.
Result<DecodedImage> decode_raw(std::span<const std::byte> bytes, const DecodeOptions& options,
                                const DecodeHere& here);

}  // namespace saccade
