#include "lab/report/image_thumbnail.h"

#include <string>

#include "lab/data/read_dataset.h"

namespace saccade::lab {

Thumbnail image_thumbnail(const ImageRef& image, int side, const DecodeOptions& limits) {
  if (!image.in_archive()) return file_thumbnail(image.path, side, limits);
  const Result<std::string> bytes = read_image_bytes(image, limits.max_bytes);
  return bytes ? bytes_thumbnail(*bytes, side, limits) : problem_thumbnail(bytes.error());
}

}  // namespace saccade::lab
