// NumPy's array file, for rows that Python reads with numpy.load.
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
#include "saccade/core/matrix.h"

namespace saccade::app {

// Whole or not at all.
Status write_npy(const std::filesystem::path& path, MatrixView<const float> rows);

}  // namespace saccade::app
