// Fuzzer of files of torch.save: an accepted tensor lies within the file. The first byte selects the rest:
// "P" is a pickle alone, whose storages all are the same 32 bytes. Otherwise it is a whole file; a zip file's
// frame rejects most changes of a pickle.
#include <array>

#include "saccade/nn/weights/torch_file.h"

#include "fuzz.h"

namespace {

using namespace saccade;

void check(const StridedTensor& tensor, std::span<const std::byte> storage) {
  FUZZ_CHECK(tensor.shape.size() == tensor.strides.size());
  const bool inside =
      tensor.bytes.empty() || (tensor.bytes.data() >= storage.data() &&
                               tensor.bytes.data() + tensor.bytes.size() <= storage.data() + storage.size());
  FUZZ_CHECK(inside);
  int64_t elements = 1;
  int64_t last = 0;
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    FUZZ_CHECK(tensor.shape[i] >= 0 && tensor.strides[i] >= 0);
    if (tensor.shape[i] == 0) return;
  }
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    elements *= tensor.shape[i];
    last += (tensor.shape[i] - 1) * tensor.strides[i];
  }
  FUZZ_CHECK(elements <= static_cast<int64_t>(storage.size()));
  FUZZ_CHECK((last + 1) * dtype_size(tensor.dtype) == static_cast<int64_t>(tensor.bytes.size()));
}

}  // namespace

int fuzz_input(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  if (bytes.empty()) return 0;
  if (data[0] == 'P') {
    static const std::array<std::byte, 32> kStorage{};
    const auto tensors = tensors_of_pickle(
        bytes.subspan(1), [](std::string_view) -> Result<std::span<const std::byte>> { return kStorage; });
    if (!tensors) return 0;
    for (const auto& [name, tensor] : *tensors) check(tensor, kStorage);
    return 0;
  }
  const auto file = TorchFile::parse(bytes.subspan(1));
  if (!file) {
    FUZZ_CHECK(!file.error().message.empty());
    return 0;
  }
  for (const auto& [name, tensor] : file->tensors()) check(tensor, bytes);
  return 0;
}
