#include "saccade/collection/rows/int8_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

#include "saccade/collection/catalog/descriptor.h"
#include "saccade/collection/catalog/store.h"

namespace saccade::store {
namespace {

constexpr std::string_view kMagic = "saccade int8 v1\n";

std::string header_of(int64_t dim) {
  std::string header(kMagic);
  header.append(reinterpret_cast<const char*>(&dim), sizeof(dim));
  header.resize(static_cast<size_t>(int8_offset(0, dim)));
  return header;
}

bool has_header(std::span<const std::byte> bytes, int64_t dim) {
  const std::string header = header_of(dim);
  return bytes.size() >= header.size() && std::memcmp(bytes.data(), header.data(), header.size()) == 0;
}

int64_t whole_rows(int64_t bytes, int64_t dim) {
  return std::max(int64_t{0}, bytes - int8_offset(0, dim)) / int8_row_bytes(dim);
}

Status read_row(int rows_file, int64_t row, std::span<float> values) {
  return read_at(rows_file, std::as_writable_bytes(values), row * static_cast<int64_t>(values.size_bytes()),
                 "rows");
}

}  // namespace

std::filesystem::path int8_path(const std::filesystem::path& folder, int64_t generation) {
  return folder / fmt::format("rows-{}.i8", generation);
}

Int8Reader Int8Reader::open(const std::filesystem::path& folder, int64_t generation, int64_t rows,
                            int64_t dim) {
  Int8Reader reader;
  auto file = MappedFile::open(int8_path(folder, generation));
  if (!file) return reader;
  if (!has_header(file->bytes(), dim)) {
    reader.foreign_ = true;
    return reader;
  }
  reader.file_ = *std::move(file);
  const auto bytes = reader.file_.bytes();
  reader.rows_ = {bytes.data() + int8_offset(0, dim),
                  std::min(rows, whole_rows(static_cast<int64_t>(bytes.size()), dim)), dim};
  return reader;
}

Result<Int8Writer> Int8Writer::open(const std::filesystem::path& folder, int64_t generation, int rows_file,
                                    int64_t rows, int64_t dim) {
  const std::filesystem::path path = int8_path(folder, generation);
  const auto open_file = [&]() -> Result<Int8Writer> {
    Int8Writer writer;
    writer.name_ = path.string();
    writer.dim_ = dim;
    writer.file_ = Descriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (writer.file_.get() < 0) return fail_errno(errno, writer.name_);
    struct stat info {};
    if (::fstat(writer.file_.get(), &info) != 0) return fail_errno(errno, writer.name_);
    writer.count_ = whole_rows(info.st_size, dim);
    return writer;
  };
  const auto usable = [&](const Int8Writer& writer) -> Result<bool> {
    std::vector<std::byte> header(static_cast<size_t>(int8_offset(0, dim)));
    if (!read_at(writer.file_.get(), header, 0, writer.name_) || !has_header(header, dim)) return false;
    if (writer.count_ > rows) return false;
    // Files that were put together by hand are found by their rows: the first, the last, some between.
    constexpr int64_t kLookedAt = 32;
    for (int64_t i = 0; i < std::min(kLookedAt, writer.count_); ++i) {
      const int64_t row =
          i * (writer.count_ - 1) / std::max(int64_t{1}, std::min(kLookedAt, writer.count_) - 1);
      SACCADE_ASSIGN(const bool same, writer.agrees(rows_file, row));
      if (!same) return false;
    }
    return true;
  };
  auto writer = open_file();
  if (writer) {
    SACCADE_ASSIGN(const bool good, usable(*writer));
    if (good) return writer;
  } else if (writer.error().code != ErrorCode::kNotFound) {
    return writer;
  }
  // A new file in its place: readers keep the one that they have mapped.
  SACCADE_TRY(write_file_atomic(path, header_of(dim)));
  return open_file();
}

Result<bool> Int8Writer::agrees(int rows_file, int64_t row) const {
  std::vector<float> values(static_cast<size_t>(dim_));
  SACCADE_TRY(read_row(rows_file, row, values));
  std::vector<std::byte> stored(static_cast<size_t>(int8_row_bytes(dim_)));
  SACCADE_TRY(read_at(file_.get(), stored, int8_offset(row, dim_), name_));
  std::vector<std::byte> expected(stored.size());
  Int8Encoder(dim_).encode(values, row, expected);
  return stored == expected;
}

Status Int8Writer::update(int rows_file, int64_t rows, const std::function<void(std::string_view)>& step,
                          const ProgressCallback& progress, const std::stop_token& stop) {
  if (count_ >= rows) return {};
  const Int8Encoder encoder(dim_);
  const int64_t width = int8_row_bytes(dim_);
  const int64_t block_rows = std::max(int64_t{1}, (int64_t{1} << 20) / width);
  std::vector<float> values(static_cast<size_t>(block_rows * dim_));
  std::vector<std::byte> stored(static_cast<size_t>(block_rows * width));
  step("writing rows in eight bits");
  while (count_ < rows && !stop.stop_requested()) {
    const int64_t count = std::min(block_rows, rows - count_);
    const auto block = std::span(values).first(static_cast<size_t>(count * dim_));
    SACCADE_TRY(read_at(rows_file, std::as_writable_bytes(block),
                        count_ * dim_ * static_cast<int64_t>(sizeof(float)), "rows"));
    for (int64_t r = 0; r < count; ++r) {
      encoder.encode(block.subspan(static_cast<size_t>(r * dim_), static_cast<size_t>(dim_)), count_ + r,
                     std::span(stored).subspan(static_cast<size_t>(r * width), static_cast<size_t>(width)));
    }
    const auto bytes = std::span<const std::byte>(stored).first(static_cast<size_t>(count * width));
    // In two parts, so that a test may end the process within a row.
    const size_t half = bytes.size() / 2;
    const int64_t offset = int8_offset(count_, dim_);
    SACCADE_TRY(write_at(file_.get(), bytes.first(half), offset, name_));
    step("half of the rows in eight bits written");
    SACCADE_TRY(write_at(file_.get(), bytes.subspan(half), offset + static_cast<int64_t>(half), name_));
    count_ += count;
    if (progress) progress({"rows in eight bits", count_, rows, {}});
  }
  step("rows in eight bits written");
  return {};
}

}  // namespace saccade::store
