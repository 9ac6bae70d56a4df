#include "lab/data/readers/parquet_rows.h"

#include <algorithm>

#include <fmt/format.h>

#include "lab/data/readers/parquet_columns.h"
#include "lab/data/readers/parquet_image.h"
#include "lab/data/readers/reader.h"

namespace saccade::lab::data {
namespace {

// A column that was found in a file.
struct Found {
  std::string name;
  int leaf = -1;  // -1: there is none
};

Result<Found> find_texts(const ParquetFooter& footer, const ColumnNames& names) {
  const ParquetField* field = find_parquet_column(footer, names);
  if (field == nullptr) return Found();
  const bool fits = field->is_leaf() && field->max_repetition == 0 &&
                    (field->text || field->is_bytes() || field->whole_number || field->real);
  if (!fits) {
    return fail(ErrorCode::kBadData, "column \"{}\" is {}, expected strings or numbers", field->name,
                parquet_type_name(*field));
  }
  return Found{field->name, field->leaf};
}

Result<Found> find_images(const ParquetFooter& footer, const ColumnNames& names) {
  const ParquetField* field = find_parquet_column(footer, names);
  if (field == nullptr) return Found();
  const auto column = picture_column(*field);
  if (!column || column->bytes_leaf < 0) {
    return fail(ErrorCode::kBadData, "column \"{}\" is {}, expected struct<bytes: binary, path: string>",
                field->name, parquet_type_name(*field));
  }
  return Found{field->name, column->bytes_leaf};
}

}  // namespace

const ParquetField* find_parquet_column(const ParquetFooter& footer, const ColumnNames& names) {
  for (const std::string_view name : names) {
    const auto found = std::ranges::find(footer.root.children, name, &ParquetField::name);
    if (found != footer.root.children.end() && found->meaning != "null") return &*found;
  }
  return nullptr;
}

Status for_each_parquet_row(const ParquetShard& shard, std::span<const ColumnNames> texts,
                            std::span<const ColumnNames> images,
                            const std::function<Status(const ParquetRow&)>& visit) {
  const auto read = [&]() -> Status {
    SACCADE_ASSIGN(const PieceFile file, PieceFile::open(shard.path));
    SACCADE_ASSIGN(const ParquetFooter footer, read_parquet_footer(file));
    std::vector<Found> text_columns;
    std::vector<Found> image_columns;
    for (const ColumnNames& names : texts) {
      SACCADE_ASSIGN(text_columns.emplace_back(), find_texts(footer, names));
    }
    for (const ColumnNames& names : images) {
      SACCADE_ASSIGN(image_columns.emplace_back(), find_images(footer, names));
    }
    ParquetRow row;
    for (size_t group = 0; group < footer.groups.size(); ++group) {
      std::vector<ParquetTexts> cells(text_columns.size());
      for (size_t c = 0; c < cells.size(); ++c) {
        if (text_columns[c].leaf < 0) continue;
        SACCADE_ASSIGN(cells[c], read_parquet_texts(file, footer, group, text_columns[c].leaf)
                                     .in(fmt::format("column \"{}\"", text_columns[c].name)));
      }
      std::vector<std::vector<bool>> missing(image_columns.size());
      for (size_t c = 0; c < missing.size(); ++c) {
        if (image_columns[c].leaf < 0) continue;
        SACCADE_ASSIGN(missing[c], rows_without_bytes(file, footer, group, image_columns[c].leaf)
                                       .in(fmt::format("column \"{}\"", image_columns[c].name)));
      }
      for (int64_t i = 0; i < footer.groups[group].rows; ++i, ++row.row) {
        const auto at = static_cast<size_t>(i);
        const std::string where = fmt::format("row {}", row.row);
        row.texts.assign(cells.size(), std::nullopt);
        for (size_t c = 0; c < cells.size(); ++c) {
          if (text_columns[c].leaf < 0) continue;
          row.texts[c] = cells[c].values[static_cast<size_t>(cells[c].begin[at])];
          if (!row.texts[c]) continue;
          SACCADE_TRY(
              check_utf8(*row.texts[c], fmt::format("column \"{}\"", text_columns[c].name)).in(where));
        }
        row.images.assign(missing.size(), std::nullopt);
        for (size_t c = 0; c < missing.size(); ++c) {
          if (image_columns[c].leaf < 0 || (!missing[c].empty() && missing[c][at])) continue;
          row.images[c] = parquet_picture(shard.path, image_columns[c].name, row.row);
        }
        SACCADE_TRY(visit(row).in(where));
      }
    }
    return {};
  };
  return read().in(shard.name);
}

}  // namespace saccade::lab::data
