// Images in the cells of Parquet files. Internal to the module.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "lab/data/dataset.h"
#include "saccade/core/error.h"

namespace saccade::lab::data {

// Returns the location of an image in a Parquet file: a row, counted from 0, of its image column.
ImageRef parquet_picture(const std::filesystem::path& path, const std::string& column, int64_t row);

// Reads an image's bytes: read_image_bytes of an image with a column. It opens the file, skips the pages
// before the row's, and decodes that one. Errors: kBadData for a corrupt file, a missing row or a null;
// kLimit for an image above max_bytes. Thread-safe. Cost: the file's footer, and of its column the pages'
// headers and one page.
Result<std::string> read_parquet_image(const ImageRef& image, int64_t max_bytes);

}  // namespace saccade::lab::data
