// Which columns of a Parquet file hold what, and the texts in their cells. Internal to the module, and to its
// files that are compiled only where Arrow is.
#pragma once

#include <arrow/array.h>
#include <functional>
#include <optional>
#include <parquet/arrow/schema.h>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "lab/data/dataset.h"

namespace saccade::lab::data {

struct PictureColumn {
  std::string name;
  int bytes_leaf = -1;  // the leaf with the pictures; -1: the column names files
  int path_leaf = -1;   // the leaf with the names of files, if there is one
};

struct TextColumn {
  std::string name;
  int field = -1;  // among the schema's; -1: there is none
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

// The columns that options name, or that are told by the features in the file's "huggingface" metadata, their
// types and their usual names. `features` is that metadata's JSON, or empty. Errors: kUsage for a column that
// is not there or not known, naming all; kBadData for one of an unfit type, naming it.
Result<ParquetColumns> choose_parquet_columns(const parquet::arrow::SchemaManifest& schema,
                                              const std::string& features, const DatasetOptions& options);

// A cell's text, of columns of strings, bytes or integers, dictionaries of them too; nullopt for a null.
Result<std::optional<std::string>> text_of_cell(const arrow::Array& column, int64_t index);

// Calls caption() for each text of a cell, nulls in lists as empty texts; `listed` says whether it is of a
// list. The cell is text, or lists and structs of one field around it.
Status for_each_caption(const arrow::Array& column, int64_t index,
                        const std::function<Status(std::string text, bool listed)>& caption,
                        bool listed = false);

}  // namespace saccade::lab::data
