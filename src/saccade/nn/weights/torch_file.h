// Tensors from the files torch.save writes (`.bin`, `.pt`, `.pth`) and from
// TorchScript archives: a zip file whose entry `<root>/data.pkl` says which
// tensors there are, and whose entries `<root>/data/<key>` are their bytes.
//
// The pickle is read by a machine that can build nothing but tensors (pickle.h); nothing is ever executed.
// Bytes are mapped, not copied. The format before torch 1.6 (a plain pickle, or a tar file) is refused.
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

// A tensor within a storage that belongs to someone else, perhaps to several tensors. Strides are in
// elements, from 0 up; no more elements than the storage has.
struct StridedTensor {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  std::span<const std::byte> bytes;  // from the first element to the last that is reached
};

// An open file. Immutable after open: reading from many threads is safe. Tensors live as long as it does.
class TorchFile {
 public:
  // Names are the dictionary's keys, of nested dictionaries and modules joined by dots; values that are no
  // tensors are passed over. Of a dictionary with a dictionary "state_dict" (a training checkpoint) that one
  // alone is read, and the "module." that distributed training puts before every name is dropped. kBadData,
  // kUnsupported or kLimit with the entry, byte, global or tensor at fault.
  static Result<TorchFile> open(const std::filesystem::path& path);
  // The same over bytes in memory, which must outlive the result.
  static Result<TorchFile> parse(std::span<const std::byte> bytes);

  [[nodiscard]] const std::map<std::string, StridedTensor, std::less<>>& tensors() const { return tensors_; }
  // Whether the tensors' bytes are those of a mapped file, not of memory that the caller gave.
  [[nodiscard]] bool is_mapped() const { return !file_.bytes().empty(); }

 private:
  MappedFile file_;
  std::map<std::string, StridedTensor, std::less<>> tensors_;
};

// The tensors of a pickle whose storages `storage` finds by
// key: what TorchFile does once it has the archive open.
using StorageLookup = std::function<Result<std::span<const std::byte>>(std::string_view key)>;
Result<std::map<std::string, StridedTensor, std::less<>>> tensors_of_pickle(std::span<const std::byte> pickle,
                                                                            const StorageLookup& storage);

}  // namespace saccade
