// Photographs as the camera's sensor saw them: known by their first bytes, shown by the
// picture that the camera put inside.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "saccade/core/error.h"
#include "saccade/image/decode/decode_here.h"
#include "saccade/image/image.h"

namespace saccade {

// What such pictures have for a format, whoever made the camera.
inline constexpr std::string_view kRawFormat = "raw";

// Whether these are a RAW file's bytes: the signatures of those that have one, and of those that are TIFF
// files (DNG, CR2, NEF, ARW, ...) the tags that no other TIFF has. Looks at 16 directories at most, and
// never beyond the bytes.
bool is_raw(std::span<const std::byte> bytes);

// By the name's ending (case-insensitive).
bool has_raw_extension(const std::filesystem::path& path);
// Whether this build has LibRaw; without it RAW files are no pictures by their names
// (has_image_extension), and fail by their bytes.
bool reads_raw_files();

// What LibRaw makes of a file: a whole JPEG as the camera put it there, or pixels that
// it developed at half their size.
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
