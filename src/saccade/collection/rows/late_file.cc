#include "saccade/collection/rows/late_file.h"

#include <cerrno>

#include <fmt/format.h>

namespace saccade::store {
namespace {

constexpr auto kEndBytes = static_cast<int64_t>(sizeof(int64_t));

Result<int64_t> bytes_of(int64_t count, int64_t each, const std::string& name) {
  int64_t bytes = 0;
  if (count < 0 || __builtin_mul_overflow(count, each, &bytes)) {
    return fail(ErrorCode::kBadData, "{}: {} rows of {} bytes", name, count, each);
  }
  return bytes;
}

Status too_short(const std::filesystem::path& path, size_t found, int64_t count, std::string_view what,
                 int64_t bytes) {
  return fail(ErrorCode::kBadData, "{}: {} bytes, but the catalog's {} {} are {}", path.string(), found,
              count, what, bytes);
}

}  // namespace

std::filesystem::path late_rows_path(const std::filesystem::path& folder, int64_t generation) {
  return folder / fmt::format("late-{}.rows", generation);
}

std::filesystem::path late_ends_path(const std::filesystem::path& folder, int64_t generation) {
  return folder / fmt::format("late-{}.ends", generation);
}

Result<LateReader> LateReader::open(const std::filesystem::path& folder, int64_t generation, int64_t rows,
                                    const RowLayout& layout) {
  LateReader reader;
  reader.layout_ = layout;
  const auto ends_path = late_ends_path(folder, generation);
  SACCADE_ASSIGN(reader.ends_file_, MappedFile::open(ends_path));
  SACCADE_ASSIGN(const int64_t ends_bytes, bytes_of(rows, kEndBytes, ends_path.string()));
  const auto ends = reader.ends_file_.bytes();
  if (static_cast<int64_t>(ends.size()) < ends_bytes) {
    SACCADE_TRY(too_short(ends_path, ends.size(), rows, "ends", ends_bytes));
  }
  reader.ends_ = {reinterpret_cast<const int64_t*>(ends.data()), static_cast<size_t>(rows)};
  int64_t last = 0;
  for (size_t i = 0; i < reader.ends_.size(); ++i) {
    if (reader.ends_[i] <= last) {
      return fail(ErrorCode::kBadData, "{}: row {} ends at {}, the one before at {}", ends_path.string(), i,
                  reader.ends_[i], last);
    }
    last = reader.ends_[i];
  }
  const auto rows_path = late_rows_path(folder, generation);
  SACCADE_ASSIGN(reader.rows_file_, MappedFile::open(rows_path));
  SACCADE_ASSIGN(const int64_t bytes, bytes_of(last, stored_row_bytes(layout), rows_path.string()));
  if (static_cast<int64_t>(reader.rows_file_.bytes().size()) < bytes) {
    SACCADE_TRY(
        too_short(rows_path, reader.rows_file_.bytes().size(), last, "rows of late interaction", bytes));
  }
  return reader;
}

StoredRows LateReader::of(int64_t row) const {
  const int64_t begin = row == 0 ? 0 : ends_[static_cast<size_t>(row - 1)];
  return {layout_, rows_file_.bytes().data() + begin * stored_row_bytes(layout_),
          ends_[static_cast<size_t>(row)] - begin};
}

int64_t LateReader::bytes() const {
  return stored_rows() * stored_row_bytes(layout_) + static_cast<int64_t>(ends_.size_bytes());
}

Status LateWriter::create(const std::filesystem::path& folder, int64_t generation) {
  SACCADE_TRY(write_file_atomic(late_rows_path(folder, generation), ""));
  return write_file_atomic(late_ends_path(folder, generation), "");
}

Result<LateWriter> LateWriter::open(const std::filesystem::path& folder, int64_t generation, int64_t rows,
                                    const RowLayout& layout) {
  // The reader's checks, over what is mapped only here.
  SACCADE_ASSIGN(const LateReader reader, LateReader::open(folder, generation, rows, layout));
  LateWriter writer;
  writer.row_bytes_ = stored_row_bytes(layout);
  writer.rows_ = rows;
  writer.end_ = reader.stored_rows();
  const auto rows_path = late_rows_path(folder, generation);
  const auto ends_path = late_ends_path(folder, generation);
  writer.rows_name_ = rows_path.string();
  writer.ends_name_ = ends_path.string();
  SACCADE_ASSIGN(writer.rows_file_,
                 open_grown(rows_path, writer.end_ * writer.row_bytes_, "rows of late interaction"));
  SACCADE_ASSIGN(writer.ends_file_, open_grown(ends_path, rows * kEndBytes, "ends"));
  return writer;
}

Status LateWriter::append_rows(std::span<const std::span<const std::byte>> items,
                               const std::function<void()>& half_way) {
  added_.clear();
  int64_t end = end_;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i == items.size() / 2) half_way();
    SACCADE_TRY(write_at(rows_file_.get(), items[i], end * row_bytes_, rows_name_));
    end += static_cast<int64_t>(items[i].size()) / row_bytes_;
    added_.push_back(end);
  }
  return {};
}

