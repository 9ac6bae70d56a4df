// Reading one image's bytes from a Parquet file, without decoding the pages before it.
#include "lab/data/readers/parquet_image.h"

#include <algorithm>
#include <arrow/buffer.h>
#include <limits>
#include <parquet/column_reader.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/schema.h>
#include <string>

#include "lab/data/readers/parquet_file.h"

namespace saccade::lab::data {
namespace {

// Returns the leaf of an image column: the column itself, or its "bytes".
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

// Returns the row group of a row; `row` becomes its index in the group.
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

// The pages of one column in one row group, as in the file. Arrow's own streams read the bytes that they
// skip; here skipped pages cost one header each.
class PageStream : public arrow::io::InputStream {
 public:
  PageStream(const ParquetSource& source, int64_t begin, int64_t end)
      : source_(source), at_(begin), end_(end) {}

  // Makes the next read skip a page.
  void pass_over_next() { pass_over_ = true; }

  arrow::Result<std::string_view> Peek(int64_t bytes) override {
    bytes = std::clamp<int64_t>(bytes, 0, end_ - at_);
    peeked_.resize(static_cast<size_t>(bytes));
    ARROW_RETURN_NOT_OK(read(peeked_));
    return std::string_view(peeked_.data(), peeked_.size());
  }
  arrow::Result<int64_t> Read(int64_t bytes, void* out) override {
    bytes = std::clamp<int64_t>(bytes, 0, end_ - at_);
    ARROW_RETURN_NOT_OK(read({static_cast<char*>(out), static_cast<size_t>(bytes)}));
    at_ += bytes;
    return bytes;
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t bytes) override {
    bytes = std::clamp<int64_t>(bytes, 0, end_ - at_);
    if (std::exchange(pass_over_, false)) {
      at_ += bytes;
      return std::make_shared<arrow::Buffer>(nullptr, 0);
    }
    ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> buffer,
                          arrow::AllocateBuffer(bytes, source_.pool()));
    ARROW_RETURN_NOT_OK(Read(bytes, buffer->mutable_data()).status());
    return buffer;
  }
  arrow::Result<int64_t> Tell() const override { return at_; }
  arrow::Status Close() override { return arrow::Status::OK(); }
  [[nodiscard]] bool closed() const override { return false; }

 private:
  [[nodiscard]] arrow::Status read(std::span<char> out) const {
    const Status done = source_.file().read(at_, out);
    return done ? arrow::Status::OK() : arrow::Status::IOError(done.error().message);
  }

  const ParquetSource& source_;
  int64_t at_;
  int64_t end_;
  std::string peeked_;
  bool pass_over_ = false;
};

// Returns the range of a column's pages, from its dictionary on, if it has one.
Result<std::pair<int64_t, int64_t>> pages_of(const parquet::ColumnChunkMetaData& column, int64_t file_bytes) {
  int64_t begin = column.data_page_offset();
  if (column.has_dictionary_page() && column.dictionary_page_offset() > 0) {
    begin = std::min(begin, column.dictionary_page_offset());
  }
  const int64_t bytes = column.total_compressed_size();
  if (begin < 0 || bytes < 0 || begin > file_bytes || bytes > file_bytes - begin) {
    return fail(ErrorCode::kBadData, "a column of {} bytes from byte {} of {}", bytes, begin, file_bytes);
  }
  // Some old writers left the dictionary's header out of the sum (PARQUET-816).
  return std::pair(begin, std::min(begin + bytes + 100, file_bytes));
}

Result<std::string> read_cell(parquet::ParquetFileReader& file, const ParquetSource& source,
                              const ImageRef& image, int64_t max_bytes) {
  const std::shared_ptr<parquet::FileMetaData> metadata = file.metadata();
  SACCADE_ASSIGN(const int leaf, picture_leaf(*metadata->schema(), image.column));
  int64_t row = image.offset;
  if (row < 0) return fail(ErrorCode::kBadData, "rows count from 0");
  SACCADE_ASSIGN(const int group, group_of(*metadata, row));
  const parquet::ColumnDescriptor* descriptor = metadata->schema()->Column(leaf);
  const auto column = metadata->RowGroup(group)->ColumnChunk(leaf);
  if (column->crypto_metadata()) return fail(ErrorCode::kUnsupported, "an encrypted column");
  SACCADE_ASSIGN(const auto place, pages_of(*column, source.file().size()));
  const auto stream = std::make_shared<PageStream>(source, place.first, place.second);
  std::unique_ptr<parquet::PageReader> pages = parquet::PageReader::Open(
      stream, column->num_values(), column->compression(), parquet::ReaderProperties(source.pool()),
      *descriptor,
      metadata->writer_version().VersionLt(parquet::ApplicationVersion::PARQUET_CPP_10353_FIXED_VERSION()));
  // Pages before the row's are skipped by their headers, undecoded. A column without repetition has one value
  // per row.
  bool reached = false;
  pages->set_data_page_filter([&](const parquet::DataPageStats& page) {
    reached = reached || row < page.num_values;
    if (!reached && page.num_values > 0) row -= page.num_values;
    if (!reached) stream->pass_over_next();
    return !reached;
  });
  const std::shared_ptr<parquet::ColumnReader> any =
      parquet::ColumnReader::Make(descriptor, std::move(pages));
  auto& cells = static_cast<parquet::ByteArrayReader&>(*any);  // picture_leaf() has seen to the type
  // The first row of the first kept page is known only once its header is read.
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

Result<std::string> read_parquet_image(const ImageRef& image, int64_t max_bytes) {
  SACCADE_ASSIGN(const ParquetSource source, ParquetSource::open(image.path));
  return guarded([&]() -> Result<std::string> {
           const auto file =
               parquet::ParquetFileReader::Open(source.stream(), parquet::ReaderProperties(source.pool()));
           return read_cell(*file, source, image, max_bytes);
         })
      .in(image.name());
}

}  // namespace saccade::lab::data
