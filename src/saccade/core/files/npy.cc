#include "saccade/core/files/npy.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "saccade/core/files/files.h"
#include "saccade/core/half.h"

namespace saccade {

static_assert(std::endian::native == std::endian::little, "rows are written as they lie in memory");

Status write_npy(AtomicFile& file, MatrixView<const float> rows) {
  std::string header = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}",
                                   rows.rows(), rows.columns());
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string start = "\x93NUMPY";
  start += {'\x01', '\x00', static_cast<char>(header.size() & 0xFFU), static_cast<char>(header.size() >> 8U)};

  SACCADE_TRY(file.write(start + header));
  for (int64_t r = 0; r < rows.rows(); ++r) SACCADE_TRY(file.write(std::as_bytes(rows.row(r))));
  return {};
}

Status write_npy(const std::filesystem::path& path, MatrixView<const float> rows) {
  SACCADE_ASSIGN(AtomicFile file, AtomicFile::create(path));
  SACCADE_TRY(write_npy(file, rows));
  return file.commit();
}

namespace {

// Returns the text after 'key': in the header, which is a Python literal. Spacing differs between NumPy and
// other writers.
std::string_view behind(std::string_view header, std::string_view key) {
  size_t at = header.find(fmt::format("'{}'", key));
  if (at == std::string_view::npos) at = header.find(fmt::format("\"{}\"", key));
  if (at == std::string_view::npos) return {};
  header.remove_prefix(at + key.size() + 2);
  const size_t begin = header.find_first_not_of(": ");
  return begin == std::string_view::npos ? std::string_view() : header.substr(begin);
}

// Parses "(12, 34)" into two numbers.
bool read_shape(std::string_view text, int64_t& rows, int64_t& columns) {
  const auto number = [&](int64_t& value) {
    text.remove_prefix(std::min(text.find_first_not_of("(, "), text.size()));
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc()) return false;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    return true;
  };
  if (!text.starts_with('(') || !number(rows) || !number(columns)) return false;
  text.remove_prefix(std::min(text.find_first_not_of(", "), text.size()));
  return text.starts_with(')');
}

Result<Matrix<float>> parse_npy(std::span<const std::byte> bytes) {
  const std::string_view file(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!file.starts_with("\x93NUMPY") || file.size() < 12)
    return fail(ErrorCode::kBadData, "no NumPy array file");
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(file[i])); };
  const bool short_length = byte(6) == 1;
  const size_t start = short_length ? 10 : 12;
  const size_t length =
      short_length ? byte(8) | byte(9) << 8 : byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24;
  if (byte(6) < 1 || byte(6) > 3 || length > file.size() - start) {
    return fail(ErrorCode::kBadData, "a header of {} bytes in version {}", length, byte(6));
  }
  const std::string_view header = file.substr(start, length);
  const std::string_view type = behind(header, "descr").substr(0, 5);
  const size_t width = type == "'<f2'" ? 2 : type == "'<f4'" ? 4 : type == "'<f8'" ? 8 : 0;
  if (width == 0)
    return fail(ErrorCode::kUnsupported, "values of type {}, expected '<f2', '<f4' or '<f8'", type);
  if (!behind(header, "fortran_order").starts_with("False")) {
    return fail(ErrorCode::kUnsupported, "columns first (fortran_order), expected rows first");
  }
  int64_t rows = 0;
  int64_t columns = 0;
  if (!read_shape(behind(header, "shape"), rows, columns) || rows < 0 || columns < 1) {
    return fail(ErrorCode::kUnsupported, "a shape that is not (rows, columns)");
  }
  const std::string_view values = file.substr(start + length);
  int64_t count = 0;
  if (__builtin_mul_overflow(rows, columns, &count) || static_cast<size_t>(count) > values.size() / width) {
    return fail(ErrorCode::kBadData, "{} bytes of values, {} x {} of {} bytes announced", values.size(), rows,
                columns, width);
  }
  Matrix<float> matrix(rows, columns);
  const auto out = matrix.values();
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    const char* at = values.data() + i * width;
    if (width == 2) {
      uint16_t half = 0;
      std::memcpy(&half, at, sizeof half);
      out[i] = fp16_to_float(half);
    } else if (width == 4) {
      std::memcpy(&out[i], at, sizeof(float));
    } else {
      double value = 0;
      std::memcpy(&value, at, sizeof value);
      out[i] = static_cast<float>(value);
    }
  }
  return matrix;
}

}  // namespace

Result<Matrix<float>> read_npy(const std::filesystem::path& path) {
  SACCADE_ASSIGN(const MappedFile file, MappedFile::open(path));
  return parse_npy(file.bytes()).in(path.string());
}

}  // namespace saccade
