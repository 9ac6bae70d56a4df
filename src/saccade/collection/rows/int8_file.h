// File of int8 rows beside the rows file, with which searches read a quarter as much; not for use outside
// this module.
//
//   rows-<n>.i8   64 bytes: "saccade int8 v1\n", then the rows' columns as an int64,
//                 little-endian, then zeros; then the stored rows (index/int8_rows.h) of row 0,
//                 row 1, ... of rows-<n>.f32; append-only
//
// The file can be rebuilt from the rows file. It is written after the catalog's transaction, from committed
// rows, which never change. Its content is therefore right, a crash at most leaves it shorter than the rows,
// and it needs no flushing. Each stored row has a checksum; search reads a row with a wrong one, or a row
// that is missing here, from the rows file. A file of another version or shape is not used, and the next
// change replaces it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>

#include "saccade/core/error.h"
#include "saccade/core/files/files.h"
#include "saccade/index/int8_rows.h"
#include "saccade/progress.h"

namespace saccade::store {

std::filesystem::path int8_path(const std::filesystem::path& folder, int64_t generation);

// Returns the offset of stored row `row` in the file.
constexpr int64_t int8_offset(int64_t row, int64_t dim) {
  constexpr int64_t kHeader = 64;
  return kHeader + row * int8_row_bytes(dim);
}

// Reader of those of the first `rows` rows that are stored, mapped.
class Int8Reader {
 public:
  // Opens the file. The reader has no rows if the file is missing, or has another version or shape.
  static Int8Reader open(const std::filesystem::path& folder, int64_t generation, int64_t rows, int64_t dim);

  // Valid as long as the object.
  [[nodiscard]] Int8Rows rows() const { return rows_; }
  // Returns true if the file exists but is not used, since its header has another version or shape.
  [[nodiscard]] bool foreign() const { return foreign_; }

 private:
  MappedFile file_;
  Int8Rows rows_;
  bool foreign_ = false;
};

// The write side.
class Int8Writer {
 public:
  // Opens or creates the file. It is created again if it is not used, has more than `rows` rows, or differs
  // from the rows file in a sample of its rows. rows_file: open for reading, `rows` committed.
  static Result<Int8Writer> open(const std::filesystem::path& folder, int64_t generation, int rows_file,
                                 int64_t rows, int64_t dim);
  Int8Writer() = default;

  // Appends what is missing of the first `rows` rows. After an error, complete rows stay. Stops between
  // blocks of rows on request, which is no error. Cost: some 2 microseconds a row at 512 columns, beside
  // reading it.
  Status update(int rows_file, int64_t rows, const std::function<void(std::string_view)>& step,
                const ProgressCallback& progress, const std::stop_token& stop);

 private:
  // Returns true if stored row `row` is equal to that of the rows file.
  [[nodiscard]] Result<bool> agrees(int rows_file, int64_t row) const;

  Descriptor file_;
  std::string name_;
  int64_t dim_ = 0;
  int64_t count_ = 0;
};

}  // namespace saccade::store
