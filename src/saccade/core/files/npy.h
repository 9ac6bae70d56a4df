// NumPy's array format (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html): a writer for
// numpy.load, and a reader of files from numpy.save.
//
//   offset  size  what
//   0       6     "\x93NUMPY"
//   6       2     version 1.0
//   8       2     H, the header's length, little-endian; 10 + H is a multiple of 64
//   10      H     {'descr': '<f4', 'fortran_order': False, 'shape': (n, dim), }, spaces, a newline
//   10 + H  ...   n * dim float32, little-endian, row-major
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "saccade/core/error.h"
#include "saccade/core/files/files.h"
#include "saccade/matrix.h"

namespace saccade {

// Writes a file atomically.
Status write_npy(const std::filesystem::path& path, MatrixView<const float> rows);
// Writes the same to a file that the caller commits.
Status write_npy(AtomicFile& file, MatrixView<const float> rows);

// Reader of a matrix: two dimensions of float16, float32 or float64 in native byte order, row-major.
// Thread-safe.
class NpyReader {
 public:
  // Reads the header. Returns kNotFound, kBadData for a broken file, and kUnsupported for another type or
  // layout.
  static Result<NpyReader> open(const std::filesystem::path& path);

  [[nodiscard]] int64_t rows() const { return rows_; }
  [[nodiscard]] int64_t columns() const { return columns_; }
  // Reads `count` rows from row `first` as float32: [count, columns]. first >= 0, count >= 0, first + count <=
  // rows(). kBadData if the file has been truncated since. Memory: these rows, in both types.
  [[nodiscard]] Result<Matrix<float>> read(int64_t first, int64_t count) const;

 private:
  Status parse(std::string_view start, int64_t bytes);

  std::string path_;
  Descriptor file_;
  int64_t rows_ = 0;
  int64_t columns_ = 0;
  int64_t offset_ = 0;  // of the first value
  int64_t width_ = 0;   // bytes of a value
};

// Reads the whole matrix. Errors of NpyReader.
Result<Matrix<float>> read_npy(const std::filesystem::path& path);

}  // namespace saccade
