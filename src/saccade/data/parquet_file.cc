#include "saccade/data/parquet_file.h"

#include <arrow/buffer.h>
#include <limits>
#include <parquet/column_reader.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/schema.h>
#include <string>

#include "saccade/data/parquet.h"
#include "saccade/text/utf8.h"

namespace saccade::data {
namespace {

constexpr size_t kMaxMessage = 300;

std::string one_line(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  if (text.size() > kMaxMessage) text = text.substr(0, kMaxMessage) + "...";
  return to_valid_utf8(text);
}

// The leaf that holds a column of pictures: the column itself, or its "bytes".
Result<int> picture_leaf(const parquet::SchemaDescriptor& schema, const std::string& column) {
  for (int i = 0; i < schema.num_columns(); ++i) {
    const std::vector<std::string> path = schema.Column(i)->path()->ToDotVector();
    const bool itself = path.size() == 1 && path[0] == column;
    if (!itself && !(path.size() == 2 && path[0] == column && path[1] == "bytes")) continue;
    if (schema.Column(i)->physical_type() != parquet::Type::BYTE_ARRAY ||
        schema.Column(i)->max_repetition_level() != 0) {
      return fail(ErrorCode::kBadData, "column \"{}\" is no column of bytes", column);
    }
    return i;
  }
  return fail(ErrorCode::kBadData, "no column \"{}\" of bytes", column);
}

// The row group of a row, which becomes the row in it.
Result<int> group_of(const parquet::FileMetaData& metadata, int64_t& row) {
  int64_t rows = 0;
  for (int group = 0; group < metadata.num_row_groups(); ++group) {
    const int64_t here = metadata.RowGroup(group)->num_rows();
    if (here < 0 || here > std::numeric_limits<int64_t>::max() - rows) {
      return fail(ErrorCode::kBadData, "row group {} of {} rows", group, here);
    }
    if (row < rows + here) {
      row -= rows;
      return group;
    }
    rows += here;
  }
  return fail(ErrorCode::kBadData, "the file has {} rows", rows);
}

Result<std::string> read_cell(parquet::ParquetFileReader& file, const ImageRef& image, int64_t max_bytes) {
  const std::shared_ptr<parquet::FileMetaData> metadata = file.metadata();
  SACCADE_ASSIGN(const int leaf, picture_leaf(*metadata->schema(), image.column));
  int64_t row = image.offset;
  if (row < 0) return fail(ErrorCode::kBadData, "rows count from 0");
  SACCADE_ASSIGN(const int group, group_of(*metadata, row));
  std::unique_ptr<parquet::PageReader> pages = file.RowGroup(group)->GetColumnPageReader(leaf);
  // Pages before the row's are passed over by their headers, undecoded. A column without repetition has one
  // value a row.
  bool reached = false;
  pages->set_data_page_filter([&](const parquet::DataPageStats& page) {
    reached = reached || row < page.num_values;
    if (!reached && page.num_values > 0) row -= page.num_values;
    return !reached;
  });
  const parquet::ColumnDescriptor* descriptor = metadata->schema()->Column(leaf);
  const std::shared_ptr<parquet::ColumnReader> any =
      parquet::ColumnReader::Make(descriptor, std::move(pages));
  auto& cells = static_cast<parquet::ByteArrayReader&>(*any);  // picture_leaf() has seen to the type
  // The first page kept begins at a row that is known only once its header is read.
  if (!cells.HasNext() || cells.Skip(row) != row) {
    return fail(ErrorCode::kBadData, "row group {} ends before it", group);
  }
  parquet::ByteArray cell;
  int16_t level = 0;
  int64_t found = 0;
  if (cells.ReadBatch(1, &level, nullptr, &cell, &found) != 1) {
    return fail(ErrorCode::kBadData, "row group {} ends before it", group);
  }
  if (found != 1) return fail(ErrorCode::kBadData, "null, no picture");
  if (static_cast<int64_t>(cell.len) > max_bytes) {
    return fail(ErrorCode::kLimit, "{} bytes, limit {}", cell.len, max_bytes);
  }
  return std::string(reinterpret_cast<const char*>(cell.ptr), cell.len);
}

}  // namespace

Error arrow_error(const arrow::Status& status) {
  ErrorCode code = ErrorCode::kBadData;
  if (status.IsOutOfMemory() || status.IsCapacityError()) code = ErrorCode::kLimit;
  if (status.IsNotImplemented()) code = ErrorCode::kUnsupported;
  return {code, one_line(status.message())};
}

Error arrow_error(const std::exception& exception) {
  return {ErrorCode::kBadData, one_line(exception.what())};
}

Result<ParquetSource> ParquetSource::open(const std::filesystem::path& path) {
  ParquetSource source;
  SACCADE_ASSIGN(source.file_, MappedFile::open(path));
  source.pool_ = std::make_unique<arrow::CappedMemoryPool>(arrow::default_memory_pool(), kMaxDecoded);
  return source;
}

std::shared_ptr<arrow::io::RandomAccessFile> ParquetSource::stream() const {
  const auto* data = reinterpret_cast<const uint8_t*>(file_.bytes().data());
  const auto size = static_cast<int64_t>(file_.bytes().size());
  return std::make_shared<arrow::io::BufferReader>(std::make_shared<arrow::Buffer>(data, size));
}

Result<std::string> read_parquet_image(const ImageRef& image, int64_t max_bytes) {
  SACCADE_ASSIGN(const ParquetSource source, ParquetSource::open(image.path));
  return guarded([&]() -> Result<std::string> {
           const auto file =
               parquet::ParquetFileReader::Open(source.stream(), parquet::ReaderProperties(source.pool()));
           return read_cell(*file, image, max_bytes);
         })
      .in(image.name());
}

}  // namespace saccade::data
