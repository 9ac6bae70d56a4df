// Reading datasets in any of the published layouts, and the images that they name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lab/data/dataset.h"
#include "saccade/core/error.h"

namespace saccade::lab {

// Parses "PATH" or "PATH#key=value,key=value". Keys are split, format, images, missing (keep or skip) and
// ROLE-column for the roles of DatasetOptions::columns; they override `defaults`. If a path exists exactly as
// written, # and all, it is used as it is. Returns kUsage for an unknown key or value.
Result<DatasetSource> parse_dataset_source(std::string_view text, const DatasetOptions& defaults = {});

// Reads a dataset's records without opening its images. Errors: kNotFound; kUsage for a missing split, naming
// those that exist; kUnsupported if no layout fits; kBadData with the line or number of the record, and for a
// repeated id or an empty dataset. Cost: linear in the size of the records; only headers and text members of
// archives are read.
Result<Dataset> read_dataset(const DatasetSource& source);

// Reads an image's bytes from its file, an archive or a Parquet file. Errors: kLimit above max_bytes;
// kBadData if an archive ends before its member does, or for a damaged Parquet file; kUnsupported for one in a
// codec or encoding that is not read. Thread-safe. Cost for a Parquet file: its footer is parsed and a page decoded, for each image.
Result<std::string> read_image_bytes(const ImageRef& image, int64_t max_bytes = int64_t{256} << 20);

}  // namespace saccade::lab
