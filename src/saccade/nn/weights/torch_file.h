// Tensors from files written by torch.save (`.bin`, `.pt`, `.pth`) and from TorchScript archives. Such a file
// is a zip archive. Its entry `<root>/data.pkl` lists the tensors, and its entries `<root>/data/<key>` hold
// their bytes.
//
// The pickle reader can build nothing but tensors (pickle.h); nothing is ever executed. Bytes are mapped, not
// copied. The format before torch 1.6 (a plain pickle, or a tar file) is rejected.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "saccade/core/error.h"
#include "saccade/core/files/files.h"
#include "saccade/core/files/safetensors.h"
#include "saccade/nn/weights/pickle.h"
#include "saccade/nn/weights/zip_archive.h"

namespace saccade {

// Tensor in a borrowed storage, which several tensors may share. Strides are in elements, 0 or more. A tensor
// has no more elements than its storage.
struct StridedTensor {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  std::span<const std::byte> bytes;  // from the first element to the last that is reached
};

// An open file. Immutable after opening, so reading from many threads is safe. Tensors are valid as long as
// the file is.
class TorchFile {
 public:
  // Opens a file. Names are the dictionary's keys, joined by dots in nested dictionaries and modules; values
  // that are not tensors are skipped. If the dictionary has a dictionary "state_dict" (a training
  // checkpoint), only that one is read, without the "module." prefix of distributed training. Returns
  // kBadData, kUnsupported or kLimit with the offending entry, byte, global or tensor.
  static Result<TorchFile> open(const std::filesystem::path& path);
  // Parses bytes in memory, which must outlive the result.
  static Result<TorchFile> parse(std::span<const std::byte> bytes);

  [[nodiscard]] const std::map<std::string, StridedTensor, std::less<>>& tensors() const { return tensors_; }
  // Returns true if the tensors' bytes are in a mapped file, and not in memory provided by the caller.
  [[nodiscard]] bool is_mapped() const { return !file_.bytes().empty(); }

 private:
  MappedFile file_;
  std::map<std::string, StridedTensor, std::less<>> tensors_;
};

// Reads the tensors of a pickle; `storage` finds a storage by its key. TorchFile uses it after opening the
// archive.
using StorageLookup = std::function<Result<std::span<const std::byte>>(std::string_view key)>;
Result<std::map<std::string, StridedTensor, std::less<>>> tensors_of_pickle(std::span<const std::byte> pickle,
                                                                            const StorageLookup& storage);

}  // namespace saccade
