// Mapped file of items' bytes: token states of a frozen encoder, or pixels. An epoch reads it instead of
// images.
//
//   the items' bytes one behind the other, then one byte per item (1: present), then a
//   JSON list of the missing ones: ["name: reason", ...]
//
// The file does not contain the sizes: its reader knows them. Its name carries a hash of all its inputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/files/files.h"

namespace saccade::lab {

// Immutable after open: reading from many threads is safe.
class ItemFile {
 public:
  // Opens a file. begin: the offset of each item's bytes, and the end of the last one. Returns kBadData for
  // another size.
  static Result<ItemFile> open(const std::filesystem::path& path, std::vector<int64_t> begin);

  [[nodiscard]] int64_t size() const { return std::ssize(begin_) - 1; }
  [[nodiscard]] bool has(int64_t i) const;
  [[nodiscard]] std::span<const std::byte> bytes(int64_t i) const;
  [[nodiscard]] const std::vector<std::string>& left_out() const { return left_out_; }
  // Releases the memory that was read; later accesses read the file again.
  void release() const;

 private:
  MappedFile file_;
  std::vector<int64_t> begin_ = {0};
  std::vector<std::string> left_out_;
};

// Writes an item file, item by item. The file exists only after finish().
class ItemFileWriter {
 public:
  static Result<ItemFileWriter> create(const std::filesystem::path& path);
  Status add(std::span<const std::byte> bytes);
  // Writes zeros in place of an unreadable item. `why`: its name and the reason.
  Status skip(int64_t bytes, std::string why);
  Status finish();

 private:
  explicit ItemFileWriter(AtomicFile file) : file_(std::move(file)) {}
  AtomicFile file_;
  std::string flags_;
  std::vector<std::string> left_out_;
};

}  // namespace saccade::lab
