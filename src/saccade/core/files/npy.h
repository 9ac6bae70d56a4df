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

#include <filesystem>

#include "saccade/core/error.h"
#include "saccade/core/files/files.h"
#include "saccade/matrix.h"

namespace saccade {

// Writes a file atomically.
Status write_npy(const std::filesystem::path& path, MatrixView<const float> rows);
// Writes the same to a file that the caller commits.
Status write_npy(AtomicFile& file, MatrixView<const float> rows);

// Reads a matrix: two dimensions of float16, float32 or float64 in native byte order, row-major. Returns
// kNotFound, kBadData for a broken file, and kUnsupported for another type or layout. Memory: the file, and
// the rows as float32.
Result<Matrix<float>> read_npy(const std::filesystem::path& path);

}  // namespace saccade
