// Bytes of items in a file, mapped: token states of a frozen encoder, or pixels. What an
// epoch reads instead of pictures.
//
//   the items' bytes one behind the other, then a byte an item (1: it is there), then a
//   JSON list of the others: ["name: reason", ...]
//
// The sizes are not in the file: who reads it knows them, and its name carries a
// hash of all that it was made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/files/files.h"

namespace saccade::lab {

// Immutable after open: reading from many threads is safe.
class ItemFile {
 public:
  // begin: where each item's bytes begin, and behind them where the last one's
  // end. kBadData for another size.
  static Result<ItemFile> open(const std::filesystem::path& path, std::vector<int64_t> begin);

  [[nodiscard]] int64_t size() const { return std::ssize(begin_) - 1; }
  [[nodiscard]] bool has(int64_t i) const;
  [[nodiscard]] std::span<const std::byte> bytes(int64_t i) const;
  [[nodiscard]] const std::vector<std::string>& left_out() const { return left_out_; }
  // Gives back the memory that was read; the next reader reads the file again.
  void release() const;

 private:
  MappedFile file_;
  std::vector<int64_t> begin_ = {0};
  std::vector<std::string> left_out_;
};

// Writes one, item by item; the file is there after finish() alone.
class ItemFileWriter {
 public:
  static Result<ItemFileWriter> create(const std::filesystem::path& path);
  Status add(std::span<const std::byte> bytes);
  // An item that cannot be read: zeros in its place. `why`: its name and the reason.
  Status skip(int64_t bytes, std::string why);
  Status finish();

 private:
  explicit ItemFileWriter(AtomicFile file) : file_(std::move(file)) {}
  AtomicFile file_;
  std::string flags_;
  std::vector<std::string> left_out_;
};

}  // namespace saccade::lab