Status LateWriter::append_ends() {
  return write_at(ends_file_.get(), std::as_bytes(std::span(added_)), rows_ * kEndBytes, ends_name_);
}

Status LateWriter::flush() {
  if (::fdatasync(rows_file_.get()) != 0) return fail_errno(errno, rows_name_ + ": flush");
  if (::fdatasync(ends_file_.get()) != 0) return fail_errno(errno, ends_name_ + ": flush");
  return {};
}

void LateWriter::committed() {
  if (added_.empty()) return;
  rows_ += static_cast<int64_t>(added_.size());
  end_ = added_.back();
  added_.clear();
}

bool LateWriter::cut() {
  added_.clear();
  return ::ftruncate(rows_file_.get(), end_ * row_bytes_) == 0 &&
         ::ftruncate(ends_file_.get(), rows_ * kEndBytes) == 0;
}

// Begin and end, in stored rows.
Result<std::pair<int64_t, int64_t>> LateWriter::span_of(int64_t row) const {
  if (row < 0 || row >= rows_) return fail(ErrorCode::kNotFound, "row {} of {}", row, rows_);
  int64_t ends[2] = {0, 0};
  const auto bytes = std::as_writable_bytes(std::span(ends));
  SACCADE_TRY(row == 0 ? read_at(ends_file_.get(), bytes.subspan(kEndBytes), 0, ends_name_)
                       : read_at(ends_file_.get(), bytes, (row - 1) * kEndBytes, ends_name_));
  // Checked when it was opened; the file may have been damaged under us since.
  if (ends[0] < 0 || ends[1] <= ends[0] || ends[1] > end_) {
    return fail(ErrorCode::kBadData, "{}: row {} is from {} to {}, of {}", ends_name_, row, ends[0], ends[1],
                end_);
  }
  return std::pair(ends[0], ends[1]);
}

Result<std::vector<std::byte>> LateWriter::read(int64_t row) const {
  SACCADE_ASSIGN(const auto span, span_of(row));
  std::vector<std::byte> bytes(static_cast<size_t>((span.second - span.first) * row_bytes_));
  SACCADE_TRY(read_at(rows_file_.get(), bytes, span.first * row_bytes_, rows_name_));
  return bytes;
}

Status LateWriter::write_compacted(const std::filesystem::path& folder, int64_t generation,
                                   std::span<const int64_t> rows,
                                   const std::function<Status()>& go_on) const {
  SACCADE_ASSIGN(AtomicFile rows_file, AtomicFile::create(late_rows_path(folder, generation)));
  SACCADE_ASSIGN(AtomicFile ends_file, AtomicFile::create(late_ends_path(folder, generation)));
  std::vector<int64_t> ends;
  int64_t end = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    SACCADE_ASSIGN(const auto bytes, read(rows[i]));
    SACCADE_TRY(rows_file.write(bytes));
    end += static_cast<int64_t>(bytes.size()) / row_bytes_;
    ends.push_back(end);
    SACCADE_TRY(go_on());
    if (ends.size() < 4096 && i + 1 < rows.size()) continue;
    SACCADE_TRY(ends_file.write(std::as_bytes(std::span(ends))));
    ends.clear();
  }
  SACCADE_TRY(rows_file.commit());
  return ends_file.commit();
}

}  // namespace saccade::store
