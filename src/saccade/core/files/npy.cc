#include "saccade/core/files/npy.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <iterator>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "saccade/core/files/files.h"
#include "saccade/core/files/read_up_to_end.h"
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

Status read_npy_bytes(int descriptor, char* to, int64_t bytes, int64_t offset) {
  const int64_t got =
      read_up_to_end(descriptor, std::as_writable_bytes(std::span(to, static_cast<size_t>(bytes))), offset);
  if (got < 0) return fail_errno(errno, "read");
  if (got < bytes) return fail(ErrorCode::kBadData, "ends after {} bytes", offset + got);
  return {};
}

constexpr int64_t kNpyPrefix = 12;  // up to the header, whose length takes 2 or 4 bytes

}  // namespace

// start: the file's first bytes, as far as there are any up to the header's greatest length.
Status NpyReader::parse(std::string_view file, int64_t bytes) {
  if (!file.starts_with("\x93NUMPY") || std::ssize(file) < kNpyPrefix)
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
  width_ = type == "'<f2'" ? 2 : type == "'<f4'" ? 4 : type == "'<f8'" ? 8 : 0;
  if (width_ == 0)
    return fail(ErrorCode::kUnsupported, "values of type {}, expected '<f2', '<f4' or '<f8'", type);
  if (!behind(header, "fortran_order").starts_with("False")) {
    return fail(ErrorCode::kUnsupported, "columns first (fortran_order), expected rows first");
  }
  if (!read_shape(behind(header, "shape"), rows_, columns_) || rows_ < 0 || columns_ < 1) {
    return fail(ErrorCode::kUnsupported, "a shape that is not (rows, columns)");
  }
  offset_ = static_cast<int64_t>(start + length);
  const int64_t values = bytes - offset_;
  int64_t count = 0;
  if (__builtin_mul_overflow(rows_, columns_, &count) || count > values / width_) {
    return fail(ErrorCode::kBadData, "{} bytes of values, {} x {} of {} bytes announced", values, rows_,
                columns_, width_);
  }
  return {};
}

Result<NpyReader> NpyReader::open(const std::filesystem::path& path) {
  constexpr int64_t kMostHeader = int64_t{1} << 20;
  const auto opened = [&]() -> Result<NpyReader> {
    NpyReader reader;
    reader.path_ = path.string();
    reader.file_ = Descriptor(::open(reader.path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat status = {};
    if (reader.file_.get() < 0 || ::fstat(reader.file_.get(), &status) != 0) return fail_errno(errno, "open");
    if (!S_ISREG(status.st_mode)) return fail(ErrorCode::kBadData, "no regular file");
    std::string start(static_cast<size_t>(std::min<int64_t>(status.st_size, kMostHeader)), '\0');
    SACCADE_TRY(read_npy_bytes(reader.file_.get(), start.data(), std::ssize(start), 0));
    SACCADE_TRY(reader.parse(start, status.st_size));
    return reader;
  };
  return opened().in(path.string());
}

Result<Matrix<float>> NpyReader::read(int64_t first, int64_t count) const {
  Matrix<float> matrix(count, columns_);
  const auto out = matrix.values();
  const int64_t bytes = std::ssize(out) * width_;
  const int64_t offset = offset_ + first * columns_ * width_;
  if (width_ == sizeof(float)) {
    SACCADE_TRY(read_npy_bytes(file_.get(), reinterpret_cast<char*>(out.data()), bytes, offset).in(path_));
    return matrix;
  }
  std::string values(static_cast<size_t>(bytes), '\0');
  SACCADE_TRY(read_npy_bytes(file_.get(), values.data(), bytes, offset).in(path_));
  for (size_t i = 0; i < out.size(); ++i) {
    const char* at = values.data() + i * static_cast<size_t>(width_);
    if (width_ == 2) {
      uint16_t half = 0;
      std::memcpy(&half, at, sizeof half);
      out[i] = fp16_to_float(half);
    } else {
      double value = 0;
      std::memcpy(&value, at, sizeof value);
      out[i] = static_cast<float>(value);
    }
  }
  return matrix;
}

Result<Matrix<float>> read_npy(const std::filesystem::path& path) {
  SACCADE_ASSIGN(const NpyReader reader, NpyReader::open(path));
  return reader.read(0, reader.rows());
}

}  // namespace saccade
