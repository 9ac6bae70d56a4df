#include "lab/data/readers/parquet_file.h"

#include <arrow/io/file.h>
#include <fcntl.h>
#include <string>

#include "saccade/text/utf8.h"

namespace saccade::lab::data {
namespace {

constexpr size_t kMaxMessage = 300;

std::string one_line(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  if (text.size() > kMaxMessage) text = text.substr(0, kMaxMessage) + "...";
  return to_valid_utf8(text);
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
  SACCADE_ASSIGN(source.file_, PieceFile::open(path));
  source.pool_ = std::make_unique<arrow::CappedMemoryPool>(arrow::default_memory_pool(), kMaxDecoded);
  return source;
}

std::shared_ptr<arrow::io::RandomAccessFile> ParquetSource::stream() const {
  const int copy = ::fcntl(file_.descriptor(), F_DUPFD_CLOEXEC, 0);  // closed by the stream
  PARQUET_ASSIGN_OR_THROW(auto stream, arrow::io::ReadableFile::Open(copy, pool()));
  return stream;
}

}  // namespace saccade::lab::data
