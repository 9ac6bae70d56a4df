// Reading one image's bytes from a Parquet file, without decoding the pages before it.
#include "lab/data/readers/parquet_image.h"

#include <algorithm>
#include <string>

#include "lab/data/readers/parquet_pages.h"

namespace saccade::lab::data {
namespace {

// Returns the leaf of an image column: the column itself, or its "bytes".
Result<const ParquetField*> picture_leaf(const ParquetFooter& footer, const std::string& column) {
  for (const ParquetField& field : footer.root.children) {
    if (field.name != column) continue;
    const ParquetField* leaf = field.is_leaf() ? &field : nullptr;
    for (const ParquetField& child : field.children) {
      if (child.name == "bytes" && child.is_leaf()) leaf = &child;
    }
    if (leaf == nullptr) continue;
    if (leaf->type != ParquetType::kBytes || leaf->max_repetition != 0) {
      return fail(ErrorCode::kBadData, "column \"{}\" is no column of bytes", column);
    }
    return leaf;
  }
  return fail(ErrorCode::kBadData, "no column \"{}\" of bytes", column);
}

// Returns the row group of a row; `row` becomes its index in the group.
Result<size_t> group_of(const ParquetFooter& footer, int64_t& row) {
  int64_t rows = 0;
  for (size_t group = 0; group < footer.groups.size(); ++group) {
    const int64_t here = footer.groups[group].rows;
    if (row < rows + here) {
      row -= rows;
      return group;
    }
    rows += here;
  }
  return fail(ErrorCode::kBadData, "the file has {} rows", rows);
}

Result<std::string> read_cell(const PieceFile& file, const ImageRef& image, int64_t max_bytes) {
  SACCADE_ASSIGN(const ParquetFooter footer, read_parquet_footer(file));
  SACCADE_ASSIGN(const ParquetField* leaf, picture_leaf(footer, image.column));
  int64_t row = image.offset;
  if (row < 0) return fail(ErrorCode::kBadData, "rows count from 0");
  SACCADE_ASSIGN(const size_t group, group_of(footer, row));
  ParquetPages pages(file, *leaf, footer.groups[group].columns[static_cast<size_t>(leaf->leaf)]);
  // A column without repetition has one value per row.
  while (true) {
    SACCADE_ASSIGN(const bool more, pages.next());
    if (!more) return fail(ErrorCode::kBadData, "row group {} ends before it", group);
    if (row < pages.entries()) break;
    row -= pages.entries();
  }
  SACCADE_ASSIGN(const ParquetPage page, pages.read(true));
  auto value = static_cast<size_t>(row);
  if (!page.definition.empty()) {
    const auto most = static_cast<uint32_t>(leaf->max_definition);
    const auto here = page.definition.begin() + row;
    if (*here < most) return fail(ErrorCode::kBadData, "null, no image");
    value = static_cast<size_t>(std::count(page.definition.begin(), here, most));
  }
  const std::string_view cell = page.texts[value];
  if (std::ssize(cell) > max_bytes)
    return fail(ErrorCode::kLimit, "{} bytes, limit {}", cell.size(), max_bytes);
  return std::string(cell);
}

}  // namespace

Result<std::string> read_parquet_image(const ImageRef& image, int64_t max_bytes) {
  SACCADE_ASSIGN(const PieceFile file, PieceFile::open(image.path));
  return read_cell(file, image, max_bytes).in(image.name());
}

}  // namespace saccade::lab::data
