// Files of late interaction rows, several an item, beside the rows file; not for use outside this module.
//
//   late-<n>.rows   the stored rows (index/late_rows.h) of row 0's item, then of row 1's, ...; append-only
//   late-<n>.ends   one int64, little-endian, a row of the rows file: the end of its item's stored rows,
//                   counted in stored rows from the beginning of late-<n>.rows; the next item's begin there.
//                   Rising: every item has at least one
//
// <n> is the generation of the rows file. Both are appended to and flushed before the catalog's transaction.
// Only as many ends are valid as the catalog has rows; bytes behind them are debris of a crash.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "saccade/collection/catalog/descriptor.h"
#include "saccade/core/error.h"
#include "saccade/core/files/files.h"
#include "saccade/index/late_rows.h"

namespace saccade::store {

std::filesystem::path late_rows_path(const std::filesystem::path& folder, int64_t generation);
std::filesystem::path late_ends_path(const std::filesystem::path& folder, int64_t generation);

// The committed part, mapped.
class LateReader {
 public:
  // kBadData where the files are shorter than `rows` items need, or the ends do not rise.
  static Result<LateReader> open(const std::filesystem::path& folder, int64_t generation, int64_t rows,
                                 const RowLayout& layout);
  LateReader() = default;

  // Returns the stored rows of item row 0 <= row < rows. Valid as long as the object.
  [[nodiscard]] StoredRows of(int64_t row) const;
  [[nodiscard]] int64_t stored_rows() const { return ends_.empty() ? 0 : ends_.back(); }
  [[nodiscard]] int64_t bytes() const;

 private:
  MappedFile rows_file_;
  MappedFile ends_file_;
  std::span<const int64_t> ends_;
  RowLayout layout_;
};

// The write side: one change at a time is appended, then counts (committed) or is taken back (cut).
class LateWriter {
 public:
  static Status create(const std::filesystem::path& folder, int64_t generation);
  // Cuts off what lies behind `rows` items. Errors as LateReader::open.
  static Result<LateWriter> open(const std::filesystem::path& folder, int64_t generation, int64_t rows,
                                 const RowLayout& layout);
  LateWriter() = default;

  // The items' stored rows, each a multiple of stored_row_bytes
  // long. `half_way` is called between two writes.
  Status append_rows(std::span<const std::span<const std::byte>> items,
                     const std::function<void()>& half_way);
  // Appends the end offsets; call after append_rows.
  Status append_ends();
  Status flush();
  void committed();
  // False: the file could not be cut.
  [[nodiscard]] bool cut();

  // The stored rows of a committed row's item.
  [[nodiscard]] Result<std::vector<std::byte>> read(int64_t row) const;
  // Writes the items of `rows`, in that order, as generation `generation`. Stops at the first error of
  // `go_on`, called after each.
  Status write_compacted(const std::filesystem::path& folder, int64_t generation,
                         std::span<const int64_t> rows, const std::function<Status()>& go_on) const;

 private:
  [[nodiscard]] Result<std::pair<int64_t, int64_t>> span_of(int64_t row) const;

  Descriptor rows_file_;
  Descriptor ends_file_;
  std::string rows_name_;
  std::string ends_name_;
  int64_t row_bytes_ = 0;
  int64_t rows_ = 0;            // committed items
  int64_t end_ = 0;             // committed stored rows
  std::vector<int64_t> added_;  // the ends of what was appended and not committed yet
};

}  // namespace saccade::store
