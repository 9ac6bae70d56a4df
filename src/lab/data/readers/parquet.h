// Hugging Face's Parquet datasets: shards of rows, pictures in a column of their bytes or named by path.
// Internal to the module. What needs Arrow is in parquet.cc, parquet_columns.cc and parquet_file.cc; a build
// without it has parquet_absent.cc in their place.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"
#include "lab/data/dataset.h"
#include "lab/data/readers/reader.h"

namespace saccade::lab::data {

struct ParquetShard {
  std::filesystem::path path;
  std::string name;    // for messages: relative to the dataset's folder, "data/train-00000-of-00002.parquet"
  std::string prefix;  // of its rows' ids: "train-00000-of-00002/"
  std::string split;   // told from its name or its folder; may be empty
};

// The shards of a .parquet file or of a folder as hubs hold it, in the order of their names. Errors: kUsage,
// naming them, if there are several configurations; kBadData where a name says how many shards there are
// ("-of-00005") and they are not all there, or two names of one split disagree.
Result<std::vector<ParquetShard>> find_parquet_shards(const Candidate& candidate);

// Where a picture in a Parquet file is: a row, counted from 0, of its column of pictures.
ImageRef parquet_picture(const std::filesystem::path& path, const std::string& column, int64_t row);

// Whether this build has Arrow. Without it the two functions below answer kUnsupported.
bool has_parquet();

// Reads the shards' records; pictures are not opened, save where a file does not say how many are null.
// `folder` is the dataset's. Memory: a row group's texts.
Result<Dataset> read_parquet(const std::vector<ParquetShard>& shards, const std::filesystem::path& folder,
                             const DatasetOptions& options);

// A picture's bytes: read_image_bytes of an image with a column. Opens the file, passes over the pages
// before the row's, and decodes that one. kBadData for a corrupt file, a row that is not there and a
// null; kLimit for a picture above max_bytes. Thread-safe. Cost: the file's footer, and of its column
// the pages' headers and one page.
Result<std::string> read_parquet_image(const ImageRef& image, int64_t max_bytes);

}  // namespace saccade::lab::data
