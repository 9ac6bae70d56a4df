#include "npy.h"

#include <bit>
#include <span>
#include <string>

#include <fmt/format.h>

#include "saccade/core/files.h"

namespace saccade::app {

static_assert(std::endian::native == std::endian::little, "rows are written as they lie in memory");

Status write_npy(const std::filesystem::path& path, MatrixView<const float> rows) {
  std::string header = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}",
                                   rows.rows(), rows.columns());
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string start = "\x93NUMPY";
  start += {'\x01', '\x00', static_cast<char>(header.size() & 0xFFU), static_cast<char>(header.size() >> 8U)};

  SACCADE_ASSIGN(AtomicFile file, AtomicFile::create(path));
  SACCADE_TRY(file.write(start + header));
  for (int64_t r = 0; r < rows.rows(); ++r) SACCADE_TRY(file.write(std::as_bytes(rows.row(r))));
  return file.commit();
}

}  // namespace saccade::app
