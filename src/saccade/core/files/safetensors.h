// The safetensors format: named tensors in one file, mapped without copying.
//
//   offset  size  what
//   0       8     N, the header's length, little-endian unsigned
//   8       N     JSON object: name -> {"dtype", "shape", "data_offsets": [begin, end]}, offsets counted from
//                 byte 8 + N; the optional key "__metadata__" maps strings to strings. May be padded
//                 with spaces.
//   8 + N   ...   the tensors' bytes, row-major, little-endian, no gaps and no overlaps, up to the end
//                 of the file
//
// The reader rejects any other input with the reason and position: it is meant for files from untrusted
// sources.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/files/files.h"

namespace saccade {

enum class DType { kBool, kU8, kI8, kU16, kI16, kF16, kBF16, kU32, kI32, kF32, kU64, kI64, kF64 };

int64_t dtype_size(DType dtype);
// Returns the format's name of a dtype: "F32", "BF16".
std::string_view dtype_name(DType dtype);

// View of a tensor's bytes, which are borrowed and need not be aligned to the element size.
struct TensorView {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;

  [[nodiscard]] int64_t elements() const;
  // Returns all elements of any floating-point dtype as float; kBadData for integers. Copies.
  [[nodiscard]] Result<std::vector<float>> to_floats() const;
  // Returns all elements of any integer dtype as int64; kBadData for floating point. Copies.
  [[nodiscard]] Result<std::vector<int64_t>> to_int64s() const;
};

// Formats as "[2, 3]", for messages.
std::string shape_text(std::span<const int64_t> shape);

// An open file. Immutable after opening, so reading from many threads is safe. Views are valid as long as the
// file is.
class SafeTensors {
 public:
  // Opens a file. Returns kBadData with the byte or tensor at fault for any violation of the format.
  static Result<SafeTensors> open(const std::filesystem::path& path);
  // Parses bytes in memory, which must outlive the result.
  static Result<SafeTensors> parse(std::span<const std::byte> bytes);

  [[nodiscard]] const std::map<std::string, TensorView, std::less<>>& tensors() const { return tensors_; }
  [[nodiscard]] const std::map<std::string, std::string, std::less<>>& metadata() const { return metadata_; }
  // Returns the tensor of that name, or nullptr.
  [[nodiscard]] const TensorView* find(std::string_view name) const;
  // Returns true if the tensors' bytes are in a mapped file, and not in memory provided by the caller.
  [[nodiscard]] bool is_mapped() const { return !file_.bytes().empty(); }

 private:
  MappedFile file_;
  std::map<std::string, TensorView, std::less<>> tensors_;
  std::map<std::string, std::string, std::less<>> metadata_;
};

struct NamedTensor {
  std::string name;
  TensorView tensor;
};

// Writes a file atomically: widest elements first, then by name, each tensor aligned. The same input gives
// the same bytes. Returns kUsage for two tensors of one name, or one named "__metadata__".
Status write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                         const std::map<std::string, std::string>& metadata = {});
// Returns the bytes of such a file. Errors likewise.
Result<std::string> safetensors_bytes(std::span<const NamedTensor> tensors,
                                      const std::map<std::string, std::string>& metadata = {});

// Returns the sorted file names in an index of sharded weights (model.safetensors.index.json): {"weight_map":
// {TENSOR: FILE, ...}, ...}. Returns kBadData for names that are not plain names of files beside it.
Result<std::vector<std::string>> shard_names(const std::filesystem::path& index);

}  // namespace saccade
