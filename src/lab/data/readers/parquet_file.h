// Arrow at the module's edge: a Parquet file under its readers, and their exceptions as errors. Internal to
// the module, and to its files that are compiled only where Arrow is.
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

#include "saccade/core/error.h"
#include "lab/data/readers/piece_file.h"

namespace saccade::lab::data {

// What one reader of a file may have decoded at a time; a page has at most half of it by the format.
inline constexpr int64_t kMaxDecoded = int64_t{4} << 30;

// Arrow's status as an error: kLimit for memory, kUnsupported
// for a codec or feature that is not built, and else kBadData.
Error arrow_error(const arrow::Status& status);
// The same of what an exception says; long texts are cut, line ends taken out.
Error arrow_error(const std::exception& exception);

// Calls what calls Arrow.
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

// A file, read piece by piece (piece_file.h says why it is not mapped), with a memory pool of its own that
// refuses more than kMaxDecoded: corrupt sizes are errors. Outlives the readers made of it.
class ParquetSource {
 public:
  // kNotFound or kIo.
  static Result<ParquetSource> open(const std::filesystem::path& path);

  [[nodiscard]] const PieceFile& file() const { return file_; }
  // The file for Arrow, which throws what `guarded` catches.
  [[nodiscard]] std::shared_ptr<arrow::io::RandomAccessFile> stream() const;
  [[nodiscard]] arrow::MemoryPool* pool() const { return pool_.get(); }

 private:
  PieceFile file_;
  std::unique_ptr<arrow::MemoryPool> pool_;
};

}  // namespace saccade::lab::data
