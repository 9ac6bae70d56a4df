// Adapter to Arrow: opens Parquet files, and converts Arrow's exceptions to errors. Internal to the module,
// and to its files that are compiled only with Arrow.
#pragma once

#include <arrow/io/interfaces.h>
#include <arrow/memory_pool.h>
#include <arrow/status.h>
#include <exception>
#include <filesystem>
#include <memory>
#include <new>
#include <parquet/exception.h>
#include <utility>

#include "lab/data/readers/piece_file.h"
#include "saccade/core/error.h"

namespace saccade::lab::data {

// Maximum bytes that one reader of a file may decode at a time; the format limits a page to half of it.
inline constexpr int64_t kMaxDecoded = int64_t{4} << 30;

// Converts Arrow's status to an error: kLimit for memory, kUnsupported for a codec or feature that is not
// built, and else kBadData.
Error arrow_error(const arrow::Status& status);
// Converts an exception likewise; long texts are cut, line ends removed.
Error arrow_error(const std::exception& exception);

// Runs a call that uses Arrow, and converts its exceptions to errors.
template <typename Call>
auto guarded(Call call) -> decltype(call()) {
  try {
    return call();
  } catch (const parquet::ParquetStatusException& exception) {
    return fail(arrow_error(exception.status()));
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kLimit, "more than memory holds");
  } catch (const std::exception& exception) {
    return fail(arrow_error(exception));
  }
}

// A file that is read piece by piece (piece_file.h explains why it is not mapped). Its own memory pool
// refuses more than kMaxDecoded, so corrupt sizes are errors. It must outlive the readers made from it.
class ParquetSource {
 public:
  // Opens a file; returns kNotFound or kIo.
  static Result<ParquetSource> open(const std::filesystem::path& path);

  [[nodiscard]] const PieceFile& file() const { return file_; }
  // Returns the file for Arrow, whose exceptions `guarded` catches.
  [[nodiscard]] std::shared_ptr<arrow::io::RandomAccessFile> stream() const;
  [[nodiscard]] arrow::MemoryPool* pool() const { return pool_.get(); }

 private:
  PieceFile file_;
  std::unique_ptr<arrow::MemoryPool> pool_;
};

}  // namespace saccade::lab::data
