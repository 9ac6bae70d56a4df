// Rows of Parquet files whose columns have fixed names, as some published layouts have them. Internal to the module.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lab/data/dataset.h"
#include "lab/data/readers/parquet.h"
#include "lab/data/readers/parquet_format.h"
#include "saccade/core/error.h"

namespace saccade::lab::data {

// Names of one column, the preferred one first.
using ColumnNames = std::vector<std::string_view>;

// Returns the column with the first of these names that exists; `nullptr` if there is none. A column of the type null, which
// writers give to columns without any value, does not count.
const ParquetField* find_parquet_column(const ParquetFooter& footer, const ColumnNames& names);

struct ParquetRow {
  int64_t row = 0;                                // in its file, from 0
  std::vector<std::optional<std::string>> texts;  // by asked column; nullopt: null, or no such column
  std::vector<std::optional<ImageRef>> images;    // likewise, of columns with the images' bytes
};

// Calls `visit` for every row of a file. Errors: kBadData for text that is not UTF-8 and for columns of an unsuitable type,
// naming them; those of `visit`, with the row's number.
Status for_each_parquet_row(const ParquetShard& shard, std::span<const ColumnNames> texts,
                            std::span<const ColumnNames> images,
                            const std::function<Status(const ParquetRow&)>& visit);

}  // namespace saccade::lab::data
