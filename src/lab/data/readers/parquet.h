// Hugging Face's Parquet datasets: shards of rows, with images in a column of bytes or named by path.
// Internal to the module. parquet_format.h and parquet_pages.h read the format.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lab/data/dataset.h"
#include "lab/data/readers/reader.h"
#include "saccade/core/error.h"

namespace saccade::lab::data {

struct ParquetShard {
  std::filesystem::path path;
  std::string name;    // relative to the dataset's folder, for messages: "data/train-00000-of-00002.parquet"
  std::string prefix;  // prefix of its rows' ids: "train-00000-of-00002/"
  std::string split;   // told from its name or its folder; may be empty
};

// Finds the shards of a .parquet file or of a folder in a hub's form, ordered by name. Errors: kUsage, naming
// them, if there are several configurations; kBadData if a name gives the number of shards ("-of-00005") and
// some are missing, or if two names of one split disagree.
Result<std::vector<ParquetShard>> find_parquet_shards(const Candidate& candidate);

// Reads the shards' records. Images are not opened, unless a file does not tell how many are null. `folder`
// is the dataset's. Memory: a row group's texts.
Result<Dataset> read_parquet(const std::vector<ParquetShard>& shards, const std::filesystem::path& folder,
                             const DatasetOptions& options);

}  // namespace saccade::lab::data
