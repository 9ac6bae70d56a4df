// Roles of a Parquet file's columns, and the texts in their cells. Internal to the module, and to its files
// that are compiled only with Arrow.
#pragma once

#include <arrow/array.h>
#include <functional>
#include <optional>
#include <parquet/arrow/schema.h>
#include <string>
#include <vector>

#include "lab/data/dataset.h"
#include "saccade/core/error.h"

namespace saccade::lab::data {

struct PictureColumn {
  std::string name;
  int bytes_leaf = -1;  // the leaf with the images; -1: the column names files
  int path_leaf = -1;   // the leaf with the names of files, if there is one
};

struct TextColumn {
  std::string name;
  int field = -1;  // index in the schema; -1: there is none
  int leaf = -1;
};

struct ParquetColumns {
  PictureColumn picture;
  int picture_field = -1;
  std::vector<TextColumn> captions;  // one, or caption_0, caption_1, ...
  TextColumn id;
  TextColumn split;
  TextColumn group;
};

// Chooses the columns that options name, or that are found by the features in the file's "huggingface"
// metadata, their types and their usual names. `features` is that metadata's JSON, or empty. Errors: kUsage
// for a column that is missing or unknown, naming all; kBadData for one of an unsuitable type, naming it.
Result<ParquetColumns> choose_parquet_columns(const parquet::arrow::SchemaManifest& schema,
                                              const std::string& features, const DatasetOptions& options);

// Returns a cell's text, from columns of strings, bytes or integers, also as dictionaries; `nullopt` for a
// null.
Result<std::optional<std::string>> text_of_cell(const arrow::Array& column, int64_t index);

// Calls caption() for each text of a cell, nulls in lists as empty texts; `listed` is true for texts of a
// list. The cell is text, or lists and structs of one field around it.
Status for_each_caption(const arrow::Array& column, int64_t index,
                        const std::function<Status(std::string text, bool listed)>& caption,
                        bool listed = false);

}  // namespace saccade::lab::data
