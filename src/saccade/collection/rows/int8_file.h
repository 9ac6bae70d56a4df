// The rows in eight bits a value beside the rows file, by which searches read a quarter as much; not for use
// outside this module.
//
//   rows-<n>.i8   64 bytes: "saccade int8 v1\n", then the rows' columns as an int64,
//                 little-endian, then zeros; then the stored rows (index/int8_rows.h) of row 0,
//                 row 1, ... of rows-<n>.f32; append-only
//
// The file says nothing that the rows file does not. It is written after the catalog's transaction, from rows
// that are committed and change no more; so whatever it holds is right, a crash leaves it shorter than the
// rows at most, and it needs no flushing: each stored row holds a check, and search reads one whose check is
// wrong from the rows file. Rows that it does not have yet are read there as well. A file of another version
// or shape is not used, and replaced by the next change.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>

#include "saccade/core/error.h"
#include "saccade/core/files/files.h"
#include "saccade/progress.h"
#include "saccade/index/int8_rows.h"

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
  // None where there is no file, or one of another version or shape.
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
  // Opens the file or begins it. One that is not used, has more than `rows` rows, or does not agree with the
  // rows file in some rows that are looked at, is begun anew. rows_file: open for reading, `rows` committed.
  static Result<Int8Writer> open(const std::filesystem::path& folder, int64_t generation, int rows_file,
                                 int64_t rows, int64_t dim);
  Int8Writer() = default;

  // Appends what is missing of the first `rows` rows. On error what was whole stays. Stops
  // between blocks of rows where asked to, which is no error. Cost: some 2 microseconds a row at
  // 512 columns, beside reading it.
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
