// Fuzzer of safetensors: an accepted tensor lies within the file and can be read to its last byte.
#include "saccade/core/files/safetensors.h"

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace saccade;
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto file = SafeTensors::parse(bytes);
  if (!file) {
    FUZZ_CHECK(!file.error().message.empty());
    return 0;
  }
  size_t total = 0;
  for (const auto& [name, tensor] : file->tensors()) {
    FUZZ_CHECK(file->find(name) == &tensor);
    FUZZ_CHECK(tensor.elements() * dtype_size(tensor.dtype) == static_cast<int64_t>(tensor.bytes.size()));
    if (!tensor.bytes.empty()) {
      FUZZ_CHECK(tensor.bytes.data() >= bytes.data() &&
                 tensor.bytes.data() + tensor.bytes.size() <= bytes.data() + bytes.size());
    }
    total += tensor.bytes.size();
    const auto floats = tensor.to_floats();
    const auto integers = tensor.to_int64s();
    FUZZ_CHECK(!(floats && integers));
  }
  FUZZ_CHECK(total <= size);
  return 0;
}
