// Thumbnails of a dataset's images.
#pragma once

#include "lab/data/dataset.h"
#include "saccade/image/image_codec.h"
#include "saccade/pages/thumbnail.h"

namespace saccade::lab {

// Returns the thumbnail of a dataset's image, which may lie in an archive; see file_thumbnail. Thread-safe.
Thumbnail image_thumbnail(const ImageRef& image, int side, const DecodeOptions& limits);

}  // namespace saccade::lab
