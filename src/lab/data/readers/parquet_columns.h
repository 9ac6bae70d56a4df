// Roles of a Parquet file's columns, and the texts in their cells. Internal to the module.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lab/data/dataset.h"
#include "lab/data/readers/parquet_format.h"
#include "lab/data/readers/piece_file.h"
#include "saccade/core/error.h"

namespace saccade::lab::data {

struct PictureColumn {
  std::string name;
  int bytes_leaf = -1;  // the leaf with the images; -1: the column names files
  int path_leaf = -1;   // the leaf with the names of files, if there is one
};

// Returns a column as an image column: struct{bytes, path}, bytes, or file names. `nullopt` if it is none of these.
std::optional<PictureColumn> picture_column(const ParquetField& field);

struct TextColumn {
  std::string name;
  int leaf = -1;  // -1: there is none
};

struct ParquetColumns {
  PictureColumn picture;
  std::vector<TextColumn> captions;  // one, or caption_0, caption_1, ...
  TextColumn id;
  TextColumn split;
  TextColumn group;
};

// Chooses the columns that options name, or that are found by the features in the file's "huggingface"
// metadata, their types and their usual names. Errors: kUsage for a column that is missing or unknown, naming
// all; kBadData for one of an unsuitable type, naming it.
Result<ParquetColumns> choose_parquet_columns(const ParquetFooter& footer, const DatasetOptions& options);

// Returns which rows of a group have no image bytes; empty if all have them. The file's statistics usually
// tell; otherwise the column's levels are read.
Result<std::vector<bool>> rows_without_bytes(const PieceFile& file, const ParquetFooter& footer, size_t group,
                                             int leaf);

// The texts of a column in a row group.
struct ParquetTexts {
  std::vector<int64_t> begin = {0};  // [rows + 1]: row r has values begin[r] .. begin[r + 1] - 1
  std::vector<std::optional<std::string>>
      values;  // nullopt: null. A row of a list has one per element, else one
  bool listed = false;
  int64_t bytes = 0;  // of memory for `values` and their characters
};
// Most memory for the texts of a column of one row group. A dictionary lets a small file name a long text many times.
inline constexpr int64_t kMaxTextBytes = int64_t{4} << 30;
// Reads a leaf of strings, bytes, numbers or booleans. Numbers are the shortest decimals that give them back ("0.1", "2.0",
// "nan", "inf"); booleans are "true" and "false". kBadData if the pages do not have the group's rows; kLimit if the texts take
// more than `most_bytes` of memory.
Result<ParquetTexts> read_parquet_texts(const PieceFile& file, const ParquetFooter& footer, size_t group,
                                        int leaf, int64_t most_bytes = kMaxTextBytes);

}  // namespace saccade::lab::data
